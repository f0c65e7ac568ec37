"""Commands and options on pages exist, and those of three older pages that a test can run print what is shown."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import click
import pytest

from docsite.staging import pages
from skillrun import registry
from skillrun.cli.registry import COMMANDS
from skillrun.cli.workflow import workflow_command
from skillrun.extensions.workers.commands.submit import submit_command
from skillrun.library.roots import package_library
from skillrun.watch.command import dev_command
from tests.acceptance.pages.session import PageMismatch, Session, fences, page_commands

TOP: Final = Path(__file__).parents[3]
SHIPPED: Final = {path.stem for path in (package_library() / "workflows").glob("*.md")}
EXAMPLES: Final = {"hello", "announce", "review", "triage"}  # workflows of the pages
PAGES: Final = [page for page in pages() if "/decisions/" not in page and page != "CHANGELOG.md"]
_INLINE: Final = re.compile(r"(?<!`)`(skillrun [^`\n]+)`(?!`)")


def command_lines(page: str) -> Iterator[str]:
    """Yield the command lines in the text and fences of a page."""
    yield from _INLINE.findall(page)
    for fence in fences(page):
        if fence.language == "console":
            yield from (each.command for each in page_commands(fence.text))
        elif fence.language == "sh":
            yield from fence.text.replace("\\\n", " ").splitlines()


@cache
def options_of(name: str, inner: str) -> frozenset[str] | None:
    """The options of a command; None for a workflow that the page defines, or a placeholder."""
    if name in ("dev", "submit") and inner in SHIPPED:
        command: click.Command = dev_command(inner) if name == "dev" else submit_command(inner)
    elif name in COMMANDS:
        entry = COMMANDS[name]
        command = registry.import_object(entry.subcommands.get(inner, entry).import_path)
    elif name in SHIPPED:
        command = workflow_command(name)
    else:
        return None
    return frozenset(option for param in command.params for option in (*param.opts, *param.secondary_opts))


@pytest.mark.row("A4")
@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_on_a_page_exist(page: str) -> None:
    for line in command_lines((TOP / page).read_text(encoding="utf-8")):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # part of a command, or a literal quote
            continue
        if words[:1] != ["skillrun"] or len(words) == 1 or words[1].startswith("-"):
            continue
        name, inner = words[1], next(iter(words[2:]), "")
        options = options_of(name, inner)
        assert options is not None or name in EXAMPLES or not re.fullmatch(r"[a-z-]+", name), line
        used_options = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
        if options is not None and not (name in ("dev", "submit") and inner not in SHIPPED):
            assert used_options <= options | {"--help"}, line


def _write_review_project(folder: Path) -> None:
    """Write the project of the page about reviews, with a change to review."""
    for fence in fences((TOP / "docs" / "how-to" / "review.md").read_text(encoding="utf-8")):
        if "file" in fence.attributes:
            path = folder / fence.attributes["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text, encoding="utf-8")
    (folder / "change.py").write_text("lock.acquire()\n", encoding="utf-8")


def _copy_finished_run(folder: Path) -> None:
    """Copy the finished run of the documentation, as in a clone."""
    shutil.copytree(TOP / "docs" / "finished", folder, dirs_exist_ok=True)
    (folder / "runs" / "reminders" / ".run").chmod(0o755)


def _write_nothing(_folder: Path) -> None:
    """The page needs no project."""


@pytest.mark.parametrize(
    ("page", "prepare", "commands"),
    [
        ("testing.md", _write_review_project, ["skillrun test"]),
        ("running.md", _copy_finished_run, ["skillrun show reminders architecture draft"]),
        ("hint.md", _write_nothing, ['skillrun hint "Let admins delete users in production"']),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_older_page_shows_the_actual_output(
    page: str,
    prepare: Callable[[Path], None],
    commands: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(tmp_path)
    session, done = Session(tmp_path, monkeypatch), []
    for fence in fences((TOP / "docs" / page).read_text(encoding="utf-8")):
        if "file" in fence.attributes and page == "testing.md":
            session.run_fence(fence)
        for each in page_commands(fence.text) if fence.language == "console" else ():
            if each.command in commands:
                shown = session.run_command(each)
                if shown != f"$ {each.command}\n{each.output}":
                    raise PageMismatch(shown)
                done.append(each.command)
    assert done == commands
