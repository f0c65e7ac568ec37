"""What a page of the documentation says to write and to type, done in a folder, and what it shows, compared.

A fence of a page is one of these:

- `… file=PATH`: a file that is written.
- `… line=PATH after=TEXT`: lines that are added to a file, below the line that is TEXT.
- `console`: commands behind `$`, each with what it shows. `…` stands for anything in a line, and alone on a line for
  any lines. `skillrun` runs in this process, everything else in a shell; nobody is there to be asked.
- `sh`: commands that a reader types and a test cannot: of `skillrun` the command and its options have to be there.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from markdown_it import MarkdownIt

from skillrun.cli.main import main

NOBODY: Final = " < /dev/null"
BUG: Final = 3
_VARIES: Final = (
    (re.compile(r"\b\d+\.\d s\b"), "… s"),
    (re.compile(r"\b[\d,]+ tokens in, [\d,]+ out\b"), "… tokens in, … out"),
    (re.compile(r"\b\d+ (files|KB)\b"), r"… \1"),
    (re.compile(r"\$0\.00\d+"), "$…"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)"), "…"),
)


@dataclass(frozen=True)
class Fence:
    """A fence of a page: the words behind it, its text, and the number of the text's first line."""

    language: str
    words: dict[str, str]
    text: str
    line: int


@dataclass(frozen=True)
class Typed:
    """A command that a page says to type, and what it shows."""

    command: str
    output: str


class Differs(AssertionError):
    """A page shows something else than there is."""


def fences(page: str) -> Iterator[Fence]:
    """The fences of a page that stand for themselves, from the first to the last."""
    for token in MarkdownIt().parse(page):
        if token.type == "fence" and token.map is not None:
            language, *words = shlex.split(token.info) or [""]
            yield Fence(language, dict(word.partition("=")[::2] for word in words), token.content, token.map[0] + 1)


def typed(text: str) -> Iterator[Typed]:
    """The commands of a `console` fence, each with the lines below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Typed(command, output)


class Session:
    """A reader who does what a page says, in an empty folder."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.top = folder
        self.patch = patch
        self.code = 0
        patch.chdir(folder)
        patch.setenv("COLUMNS", "100")

    def do(self, fence: Fence) -> str:
        """The fence's text with what its commands show now. Raises Differs where that is something else."""
        if "file" in fence.words:
            path = Path(fence.words["file"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text, encoding="utf-8")
        elif "line" in fence.words:
            self.add(Path(fence.words["line"]), fence.words["after"], fence.text)
        elif fence.language == "console":
            return "".join(self.shown(each) for each in typed(fence.text))
        elif fence.language == "sh":
            for command in fence.text.splitlines():
                self.known(command)
        return fence.text

    @staticmethod
    def add(path: Path, after: str, text: str) -> None:
        """Put lines below the one line that says `after`, as an author would."""
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        places = [number for number, line in enumerate(lines) if line.strip() == after]
        assert len(places) == 1, f"{path} has the line `{after}` {len(places)} times"
        lines.insert(places[0] + 1, text)
        path.write_text("".join(lines), encoding="utf-8")

    def shown(self, each: Typed) -> str:
        """The command and its output: the page's where that fits, else what there is."""
        output = self.output(each.command)
        assert self.code != BUG, output
        fits = re.fullmatch(pattern(each.output), output) is not None
        return f"$ {each.command}\n{each.output if fits else self.settled(output)}"

    def output(self, command: str) -> str:
        """What a command shows, with errors where they come."""
        words = shlex.split(command.removesuffix(NOBODY))
        match words:
            case ["cd", folder]:
                self.patch.chdir(folder)
                return ""
            case ["export", setting]:
                self.patch.setenv(*setting.split("=", 1))
                return ""
            case ["echo", "$?"]:
                return f"{self.code}\n"
            case ["skillrun", *arguments] if not {"|", ">", "&&"} & set(words):
                return self.skillrun(arguments)
        environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=environ
        )
        self.code = done.returncode
        return done.stdout + done.stderr

    def skillrun(self, arguments: list[str]) -> str:
        shown = io.StringIO()
        with open(os.devnull) as nothing, pytest.MonkeyPatch.context() as patch:  # noqa: PTH123 (a device)
            patch.setattr("sys.stdin", nothing)
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
                self.code = main(arguments)
        return shown.getvalue()

    def known(self, command: str) -> None:
        """Refuse a command of skillrun that there is none of, or an option that it does not have."""
        words = shlex.split(command, comments=True)
        if words[:1] != ["skillrun"]:
            return
        usage = self.skillrun([*words[1 : 3 if words[1:2] == ["dev"] else 2], "--help"])
        assert self.code == 0, f"`{command}`: {usage}"
        for option in (word.partition("=")[0] for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", usage), f"`{command}`: there is no {option}"

    def settled(self, output: str) -> str:
        """The output without what is another one each time."""
        text = output.replace(str(self.top), "…")
        for expression, words in _VARIES:
            text = expression.sub(words, text)
        return text


def pattern(output: str) -> str:
    """What an output has to be like."""
    lines = [r"(?:.*\n)*?" if line == "…\n" else re.escape(line).replace("…", ".*") for line in output.splitlines(True)]
    return "".join(lines)


def followed(page: str, session: Session) -> str:
    """The page with what its commands show now; the same text where nothing differs."""
    lines = page.splitlines(keepends=True)
    for fence in reversed([(each, session.do(each)) for each in fences(page)]):
        (before, after) = fence
        end = before.line + len(before.text.splitlines())
        lines[before.line : end] = after.splitlines(keepends=True)
    return "".join(lines)
