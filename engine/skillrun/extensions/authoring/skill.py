"""Prints what authors and their assistants need: the Agent Skill (`skillrun skill`) and schemas (`skillrun schema`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillrun.cli.formatting import format_columns
from skillrun.cli.loading import exit_on_errors, open_library, problems_for_display
from skillrun.cli.new import load_starter
from skillrun.cli.options import as_json, current_project
from skillrun.cli.output import Output
from skillrun.repository.paths import PathRefused
from skillrun.repository.user_files import create_files, open_user_path
from skillrun.syntax.diagnostics import UsageError, allowed_hint, did_you_mean, suggest

if TYPE_CHECKING:
    from skillrun.definitions.definitions import TextFile
    from skillrun.library.library import Library

NAME: Final = "skillrun-author"
MAIN: Final = f"{NAME}/SKILL.md"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
REFERENCES: Final = f"{NAME}/references/"


@click.command(help="Print the Agent Skill for writing workflows. With PART, print only that reference.")
@click.argument("part", default="")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the skill to DIR, such as .claude/skills or .agents/skills, instead of printing it.",
)
@as_json
def skill(part: str, folder: Path | None, out: Output) -> int:
    files = load_starter("skill", {})
    if folder is not None:
        if part:
            raise UsageError("`--to` writes the whole skill", f"remove `{part}`")
        for name, text in files.items():
            path = folder / name
            with open_user_path(path, current_project()) as (place, below):
                try:
                    is_same = place.read(below, len(text.encode("utf-8")), follow=False) == text.encode("utf-8")
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except (OSError, PathRefused):
                    is_same = False
            if not is_same:
                reason = "the file was edited, or written by another version"
                hint = f"{reason}: move {folder / NAME}, then run this command again"
                raise UsageError(f"{path} already exists with different content", hint)
        written = create_files(folder, files, current_project())
        out.line(f"wrote {folder / NAME}" if written else f"{folder / NAME} already exists and is up to date")
        out.data({"name": NAME, "folder": str(folder / NAME), "made": written})
        return 0
    name = f"{REFERENCES}{part.removesuffix('.md')}.md" if part else MAIN
    if name not in files:
        parts = [each.removeprefix(REFERENCES).removesuffix(".md") for each in files if each.startswith(REFERENCES)]
        raise UsageError(f"the skill has no part `{part}`", suggest(part, parts))
    out.text(files[name].rstrip("\n"))
    out.data({"name": NAME, "file": name, "text": files[name]})
    return 0


@click.command(
    help="Print the output format of the template NAME as JSON Schema. Without NAME, list the templates with a schema."
)
@click.argument("name", required=False)
@as_json
def schema(name: str | None, out: Output) -> int:
    library = open_library()
    if name is None:
        templates = {skill: text for skill in library.skills() if (text := _template(library, skill)) is not None}
        out.text(format_columns((skill, text.description) for skill, text in templates.items()))
        out.data({skill: text.description for skill, text in templates.items()})
        return 0
    text = _template(library, name)
    exit_on_errors(problems_for_display(library), out)
    if text is None or text.output is None:
        known = [skill for skill in library.skills() if _template(library, skill) is not None]
        raise UsageError(f"no template named `{name}` has a schema", did_you_mean(name, known) or allowed_hint(known))
    document = {"$schema": DIALECT, "title": name, "description": text.description, **text.output.static_schema}
    out.record(document, indent=2)
    return 0


def _template(library: Library, name: str) -> TextFile | None:
    """Return the template `name`; None if it does not exist or has no schema."""
    text = library.text(name) if "/" in name and library.kind(name) == "template" else None
    return text if text is not None and text.output is not None else None
