"""`skillrun new`: creates a valid starter file. It refuses a name that is in use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from skillrun.cli.options import as_json
from skillrun.cli.output import Output
from skillrun.cli.project_folder import current_project, relative_to_cwd
from skillrun.cli.registry import RESERVED_NAMES
from skillrun.cli.starter_files import has_file, load_starter, write_missing_files
from skillrun.library.roots import search_path
from skillrun.syntax.diagnostics import UsageError

KINDS: Final = ("workflow", "phase", "protocol", "role")
MAX_NAME_LENGTH: Final = 60
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
OTHER_AREAS: Final = {
    "protocols": "`skillrun new protocol NAME` creates a protocol",
    "system": "it is reserved for the engine's texts",
}


@click.command(
    help="Create the file of a workflow (with a phase and a role), a phase (NAME is WORKFLOW/PHASE), a protocol or a "
    "role."
)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@as_json
def new(kind: str, name: str, json: bool) -> int:
    out, project = Output(json), current_project()
    files = load_starter(kind, _placeholder_values(kind, name))
    _check_unused(project, kind, name, files)
    write_missing_files(project, files)
    for path in files:
        out.line(f"created  {relative_to_cwd(project / path)}")
    steps = _next_steps(project, kind, name)
    out.line("next:")
    for step in steps:
        out.line(f"  {step}")
    out.data({"made": list(files), "next": steps})
    return 0


def _placeholder_values(kind: str, name: str) -> dict[str, str]:
    """Return the values for the starter's placeholders. Raises UsageError for an invalid name."""
    area, slash, own_name = name.rpartition("/")
    if kind == "phase":
        if not slash:
            raise UsageError(f"`{name}` lacks the phase's workflow", f"`skillrun new phase WORKFLOW/{name}`")
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


def _check_unused(project: Path, kind: str, name: str, files: dict[str, str]) -> None:
    """Raise UsageError if a file exists in the project, or would override another file on the search path."""
    for path in files:
        if has_file(project, path):
            raise UsageError(
                f"{relative_to_cwd(project / path)} already exists", "choose another name, or edit that file"
            )
        for root in search_path(project):
            if (root.path / path).is_file():
                hint = (
                    "choose another name"
                    if root.name == "user"
                    else f"`skillrun eject {path}` makes a copy for you to edit"
                )
                raise UsageError(f"the {kind} `{name}` already exists: {root.label}{path}", hint)


def _next_steps(project: Path, kind: str, name: str) -> list[str]:
    """Return the commands and edits that the user can do next."""
    area, _, own = name.rpartition("/")
    use = {
        "workflow": f'skillrun {name} "…" --model scripted:default',
        "phase": f"add `{own}:` under `phases:` in {relative_to_cwd(project / 'workflows' / f'{area}.md')}",
        "protocol": f"use it in a step of a phase: `panel: [ROLE, ROLE]` with `protocol: {name}`",
        "role": f"use it in a step of a phase: `agent: {name}`, or `agent: {name}:first`",
    }
    return [use[kind], "skillrun validate"]
