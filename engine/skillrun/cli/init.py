"""`skillrun init`: creates a project with an example workflow. It overwrites no files."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import Final

import click

from skillrun.cli.options import as_json
from skillrun.cli.output import Output
from skillrun.cli.project_folder import relative_to_cwd
from skillrun.cli.starter_files import has_file, load_starter, write_missing_files
from skillrun.library.roots import enclosing_project
from skillrun.syntax.diagnostics import UsageError

EXAMPLE: Final = "hello.md"
HOOK: Final = ".pre-commit-config.yaml"
EXAMPLE_FOLDERS: Final = ("workflows/", "skills/", "roles/", "config/", "tests/")


@click.command(
    help="Create a project with an example workflow in FOLDER. Default: the current folder. Overwrites nothing."
)
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@as_json
def init(folder: Path, json: bool) -> int:
    out = Output(json)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", "name a folder, or leave it out to use the current one")
    outer_project = enclosing_project(Path(os.path.abspath(folder)).parent)  # noqa: PTH100 (does not resolve links)
    folder.mkdir(parents=True, exist_ok=True)
    files = load_starter("project", {})
    example = not any(path.name != EXAMPLE for path in (folder / "workflows").glob("*.md"))
    if not example:
        files = {name: text for name, text in files.items() if not name.startswith(EXAMPLE_FOLDERS)}
    top = _repository_above(folder)
    if top is not None:
        del files[HOOK]
    written = write_missing_files(folder, files)
    untouched = [name for name in files if name not in written]
    for name in written:
        out.line(f"created     {folder / name}")
    for name in untouched:
        out.line(f"kept        {folder / name}")
    if not example:
        out.line("left out    the example: the project has workflows")
    if top is not None:
        out.line(f"left out    {HOOK}: it belongs in the root of the repository, {top}")
    if outer_project is not None:
        out.note(f"note: this project is inside the project {outer_project}, and separate from it")
    steps = _next_steps(folder, example=example and has_file(folder, f"workflows/{EXAMPLE}"))
    out.line("next:")
    for step in steps:
        out.line(f"  {step}")
    out.data({"made": written, "left_alone": untouched, "next": steps})
    return 0


def _repository_above(folder: Path) -> Path | None:
    """Return the root of the repository that contains the folder; None if it is in no repository, or is the root."""
    place = folder.resolve()
    if os.path.lexists(place / ".git"):
        return None
    return next((above for above in place.parents if os.path.lexists(above / ".git")), None)


def _next_steps(folder: Path, *, example: bool) -> list[str]:
    """Return the commands to run next."""
    place = str(relative_to_cwd(folder.resolve()))
    steps = [f"cd {quote(place)}"] if place != "." else []
    if example:
        steps += ["skillrun hello Ada --model scripted:default", "skillrun test"]
    return [*steps, "skillrun validate", "skillrun new workflow NAME"]
