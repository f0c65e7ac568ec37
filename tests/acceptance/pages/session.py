"""Follows a documentation page in a folder: writes its files, runs its commands and compares their output.

A fence of a page is one of these:

- `… file=PATH`: a file to write.
- `… line=PATH after=TEXT`: lines to add to a file, below the line that is TEXT.
- `console`: commands after `$`, each with its output. `…` matches any text in a line, and alone on a line any lines.
  `skillrun` runs in this process and other commands in a shell, both without input.
- `sh`: commands that a reader runs and a test cannot: a `skillrun` command and its options must exist.
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

NO_INPUT: Final = " < /dev/null"
INTERNAL_ERROR: Final = 3
_VARYING: Final = (
    (re.compile(r"\b\d+\.\d s\b"), "… s"),
    (re.compile(r"\b[\d,]+ tokens in, [\d,]+ out\b"), "… tokens in, … out"),
    (re.compile(r"\b\d+ (files|KB)\b"), r"… \1"),
    (re.compile(r"\$0\.00\d+"), "$…"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)"), "…"),
)


@dataclass(frozen=True)
class Fence:
    """A fence of a page: its attributes, its text, and the number of the text's first line."""

    language: str
    attributes: dict[str, str]
    text: str
    line: int


@dataclass(frozen=True)
class PageCommand:
    """A command on a page, with the output that the page shows."""

    command: str
    output: str


class PageMismatch(AssertionError):
    """A page shows something other than the actual output."""


def fences(page: str) -> Iterator[Fence]:
    """Yield the fences of a page in order."""
    for token in MarkdownIt().parse(page):
        if token.type == "fence" and token.map is not None:
            language, *words = shlex.split(token.info) or [""]
            attributes = dict(word.partition("=")[::2] for word in words)
            yield Fence(language, attributes, token.content, token.map[0] + 1)


def page_commands(text: str) -> Iterator[PageCommand]:
    """Yield the commands of a `console` fence, each with the lines below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield PageCommand(command, output)


class Session:
    """A reader who follows a page in an empty folder."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.top = folder
        self.patch = patch
        self.code = 0
        patch.chdir(folder)
        patch.setenv("COLUMNS", "100")

    def run_fence(self, fence: Fence) -> str:
        """Write the fence's file or run its commands; returns its text with the current output."""
        if "file" in fence.attributes:
            path = Path(fence.attributes["file"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text, encoding="utf-8")
        elif "line" in fence.attributes:
            self.add_lines(Path(fence.attributes["line"]), fence.attributes["after"], fence.text)
        elif fence.language == "console":
            return "".join(self.run_command(each) for each in page_commands(fence.text))
        elif fence.language == "sh":
            for command in fence.text.splitlines():
                self.check_command(command)
        return fence.text

    @staticmethod
    def add_lines(path: Path, after: str, text: str) -> None:
        """Insert lines below the only line that is `after`, as an author would."""
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        places = [number for number, line in enumerate(lines) if line.strip() == after]
        assert len(places) == 1, f"{path} has the line `{after}` {len(places)} times"
        lines.insert(places[0] + 1, text)
        path.write_text("".join(lines), encoding="utf-8")

    def run_command(self, each: PageCommand) -> str:
        """Run a command; returns it with the page's output if that matches, else with the actual output."""
        output = self.output(each.command)
        assert self.code != INTERNAL_ERROR, output
        is_match = re.fullmatch(output_pattern(each.output), output) is not None
        return f"$ {each.command}\n{each.output if is_match else self.normalize(output)}"

    def output(self, command: str) -> str:
        """Run a command; returns its output and errors."""
        words = shlex.split(command.removesuffix(NO_INPUT))
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
        output = io.StringIO()
        with open(os.devnull) as devnull, pytest.MonkeyPatch.context() as patch:  # noqa: PTH123 (a device)
            patch.setattr("sys.stdin", devnull)
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                self.code = main(arguments)
        return output.getvalue()

    def check_command(self, command: str) -> None:
        """Refuse a skillrun command or option that does not exist."""
        words = shlex.split(command, comments=True)
        if words[:1] != ["skillrun"]:
            return
        usage = self.skillrun([*words[1 : 3 if words[1:2] == ["dev"] else 2], "--help"])
        assert self.code == 0, f"`{command}`: {usage}"
        for option in (word.partition("=")[0] for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", usage), f"`{command}`: there is no {option}"

    def normalize(self, output: str) -> str:
        """Replace the parts of an output that vary between runs."""
        text = output.replace(str(self.top), "…")
        for expression, words in _VARYING:
            text = expression.sub(words, text)
        return text


def output_pattern(output: str) -> str:
    """The regular expression that an output must match."""
    lines = [r"(?:.*\n)*?" if line == "…\n" else re.escape(line).replace("…", ".*") for line in output.splitlines(True)]
    return "".join(lines)


def follow_page(page: str, session: Session) -> str:
    """The page with the current output of its commands; the same text if nothing differs."""
    lines = page.splitlines(keepends=True)
    for fence, replacement in reversed([(each, session.run_fence(each)) for each in fences(page)]):
        end = fence.line + len(fence.text.splitlines())
        lines[fence.line : end] = replacement.splitlines(keepends=True)
    return "".join(lines)
