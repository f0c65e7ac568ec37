"""Defines the options that several commands share, and finds the project, the store and the runs that they select.

This module imports nothing slow.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from skillrun import registry
from skillrun.cli.output import Output
from skillrun.library.roots import enclosing_project, search_path
from skillrun.syntax.diagnostics import UsageError, allowed_hint, did_you_mean
from skillrun.syntax.reading import PipedFile, is_outside
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.records import MAX_NUMBER

if TYPE_CHECKING:
    from skillrun.definitions.definitions import Workflow
    from skillrun.store.stored_run import SharedStore, Store, StoredRun
    from skillrun.types.fields import Field

INPUT_PREFIX: Final = "input_"
MODEL_VARIABLE: Final = "SKILLRUN_MODEL"
STORE_VARIABLE: Final = "SKILLRUN_STORE"
QUEUE_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
DURATION_PATTERN: Final = re.compile(r"(\d+)([smhd])")
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def check_links(path: Path) -> None:
    """Raise UsageError if a link in the project leads a path out of the project."""
    absolute, project = Path(os.path.abspath(path)), current_project()  # noqa: PTH100 (does not resolve links)
    if absolute.is_relative_to(project) and is_outside(absolute, project):
        raise UsageError(f"{path} is a link to outside the project", "replace the link, or choose another path")


class ExistingFile(click.Path):
    """An existing file, which the user may name anywhere. A link in the project cannot lead out of it.

    It may be a pipe, as in `--answers <(…)`, or `-` for standard input.
    """

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = os.fsdecode(super().convert(value, param, ctx))
        path = Path("/dev/stdin" if name == "-" else name)
        check_links(path)
        is_stream = path.parent in (Path("/dev"), Path("/dev/fd"))  # a project may be in /dev/shm
        if path.is_file() and not is_stream:
            return path
        if not is_stream and not is_outside(path, current_project()):  # a pipe in the project may never end
            self.fail(f"{path} is not a regular file", param, ctx)
        with path.open("rb") as pipe:
            content = pipe.read(MAX_BYTES + 1)  # one byte more than is allowed, so that the reader reports it
        folder = TemporaryDirectory(prefix="skillrun-")
        click.get_current_context().call_on_close(folder.cleanup)
        copy = PipedFile(folder.name, path.name)
        copy.write_bytes(content)
        return copy


FILE = ExistingFile()


def current_project() -> Path:
    """Return the project around the current folder if it belongs to this user, otherwise the current folder."""
    folder = Path.cwd()
    project = enclosing_project(folder)
    return folder if project is None or is_foreign(project) else project


def is_foreign(project: Path) -> bool:
    """Whether another user may have created the folder `project`. In `/tmp`, any user can create a project."""
    for part in (".", "workflows", "skills", "roles", "config"):
        try:
            status = (project / part).stat()
        except OSError:  # missing or unreadable
            continue
        is_protected = status.st_uid == 0 and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if status.st_uid != os.geteuid() and not is_protected:
            return True
    return False


def relative_to_cwd(path: Path) -> Path:
    """Return a path relative to the current folder."""
    return Path(os.path.relpath(path))


def relative_to_project(text: str) -> str:
    """Return a path relative to the project, given a path relative to the current folder."""
    path, folders = Path(text), list(Path.cwd().relative_to(current_project()).parts)
    if path.is_absolute() or not folders or not text:
        return text
    parts = list(path.parts)
    while parts and folders and parts[0] == "..":  # the folders below the project are not links
        del parts[0], folders[-1]
    return os.path.join(*folders, *parts) if folders or parts else "."  # noqa: PTH118 (keeps `..`)


def parse_duration(text: str) -> timedelta:
    """Return a duration such as `30s`, `10m`, `2h` or `1d`."""
    found = DURATION_PATTERN.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"`{text}` is not a valid duration. Use 30s, 10m, 2h or 1d.")
    return timedelta(**{UNITS[found[2]]: int(found[1])})


def parse_queue(text: str) -> str:
    """Return the name of a queue, which is part of the names of Postgres notification channels."""
    if QUEUE_PATTERN.fullmatch(text) is None:
        allowed = "up to 40 lower-case letters, digits, `_`, `.` and `-`, starting with a letter or digit"
        raise click.BadParameter(f"`{text}` is not a valid queue name. Use {allowed}.")
    return text


def _parse_budget(_context: click.Context, _parameter: click.Parameter, text: str) -> dict[str, float]:
    """Return limits parsed from a text such as `calls=20,price=1.5`."""
    from skillrun.library.settings import LIMIT_NAMES

    limits: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, amount = (piece.strip() for piece in part.partition("="))
        if name not in LIMIT_NAMES:
            raise click.BadParameter(
                f"`{name}` is not a valid budget; {did_you_mean(name, LIMIT_NAMES) or allowed_hint(LIMIT_NAMES)}"
            )
        try:
            limits[name] = float(amount)
        except ValueError:
            limits[name] = -1
        if not 0 <= limits[name] <= MAX_NUMBER:
            raise click.BadParameter(
                f"`{name}` cannot be `{amount}`; use a number from 0 to 10^18. Example: `{name}=100`."
            )
    return limits


def _resolve_runs_folder(context: click.Context, parameter: click.Parameter, runs: Path) -> Path:
    """Return the folder of the runs. Raises UsageError if the default folder is a link to outside the project."""
    if context.get_parameter_source(str(parameter.name)) is not ParameterSource.DEFAULT:
        return runs
    project = current_project()
    runs = relative_to_cwd(project / runs)
    if runs.is_symlink() and is_outside(runs, project):
        raise UsageError(f"`{runs}` is a link to outside the project", f"`--out {runs}` uses it anyway")
    return runs


store = click.option(
    "--store",
    default="",
    metavar="URL",
    expose_value=False,
    callback=lambda context, _parameter, url: context.find_root().meta.update({STORE_VARIABLE: url}),
    help=f"Use a store (postgresql://…) instead of a folder. Also set by {STORE_VARIABLE}.",
)


def runs_folder_as(name: str) -> Callable[[Any], Any]:
    """Return a decorator that adds the options `--out` and `--store`. The folder is passed as the parameter `name`."""
    folder = click.option(
        "--out",
        name,
        type=click.Path(path_type=Path),
        default=Path("runs"),
        callback=_resolve_runs_folder,
        metavar="DIR",
        help="The folder that contains the runs.",
    )
    return lambda command: folder(store(command))


runs_folder = runs_folder_as("runs")
quiet = click.option("--quiet", "-q", is_flag=True, help="Print only phases, warnings and the result.")
as_json = click.option(
    "--json",
    "out",
    is_flag=True,
    callback=lambda _context, _parameter, json: Output(json),
    help="Print only JSON to standard output.",
)
unattended = click.option("--unattended", is_flag=True, help="Never ask: use prepared answers and defaults.")
interactive = click.option(
    "--interactive", is_flag=True, help="Ask in the terminal even when the run would pause for your answers."
)
answers = click.option(
    "--answers", type=FILE, metavar="FILE", help="Read prepared answers to questions from a YAML file."
)
trust_project = click.option(
    "--trust-project", is_flag=True, help="Trust this project's provider addresses, for this command only."
)
script = click.option(
    "--script", type=FILE, metavar="FILE", help="For tests: use the replies in this file instead of calling a model."
)
model = click.option(
    "--model", default="", metavar="NAME", envvar=MODEL_VARIABLE, help="Use this model for every call."
)
share = click.option("--share", is_flag=True, help="Let other users read the run's files, whatever your umask is.")
version = click.option(
    "--version",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="If a call has several prompts, from rounds or edits, use number N. Default: the latest.",
)
budget = click.option(
    "--budget",
    callback=_parse_budget,
    default="",
    metavar="LIMITS",
    help="Limit the run, for example `calls=20,price=1.50`. Limits: calls, tokens, price (dollars), minutes.",
)


def select_store(runs: Path) -> Store:
    """Return the store at the configured URL or, without a URL, the store in the folder."""
    if url := store_url():
        return open_store(url).runs
    from skillrun.store.local.local_store import LocalStore

    return LocalStore(runs)


def open_store(url: str) -> SharedStore:
    """Return the store at a URL, opened by the extension that registers its scheme. Raises SkillrunError."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise UsageError("the store URL has no scheme", "use postgresql://user@host:5432/database")
    if not registry.is_registered("stores", scheme):
        schemes = [*registry.names("stores")]
        hint = did_you_mean(scheme, schemes) or allowed_hint(schemes)
        raise UsageError(f"no store is registered for URLs that start with `{scheme}://`", hint)
    open_registered = registry.load("stores", scheme)
    with registry.report_failure("stores", scheme):
        store: SharedStore = open_registered(url)
        return store


def require_store_url() -> str:
    """Return the URL of the store. Raises UsageError if none is set."""
    if url := store_url():
        return url
    raise UsageError(
        "no store is configured",
        f"use `--store postgresql://…`, or set {STORE_VARIABLE}, or `store` in your user config/skillrun.yaml",
    )


def store_url() -> str:
    """Return the store's URL from the option, the environment or the user config, never from a project's files."""
    context = click.get_current_context(silent=True)
    option = context.find_root().meta.get(STORE_VARIABLE, "") if context is not None else ""
    if option or STORE_VARIABLE in os.environ:
        return str(option or os.environ[STORE_VARIABLE])
    from skillrun.library.settings import user_store_url

    return user_store_url(search_path(current_project()))


def locate_run(run: str, runs: Path) -> tuple[Store, str]:
    """Return the store that contains a run, and the run's name in it. `run` is a slug, or the path of a folder.

    Raises UsageError if a path begins in the runs folder and leads out of it, with `..` or a link.
    """
    from skillrun.store.local.local_store import LocalStore

    if os.sep not in run:
        return select_store(runs), unicodedata.normalize("NFC", run)
    folder = run_folder_path(run, runs)
    outside = Path(os.path.realpath(folder.parent))
    if runs.absolute() in folder.parents and not outside.is_relative_to(Path(os.path.realpath(runs))):
        hint = f"type the path itself: {outside / folder.name}"
        raise UsageError(f"`{run}` leads out of the runs folder `{runs}`", hint)
    return LocalStore(folder.parent), folder.name


def run_folder_path(run: str, runs: Path) -> Path:
    """Return the folder of a run. `run` is its slug, or the path of its folder."""
    return Path(run).absolute() if os.sep in run else (runs / run).absolute()


def open_run(run: str, runs: Path) -> StoredRun:
    """Return a run. `run` is its slug, or the path of its folder. Raises UsageError."""
    run_store, name = locate_run(run, runs)
    return run_store.open_run(name)


def resolve_path_inputs(workflow: Workflow, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs with paths made relative to the project."""
    resolved = dict(values)
    for field in workflow.inputs:
        value = values.get(field.name)
        if field.item.word != "path" or value is None:
            continue
        if field.is_list:
            parts = value.split(",") if isinstance(value, str) else value
            resolved[field.name] = [relative_to_project(part.strip()) for part in parts if part.strip()]
        elif isinstance(value, str):
            resolved[field.name] = relative_to_project(value)
    return resolved


def parameter_name(field: Field) -> str:
    """Return the parameter name of a workflow input. It differs from the names of all options."""
    return INPUT_PREFIX + field.name.replace("-", "_")
