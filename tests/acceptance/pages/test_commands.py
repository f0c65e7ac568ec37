"""Commands and options that pages name are there; what can be run of three older pages shows what they say."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import click
import pytest

from docsite.staging import pages
from skillrun.cli.registry import COMMANDS
from skillrun.cli.workflow import workflow_command
from skillrun.extensions.workers.commands.submit import submit_command
from skillrun.library.roots import package_library
from skillrun.watch.command import dev_command
from tests.acceptance.pages.session import Differs, Session, fences, typed

TOP: Final = Path(__file__).parents[3]
SHIPPED: Final = {path.stem for path in (package_library() / "workflows").glob("*.md")}
EXAMPLES: Final = {"hello", "announce", "review", "triage"}  # workflows of the pages
PAGES: Final = [page for page in pages() if "/decisions/" not in page and page != "CHANGELOG.md"]
_INLINE: Final = re.compile(r"(?<!`)`(skillrun [^`\n]+)`(?!`)")


def named(page: str) -> Iterator[str]:
    """The command lines that a page has in fences and in its text."""
    yield from _INLINE.findall(page)
    for fence in fences(page):
        if fence.language == "console":
            yield from (each.command for each in typed(fence.text))
        elif fence.language == "sh":
            yield from fence.text.replace("\\\n", " ").splitlines()


@cache
def options_of(name: str, inner: str) -> frozenset[str] | None:
    """The options of a command; None where that is a workflow of a page's own, or stands for any."""
    if name in ("dev", "submit") and inner in SHIPPED:
        command: click.Command = dev_command(inner) if name == "dev" else submit_command(inner)
    elif name in COMMANDS:
        module, _, attribute = COMMANDS[name].import_path.partition(":")
        command = getattr(import_module(module), attribute)
        if isinstance(command, click.Group) and inner in command.commands:
            command = command.commands[inner]
    elif name in SHIPPED:
        command = workflow_command(name)
    else:
        return None
    return frozenset(option for param in command.params for option in (*param.opts, *param.secondary_opts))


@pytest.mark.row("A4")
@pytest.mark.parametrize("page", PAGES)
def test_a_command_that_a_page_names_is_there(page: str) -> None:
    for line in named((TOP / page).read_text(encoding="utf-8")):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a line of several, or a quote that stands for itself
            continue
        if words[:1] != ["skillrun"] or len(words) == 1 or words[1].startswith("-"):
            continue
        name, inner = words[1], next(iter(words[2:]), "")
        options = options_of(name, inner)
        assert options is not None or name in EXAMPLES or not re.fullmatch(r"[a-z-]+", name), line
        written = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
        if options is not None and not (name in ("dev", "submit") and inner not in SHIPPED):
            assert written <= options | {"--help"}, line


def _review(folder: Path) -> None:
    """The project of the page about reviews, with a change to review."""
    for fence in fences((TOP / "docs" / "how-to" / "review.md").read_text(encoding="utf-8")):
        if "file" in fence.words:
            path = folder / fence.words["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text, encoding="utf-8")
    (folder / "change.py").write_text("lock.acquire()\n", encoding="utf-8")


def _finished(folder: Path) -> None:
    """The finished run of the documentation, as in a clone."""
    shutil.copytree(TOP / "docs" / "finished", folder, dirs_exist_ok=True)
    (folder / "runs" / "reminders" / ".run").chmod(0o755)


def _nothing(_folder: Path) -> None:
    """No project."""


@pytest.mark.parametrize(
    ("page", "given", "commands"),
    [
        ("testing.md", _review, ["skillrun test"]),
        ("running.md", _finished, ["skillrun show reminders architecture draft"]),
        ("hint.md", _nothing, ['skillrun hint "Let admins delete users in production"']),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_older_page_shows_what_there_is(
    page: str,
    given: Callable[[Path], None],
    commands: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given(tmp_path)
    session, done = Session(tmp_path, monkeypatch), []
    for fence in fences((TOP / "docs" / page).read_text(encoding="utf-8")):
        if "file" in fence.words and page == "testing.md":
            session.do(fence)
        for each in typed(fence.text) if fence.language == "console" else ():
            if each.command in commands:
                shown = session.shown(each)
                if shown != f"$ {each.command}\n{each.output}":
                    raise Differs(shown)
                done.append(each.command)
    assert done == commands
