"""Loads a workflow with all files that it uses. An error in any of them ends the command before a model is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

import click

from skillrun.cli.options import current_project, is_foreign, relative_to_cwd
from skillrun.cli.output import Output
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.library.roots import SKILL_FILE, enclosing_project, search_path
from skillrun.syntax.diagnostics import (
    Problem,
    Problems,
    SkillrunError,
    UsageError,
    allowed_hint,
    did_you_mean,
)
from skillrun.syntax.reading import PipedFile

if TYPE_CHECKING:
    from skillrun.checker.program import Program
    from skillrun.events import Listener
    from skillrun.library.library import Library
    from skillrun.library.privileged_settings import PrivilegedSetting
    from skillrun.models.catalogue import Catalogue
    from skillrun.models.entries import ConcurrencyLimits, ResolvedModel
    from skillrun.models.messages import Gateway
    from skillrun.models.scripted import Rule
    from skillrun.runtime.run import Responder, Session

MAX_OVERRIDES: Final = 5  # paths in a hint
NOTHING_RUN: Final = "Nothing was run and nothing was spent."


def open_library(project: Path | None = None) -> Library:
    from skillrun.library.library import Library

    return Library(search_path(Path(os.path.realpath(project or current_project()))))


def open_catalogue(library: Library, *, trusted: bool = False) -> Catalogue:
    """Return the model catalogue of a library without problems.

    Providers with untrusted settings are blocked. With `trusted`, all settings of the project count as trusted.
    """
    from skillrun.library.privileged_settings import origins
    from skillrun.models.catalogue import Catalogue

    models = library.config("models")
    catalogue = Catalogue.from_config(models.data, origins(models)) if models else Catalogue.from_config({})
    catalogue = catalogue.apply_base_urls(os.environ)
    reasons: dict[str, str] = {}
    for setting in () if trusted else untrusted_settings(library):
        moved = setting.key.endswith(".base_url") and catalogue.providers[setting.provider].origin != setting.location
        if not moved:  # the environment overrides the project's address
            reasons.setdefault(setting.provider, f"{setting.location} is not trusted")
    return catalogue.block_providers(reasons)


def untrusted_settings(library: Library) -> tuple[PrivilegedSetting, ...]:
    """Return the project's settings that need the user's trust and do not have it."""
    from skillrun.library.privileged_settings import consent_digest, find_privileged_settings, has_consent

    settings = find_privileged_settings(library)
    return () if not settings or has_consent(library.project, consent_digest(settings)) else settings


def cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("skillrun")


@dataclass(frozen=True)
class Script:
    """The replies of a scripted model, and the file that contains them."""

    rules: Sequence[Rule]
    path: Path

    @property
    def command_flags(self) -> dict[str, str]:
        """The flag that selects this script on a command line, with its value. A pipe has none."""
        return {} if isinstance(self.path, PipedFile) else {"--script": quote(str(self.path))}


@dataclass(frozen=True)
class LoadedWorkflow:
    """A checked workflow that is ready to run."""

    program: Program
    catalogue: Catalogue
    project: Path = field(default_factory=current_project)

    def build_session(
        self,
        gateway: Gateway,
        responder: Responder,
        listener: Listener | None = None,
        cache: Path | None = None,
        **chosen: Any,
    ) -> Session:
        """Return the session for a run with the RunOptions in `chosen`.

        Without a `cache`, no list of models is requested from a provider.
        """
        from skillrun.runtime.run import RunOptions, Services, Session

        listeners = [listener] if listener is not None else []
        services = Services(self.catalogue, gateway, responder, listeners, os.environ, cache)
        return Session(self.program, services, RunOptions(self.project, **chosen))

    def copy_for_thread(self) -> Self:
        """Return a copy with its own lookups, for use in another thread."""
        return replace(self, program=self.program.copy_for_thread())

    def check_worker(self, override: str, inputs: Mapping[str, Any], pinned: Mapping[str, str]) -> None:
        """Raise SkillrunError if this machine lacks a key that the run or one of its `pinned` models needs.

        The embedded model does not replace a missing key, because another machine may have the key.
        """
        self.check_models(override, inputs, keys=True, pinned=pinned)
        for name, resolved in self.resolve_models(override, pinned).items():
            if name in self.catalogue.tiers and resolved.is_embedded_fallback:
                message = f"`{name}` would be {resolved.model} on this machine, because no provider key is set"
                raise SkillrunError(message, "set a key, or submit the run with `--model`")

    def check_models(
        self, override: str, inputs: Mapping[str, Any], *, keys: bool, pinned: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Raise UsageError if a model is unknown.

        With `keys`, raise SkillrunError if a key is missing, or if the embedded model is used and its extra is not
        installed.
        """
        from skillrun.installation import extra_hint, has_local_model
        from skillrun.library.lookups import Lookups, referenced_models

        if override and (wrong := Lookups(self.program.library).models.check_model(override)):
            raise UsageError(wrong.message, wrong.hint)
        input_models = referenced_models(self.program.library, self.program.workflow, inputs, override)
        required_names = {*self.catalogue.tiers, *input_models, *pinned}
        for name, resolved in self.resolve_models(override, pinned, input_models).items():
            provider = self.catalogue.providers.get(resolved.provider)
            if not keys or name not in required_names or provider is None:
                continue
            if not provider.is_configured(os.environ):
                hint = f"set {provider.key}, or use another model with `--model`; `skillrun models` lists them"
                message = f"`{name}` needs a key: it is {resolved.model}, and {provider.key} is not set"
                raise SkillrunError(message, hint)
            if provider.kind == "embedded" and not has_local_model():
                message = f"`{name}` cannot be used: it is {resolved.model}, which needs xllamacpp (not installed)"
                variables = [each.key for each in self.catalogue.providers.values() if each.strong and each.key]
                raise SkillrunError(
                    message, f"set {' or '.join(variables)}, or install xllamacpp: {extra_hint('local')}"
                )

    def resolve_models(
        self, override: str, pinned: Mapping[str, str] = MappingProxyType({}), extra_names: Iterable[str] = ()
    ) -> dict[str, ResolvedModel]:
        """Return the resolved model of each tier, of each role, and of each name in `extra_names`.

        `pinned` has the models that a resumed run already uses.
        """
        library = self.program.library
        models = (role.model_under(override) for role in library.loaded_roles())
        names = dict.fromkeys([*self.catalogue.tiers, *models, *extra_names, *pinned])
        return {
            name: self.catalogue.resolve(pinned.get(name) or name, os.environ, "" if pinned.get(name) else override)
            for name in names
        }

    def open_gateway(
        self, script: Script | None, progress: Callable[[str], None], limits: ConcurrencyLimits | None = None
    ) -> Gateway:
        """Return a gateway to the models or to a script's replies. `limits` bounds the calls of several gateways."""
        from skillrun.models.gateway import ModelGateway, ProcessLimits
        from skillrun.models.scripted import ScriptedGateway

        if script is not None:
            return ScriptedGateway(script.rules)
        return ModelGateway(self.catalogue, os.environ, cache_folder(), progress, limits or ProcessLimits())


def load(
    name: str, out: Output, library: Library | None = None, consequence: str = NOTHING_RUN, *, trusted: bool = False
) -> LoadedWorkflow:
    """Return the checked workflow; print all problems, and exit if any is an error."""
    from skillrun.checker.checker import check_workflow

    library = library or open_library()
    require_workflow(name, library)
    program = check_workflow(library, name, RESERVED_NAMES)
    library.config("models")
    exit_on_errors(problems_for_display(library), out, consequence)
    assert program is not None
    return LoadedWorkflow(program, open_catalogue(library, trusted=trusted))


def load_from_project(project: Path, name: str) -> LoadedWorkflow | list[Problem]:
    """Return the checked workflow of another project, or its errors."""
    from skillrun.checker.checker import check_workflow

    library = open_library(project)
    program = check_workflow(library, name, RESERVED_NAMES)
    library.config("models")
    errors = [problem for problem in library.problems if problem.severity == "error"]
    return errors if program is None or errors else LoadedWorkflow(program, open_catalogue(library), project)


def require_workflow(name: str, library: Library) -> None:
    """Raise UsageError if the workflow does not exist."""
    if library.locate(f"workflows/{name}.md") is None:
        from skillrun.cli.usage_errors import path_hint

        known = library.names("workflows")
        hint = other_project_hint(name) or path_hint(name, known) or did_you_mean(name, known) or allowed_hint(known)
        raise UsageError(f"there is no workflow `{name}`", hint)


def other_project_hint(name: str) -> str:
    """Return a hint if an enclosing project of another user has the workflow; empty if not."""
    project = enclosing_project(Path.cwd())
    if project is None or project == Path.cwd() or not is_foreign(project):
        return ""
    if not (project / "workflows" / f"{name}.md").is_file():
        return ""
    folder = quote(str(relative_to_cwd(project)))
    return (
        f"{project} has this workflow, but is ignored because another user owns it; "
        f"if you trust this project, run the command there: `cd {folder}`"
    )


def problems_for_display(library: Library) -> list[Problem]:
    """Return the problems of a library with paths relative to the current folder."""
    return prefix_problem_paths(name_overrides(library), str(relative_to_cwd(current_project())))


def name_overrides(library: Library) -> list[Problem]:
    """Return the problems of a library. The hint of each error in a shipped file names the files that cause it, which
    replace shipped files: those that the message mentions, or all."""
    overrides, problems = library.overrides(), []
    stems = {name: name.removesuffix(f"/{SKILL_FILE}").removesuffix(".md") for name in overrides}
    for problem in library.problems:
        hint = problem.hint
        if overrides and problem.severity == "error" and problem.path.startswith(library.roots[-1].label):
            mentioned = [name for name, stem in stems.items() if f"`{stem.rpartition('/')[2]}`" in problem.message]
            paths = [path for name in mentioned or overrides if (path := overrides[name]) not in hint]
            more = f" and {len(paths) - MAX_OVERRIDES} more" if len(paths) > MAX_OVERRIDES else ""
            cause = f"your files replace shipped ones: {', '.join(paths[:MAX_OVERRIDES])}{more}" if paths else ""
            hint = "; ".join(filter(None, (hint, cause)))
        problems.append(problem if hint == problem.hint else replace(problem, hint=hint))
    return problems


def prefix_problem_paths(problems: Iterable[Problem], folder: str) -> list[Problem]:
    """Return the problems, with `folder` added before the paths of project files."""
    if folder == ".":
        return list(problems)
    outside, prefix = ("~config/", "skillrun:"), f"{folder.rstrip('/')}/"
    return [
        problem if problem.path.startswith(outside) else replace(problem, path=f"{prefix}{problem.path}")
        for problem in problems
    ]


def exit_on_errors(problems: Iterable[Problem], out: Output, consequence: str = NOTHING_RUN, *, code: int = 1) -> None:
    """Print the problems; if any is an error, print the consequence and exit."""
    problems = list(problems)
    for problem in problems:
        out.problem(problem)
    if any(problem.severity == "error" for problem in problems):
        out.note(consequence)
        out.data({"problems": [asdict(problem) for problem in problems]})
        raise click.exceptions.Exit(code)


def load_script(path: Path | None, out: Output) -> Script | None:
    """Return the replies of a scripted model; print problems, and exit if any is an error."""
    from skillrun.models.scripted import read_script
    from skillrun.syntax.document import read_yaml

    if path is None:
        return None
    problems = Problems()
    rules = read_yaml(path, problems, read_script)
    exit_on_errors(problems, out)
    return Script(rules or [], path)
