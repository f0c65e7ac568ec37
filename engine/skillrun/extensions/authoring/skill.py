"""`skillrun skill`: prints the Agent Skill for workflow authors, or writes it to the skills folder of an assistant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from skillrun.cli.new import load_starter, write_missing_files
from skillrun.cli.options import as_json
from skillrun.cli.output import Output
from skillrun.syntax.diagnostics import UsageError, suggest

NAME: Final = "skillrun-author"
MAIN: Final = f"{NAME}/SKILL.md"
REFERENCES: Final = f"{NAME}/references/"


@click.command(help="Print the Agent Skill for writing workflows. With PART, print one of its references.")
@click.argument("part", default="")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the skill to DIR, such as .claude/skills or .agents/skills, instead of printing it.",
)
@as_json
def skill(part: str, folder: Path | None, json: bool) -> int:
    out, files = Output(json), load_starter("skill", {})
    if folder is not None:
        if part:
            raise UsageError("`--to` writes the whole skill", f"remove `{part}`")
        return _write_skill(folder, files, out)
    name = f"{REFERENCES}{part.removesuffix('.md')}.md" if part else MAIN
    if name not in files:
        parts = [each.removeprefix(REFERENCES).removesuffix(".md") for each in files if each.startswith(REFERENCES)]
        raise UsageError(f"the skill has no part `{part}`", suggest(part, parts))
    out.line(files[name].rstrip("\n"))
    out.data({"name": NAME, "file": name, "text": files[name]})
    return 0


def _write_skill(folder: Path, files: dict[str, str], out: Output) -> int:
    """Write the missing files. If a file exists with different content, raise UsageError and write nothing."""
    for name, text in files.items():
        path = folder / name
        if os.path.lexists(path) and (not path.is_file() or path.read_bytes() != text.encode("utf-8")):
            hint = (
                f"the file was edited, or written by another version: move {folder / NAME}, then run this command again"
            )
            raise UsageError(f"{path} already exists with different content", hint)
    folder.mkdir(parents=True, exist_ok=True)
    written = write_missing_files(folder, files)
    out.line(f"wrote {folder / NAME}" if written else f"{folder / NAME} already exists and is up to date")
    out.data({"name": NAME, "folder": str(folder / NAME), "made": written})
    return 0
