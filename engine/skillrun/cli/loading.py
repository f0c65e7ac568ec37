"""Loads a workflow with everything it uses. With an error in any of its files nothing is run and nothing is spent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillrun.cli.printing import Output
from skillrun.cli.registry import COMMANDS

if TYPE_CHECKING:
    from skillrun.language.check import Program
    from skillrun.language.diagnostics import Problem
    from skillrun.language.library import Library
    from skillrun.models.catalogue import Catalogue
    from skillrun.models.messages import Gateway
    from skillrun.runtime.events import Listener
    from skillrun.runtime.run import Person
    from skillrun.runtime.session import Session

Script = Iterable[Mapping[str, Any]] | None


def open_library(project: Path | None = None) -> Library:
    from skillrun.language.library import Library
    from skillrun.language.roots import search_path

    return Library(search_path((project or Path.cwd()).resolve()))


def open_catalogue(library: Library) -> Catalogue:
    from skillrun.models.catalogue import Catalogue

    models = library.config("models")
    return Catalogue.of(models.data if models else {}).located(os.environ)


def cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("skillrun")


@dataclass(frozen=True)
class Loaded:
    """A workflow that may be run."""

    program: Program
    catalogue: Catalogue

    def session(
        self,
        gateway: Gateway,
        person: Person,
        listeners: Iterable[Listener],
        *,
        override: str = "",
        budget: Mapping[str, float] | None = None,
        offline: bool = False,
        estimate: Mapping[str, Any] | None = None,
    ) -> Session:
        """What a run needs; `offline` asks no provider for its list of models."""
        from skillrun.runtime.session import Session

        return Session(
            self.program,
            self.catalogue,
            gateway,
            person,
            listeners=tuple(listeners),
            environ=os.environ,
            override=override,
            budget=budget or {},
            cache=None if offline else cache_folder(),
            estimate=estimate,
        )

    def gateway(self, script: Script, progress: Callable[[str], None]) -> Gateway:
        """The way to the models; with a script, to its replies alone."""
        from skillrun.models.gateway import open_gateway
        from skillrun.models.scripted import ScriptedGateway

        if script is not None:
            return ScriptedGateway(script)
        return open_gateway(self.catalogue, os.environ, cache_folder(), progress)


def load(name: str, out: Output, library: Library | None = None) -> Loaded:
    """The checked workflow; prints every problem, and ends the command when one of them is an error."""
    from skillrun.language.check import check_workflow

    library = library or open_library()
    if library.locate(f"workflows/{name}.md") is None:
        from skillrun.language.diagnostics import UsageError, allowed, did_you_mean

        known = library.names("workflows")
        raise UsageError(f"there is no workflow `{name}`", did_you_mean(name, known) or allowed(known))
    program = check_workflow(library, name, COMMANDS)
    library.config("models")
    refuse(library.problems, out)
    assert program is not None
    return Loaded(program, open_catalogue(library))


def refuse(problems: Iterable[Problem], out: Output) -> None:
    """Print the problems; with an error among them, end the command."""
    from skillrun.language.diagnostics import render

    found = list(problems)
    for problem in found:
        out.note(render(problem) + "\n")
    if any(problem.severity == "error" for problem in found):
        out.note("Nothing was run and nothing was spent.")
        out.data({"problems": [asdict(problem) for problem in found]})
        raise click.exceptions.Exit(1)


def read_script(path: Path, out: Output) -> Script:
    """The replies of a scripted model. Raises UsageError where the file is no list of mappings."""
    from skillrun.language.diagnostics import Problems, UsageError
    from skillrun.language.source import plain, read_source
    from skillrun.language.yaml import parse_yaml

    problems = Problems()
    source = read_source(path, str(path), problems)
    node = parse_yaml(source, 0, len(source.text), problems) if source else None
    refuse(problems, out)
    rules = plain(node) if node is not None else []
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise UsageError(
            f"{path} is no script", "it is a list of replies such as `- {address: 'plan/setup/*', text: …}`"
        )
    return rules
