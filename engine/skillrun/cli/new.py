"""`skillrun init` creates a project, and `skillrun new` creates a file in a project. Neither overwrites a file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Final

import click

from skillrun.cli.options import as_json, current_project, relative_to_cwd
from skillrun.cli.output import Output
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.library.roots import enclosing_project, package_library, search_path
from skillrun.repository.user_files import create_files
from skillrun.syntax.diagnostics import UsageError

EXAMPLE: Final = "hello.md"
HOOK: Final = ".pre-commit-config.yaml"
EXAMPLE_FOLDERS: Final = ("workflows/", "skills/", "roles/", "config/", "tests/")
KINDS: Final = ("workflow", "phase", "protocol", "role")
MAX_NAME_LENGTH: Final = 60
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
OTHER_AREAS: Final = {
    "protocols": "`skillrun new protocol NAME` creates a protocol",
    "system": "this folder is reserved for the engine's texts",
}


@click.command(
    help="Create a project with an example workflow in FOLDER. Default: the current folder. Overwrites nothing."
)
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@as_json
def init(folder: Path, out: Output) -> int:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", "name a folder, or leave it out to use the current one")
    outer_project = enclosing_project(Path(os.path.abspath(folder)).parent)  # noqa: PTH100 (does not resolve links)
    files = load_starter("project", {})
    example = not any(path.name != EXAMPLE for path in (folder / "workflows").glob("*.md"))
    if not example:
        files = {name: text for name, text in files.items() if not name.startswith(EXAMPLE_FOLDERS)}
    place = Path(os.path.realpath(folder))
    above = () if os.path.lexists(place / ".git") else place.parents
    top = next((parent for parent in above if os.path.lexists(parent / ".git")), None)  # the root of the repository
    if top is not None:
        del files[HOOK]
    written = create_files(folder, files, current_project())
    untouched = [name for name in files if name not in written]
    out.lines(f"created     {folder / name}" for name in written)
    out.lines(f"kept        {folder / name}" for name in untouched)
    if not example:
        out.line("left out    the example: the project has workflows")
    if top is not None:
        out.line(f"left out    {HOOK}: it belongs in the root of the repository, {top}")
    if outer_project is not None:
        out.note(f"note: this project is inside the project {outer_project}, and separate from it")
    target = str(relative_to_cwd(place))
    steps = [f"cd {quote(target)}"] if target != "." else []
    if example and has_file(folder, f"workflows/{EXAMPLE}"):
        steps += ["skillrun hello Ada --model scripted:default", "skillrun test"]
    steps += ["skillrun validate", "skillrun new workflow NAME"]
    out.line("\n  ".join(["next:", *steps]))
    out.data({"made": written, "left_alone": untouched, "next": steps})
    return 0


@click.command(
    help="Create the file of a workflow (with a phase and a role), a phase (NAME is WORKFLOW/PHASE), a protocol or a "
    "role."
)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@as_json
def new(kind: str, name: str, out: Output) -> int:
    project = current_project()
    files = load_starter(kind, _placeholder_values(kind, name))
    for path in files:
        if has_file(project, path):
            raise UsageError(
                f"{relative_to_cwd(project / path)} already exists", "choose another name, or edit that file"
            )
        for root in search_path(project):
            if (root.path / path).is_file():  # the file would override it
                copy = f"`skillrun eject {path}` makes a copy for you to edit"
                hint = "choose another name" if root.name == "user" else copy
                raise UsageError(f"the {kind} `{name}` already exists: {root.label}{path}", hint)
    create_files(project, files, project)
    out.lines(f"created  {relative_to_cwd(project / path)}" for path in files)
    area, _, own_name = name.rpartition("/")
    use = {
        "workflow": f'skillrun {name} "…" --model scripted:default',
        "phase": f"add `{own_name}:` under `phases:` in {relative_to_cwd(project / 'workflows' / f'{area}.md')}",
        "protocol": f"use it in a step of a phase: `panel: [ROLE, ROLE]` with `protocol: {name}`",
        "role": f"use it in a step of a phase: `agent: {name}`, or `agent: {name}:first`",
    }
    steps = [use[kind], "skillrun validate"]
    out.line("\n  ".join(["next:", *steps]))
    out.data({"made": list(files), "next": steps})
    return 0


def _placeholder_values(kind: str, name: str) -> dict[str, str]:
    """Return the values for the starter's placeholders. Raises UsageError for an invalid name."""
    area, slash, own_name = name.rpartition("/")
    if kind == "phase":
        if not slash:
            raise UsageError(f"`{name}` does not name the phase's workflow", f"`skillrun new phase WORKFLOW/{name}`")
        if area in OTHER_AREAS:
            raise UsageError(f"`{area}` is not the folder of a workflow", OTHER_AREAS[area])
    parts = (area, own_name) if kind == "phase" else (name,)
    for part in parts:
        if not _NAME.fullmatch(part) or len(part) > MAX_NAME_LENGTH:
            raise UsageError(
                f"`{part}` is not a valid name of a {kind if part == parts[-1] else 'workflow'}",
                "use lower-case letters, digits, `-` and `_`, starting with a letter, "
                f"at most {MAX_NAME_LENGTH} characters, such as `first-look`",
            )
    if kind == "workflow" and name in RESERVED_NAMES:
        raise UsageError(f"`{name}` is a command of skillrun", "give the workflow another name")
    return {"AREA": area, "NAME": own_name}


def load_starter(kind: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the starter files, keyed by path. `names` has the values that replace `NAME` and `AREA`."""

    def fill_placeholders(text: str) -> str:
        return re.sub(r"\b(AREA|NAME)\b", lambda word: names.get(word[0], word[0]), text) if names else text

    folder = package_library() / "starters" / kind
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in paths}
    return {fill_placeholders(path): fill_placeholders(text) for path, text in texts.items()}


def has_file(project: Path, name: str) -> bool:
    """Whether a file of this name exists in a project; a broken link counts as a file."""
    return os.path.lexists(project / name)
