"""`skillrun eject`: copies a shipped file into the project, so that the user can change it. Overwrites no file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

import click

from skillrun.cli import completion
from skillrun.cli.new import has_file
from skillrun.cli.options import as_json, current_project, relative_to_cwd
from skillrun.cli.output import Output
from skillrun.extensions.authoring.ejected import SHIPPED_PREFIX, eject, find_overrides
from skillrun.library.roots import package_library, shipped_files
from skillrun.syntax.diagnostics import Suggestion, UsageError, did_you_mean


@click.command(
    name="eject",
    help="Copy the built-in file PATH, such as skills/plan/research.md, into the project, so that you can change it.",
)
@click.argument("path", shell_complete=completion.shipped_paths)
@as_json
def eject_command(path: str, json: bool) -> int:
    out, project = Output(json), current_project()
    name = path.removeprefix(SHIPPED_PREFIX).removeprefix("./")
    _check_shipped(name)
    target = relative_to_cwd(project / name)
    file = next((file for file in find_overrides(project) if file.path == name), None)
    if file is not None and file.current is not None and file.original is not None:
        raise UsageError(
            f"{target} is already ejected", "`skillrun outdated` shows whether the shipped file has changed"
        )
    if has_file(project, name) and (file is None or file.current != file.shipped):
        hint = "your file overrides the shipped file; `skillrun outdated --diff` shows the differences"
        raise UsageError(f"{target} already exists", hint)
    created = eject(project, name)
    for path_made in created:
        out.line(f"created  {relative_to_cwd(project / path_made)}")
    out.line(
        f"next: edit {target}; `skillrun outdated` shows whether the shipped file has changed; `--merge` merges it"
    )
    out.data({"made": created})
    return 0


def _check_shipped(name: str) -> None:
    """Raise UsageError if `name` is not a shipped file, or is a config file."""
    shipped = shipped_files()
    if name not in shipped:
        inside = [path for path in shipped if path.startswith(f"{name.rstrip('/')}/")]
        hint = f"one of {', '.join(inside)}" if inside else _suggest_path(name, shipped)
        raise UsageError(f"`{name}` is not a shipped file", hint or f"the shipped files are in {package_library()}")
    if name.startswith("config/"):
        hint = (
            f"in the project's {name}, write only the keys that you change; {package_library() / name} lists all keys"
        )
        raise UsageError(f"{name} cannot be ejected: config files are merged key by key", hint)


def _suggest_path(name: str, known: Sequence[str]) -> str:
    """Return a hint with the paths that the name may refer to, or with the closest path."""
    last = PurePosixPath(name).name
    named = [path for path in known if last in (PurePosixPath(path).name, PurePosixPath(path).stem)]
    if not named and not (near := did_you_mean(name, known)):
        stems = {PurePosixPath(path).stem: path for path in known}
        near = did_you_mean(last, stems)
        named = [stems[near.meant]] if isinstance(near, Suggestion) else []
    return f"did you mean {' or '.join(f'`{path}`' for path in named)}?" if named else near
