"""What git ignores in a folder: its rules, in every file that can hold some, each as strong as git makes it.

Read by descriptors and within bounds; git is not run. Rules that cannot be read ignore everything they could be about.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from skillrun.repository import git_rules
from skillrun.repository.confined_folder import Tree
from skillrun.repository.git_rules import LARGEST, Unreadable
from skillrun.repository.paths import PathRefused
from skillrun.repository.wildcards import NoPattern, Part, Wildcard, name, wildcard

MOST_RULES: Final = 10_000  # of one file
LONGEST: Final = 4096  # characters of a rule
MOST_KEPT: Final = 64  # folders whose rules are remembered
_WITHIN: Final = re.compile(r"[^/]\*\*")
_KNOWS_NO_CASE: Final = sys.platform == "darwin"

Check = Callable[[], None]
"""Raises TimeoutError once there was enough of it."""


class IgnoreRule(NamedTuple):
    """One line: what it names, by the name alone or by the path from its folder on."""

    text: str
    takes_back: bool
    only_folders: bool
    name: Part | None
    path: Wildcard | None


class Rules:
    """The lines of a `.gitignore`; the last that names something decides."""

    def __init__(self, lines: Iterable[str], *, strict: bool = False) -> None:
        """With `strict` a line that can name nothing raises NoPattern."""
        rules: list[IgnoreRule] = []
        for line in lines:
            try:
                rules.append(_rule(line))
            except NoPattern:
                if strict:
                    raise
        self._rules = tuple(reversed(rules))
        lasts = {rule: _last(rule.text) for rule in rules}
        self._names = frozenset(last for last in lasts.values() if last and not last.startswith("*"))
        self._endings = tuple({last[1:] for last in lasts.values() if last and last.startswith("*")})
        self._others = tuple(rule for rule in self._rules if lasts[rule] is None)

    def verdict(self, parts: Sequence[str], is_folder: bool, check: Check) -> bool | None:
        """Whether a path, written from the rules' folder on, is ignored; None where no rule names it."""
        own = parts[-1]
        for rule in self._rules if own in self._names or own.endswith(self._endings) else self._others:
            if rule.only_folders and not is_folder:
                continue
            if rule.path is not None:
                check()
            if rule.name(own) if rule.name is not None else rule.path is not None and rule.path.matches(parts):
                return not rule.takes_back
        return None

    def covers(self, parts: Sequence[str], is_folder: bool, check: Check) -> bool:
        """Whether a path is ignored, or a folder on the way to it."""
        ways = ((parts[:end], end < len(parts) or is_folder) for end in range(1, len(parts) + 1))
        return any(self.verdict(way, folder, check) for way, folder in ways)


def rules_of(content: bytes) -> Rules:
    """The rules in a file: byte by byte, as git takes them. Raises Unreadable when it is larger than any of use."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(content) > LARGEST or len(lines) > MOST_RULES or max(map(len, lines), default=0) > LONGEST:
        raise Unreadable(
            f"it has more than {LARGEST:,} bytes, {MOST_RULES:,} rules or {LONGEST:,} characters in one of them"
        )
    return Rules(map(_cased, lines))


class Layer(NamedTuple):
    """The rules of one file, and how many parts of a path lead to their folder; why, where there are none to use."""

    rules: Rules | None
    start: int
    because: str = ""


class Ignored:
    """What git ignores in the folder of a tree. The folder itself is taken as wanted, whatever rules are about it."""

    def __init__(self, tree: Tree, check: Check) -> None:
        self._tree = tree
        self._check = check
        self._above, layers = _around(Path(os.path.realpath(tree.path)))
        self._layers: dict[tuple[str, ...], tuple[Layer, ...]] = {}
        self._base = self._with(layers, ())

    def why(self, parts: tuple[str, ...], is_folder: bool) -> str:
        """Why a path is ignored whose folder is not; empty where it is not."""
        whole = (*self._above, *map(_named, parts))
        for layer in reversed(self._in(parts[:-1])):
            self._check()
            if layer.rules is None:
                return layer.because
            verdict = layer.rules.verdict(whole[layer.start :], is_folder, self._check)
            if verdict is not None:
                return "git ignores it" if verdict else ""
        return ""

    def _in(self, folder: tuple[str, ...]) -> tuple[Layer, ...]:
        """The rules that count in a folder, the weakest first."""
        known = folder
        while known and known not in self._layers:
            known = known[:-1]
        layers = self._layers[known] if known else self._base
        for end in range(len(known) + 1, len(folder) + 1):
            self._check()
            layers = self._with(layers, folder[:end])
            if len(self._layers) >= MOST_KEPT:
                self._layers.clear()
            self._layers[folder[:end]] = layers
        return layers

    def _with(self, layers: tuple[Layer, ...], folder: tuple[str, ...]) -> tuple[Layer, ...]:
        """These, and what a folder adds to them."""
        start = len(self._above) + len(folder)
        path = self._tree.path.joinpath(*folder)
        if folder and git_rules.is_repository(path):
            layers += _layers(git_rules.own_rules, path, start)
        return (*layers, *_layer(lambda: _gitignore(self._tree, "/".join(folder)), start))


def _around(root: Path) -> tuple[tuple[str, ...], tuple[Layer, ...]]:
    """The parts of a folder from the top of its working tree on, and the rules that stand above it."""
    layers = _layer(git_rules.user_rules, 0)
    top = git_rules.top_of(root)
    if top is None:
        return (), layers
    above = root.relative_to(top).parts
    layers += _layers(git_rules.own_rules, top, 0)
    for depth in range(len(above)):
        with Tree(top.joinpath(*above[:depth])) as tree:
            layers += _layer(lambda tree=tree: _gitignore(tree, ""), depth)  # type: ignore[misc]
    return tuple(map(_named, above)), layers


def _layer(read: Callable[[], bytes | None], start: int) -> tuple[Layer, ...]:
    try:
        content = read()
        return () if content is None else (Layer(rules_of(content), start),)
    except Unreadable as error:
        return (Layer(None, start, f"the rules that git has for it cannot be followed: {error}"),)


def _layers(read: Callable[[Path], list[bytes]], path: Path, start: int) -> tuple[Layer, ...]:
    try:
        return tuple(Layer(rules_of(content), start) for content in read(path))
    except Unreadable as error:
        return (Layer(None, start, f"the rules that git has for it cannot be followed: {error}"),)


def _gitignore(tree: Tree, folder: str) -> bytes | None:
    """The content of a folder's `.gitignore`; one that is a link is none for git. Raises Unreadable."""
    try:
        return tree.read(f"{folder}/.gitignore" if folder else ".gitignore", LARGEST, follow=False)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise Unreadable(f"`.gitignore`: {error.strerror}") from None
    except PathRefused as error:
        raise Unreadable(error.message) from None


def _rule(line: str) -> IgnoreRule:
    """A line's rule. Raises NoPattern for one that can name nothing."""
    takes_back = line.startswith("!")
    text = _trimmed(line[takes_back:]).partition("\0")[0]
    only_folders = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        raise NoPattern(line)
    if "/" in text:
        return IgnoreRule(text, takes_back, only_folders, None, wildcard(text))
    return IgnoreRule(text, takes_back, only_folders, name(text), None)


def _last(text: str) -> str | None:
    """The name that a rule's path ends with, or `*` and the end of it; None where it is no such simple one."""
    last = text.rpartition("/")[2]
    is_simple = not any(sign in last[last.startswith("*") :] for sign in "*?\\") and "[" not in text
    return last if is_simple and not _WITHIN.search(text) else None


def _trimmed(line: str) -> str:
    """A line without the spaces at its end, but for one that a backslash keeps."""
    text = line.rstrip(" ")
    escaped = (len(text) - len(text.rstrip("\\"))) % 2 == 1
    return f"{text} " if escaped and len(text) < len(line) else text


def _named(part: str) -> str:
    """A name as git compares it: byte by byte."""
    return _cased(part if part.isascii() else os.fsencode(part).decode("latin-1"))


def _cased(text: str) -> str:
    return text.lower() if _KNOWS_NO_CASE else text
