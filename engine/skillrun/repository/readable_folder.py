"""A folder as models may read it: opened once, searched within bounds, and without what is withheld from them.

Withheld are git's own folder and the records of runs, names that hold secrets, and what git ignores. What is judged by
its name is what is opened, with every link followed.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from posixpath import normpath
from typing import Final, Self

from skillrun.repository.confined_folder import Kind, Opened, Tree, entries
from skillrun.repository.gitignore import Ignored, Rules
from skillrun.repository.paths import PathRefused
from skillrun.repository.wildcards import NoPattern, Wildcard
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import quoted

NEVER: Final = frozenset({".git", ".run"})
LARGE: Final = frozenset({".venv", "__pycache__", "node_modules"})
MOST_FILES: Final = 20_000
MOST_ENTRIES: Final = 100_000  # of one folder
DEEPEST: Final = 64
SECONDS: Final = 5.0

Parts = tuple[str, ...]


class Withheld(SkillrunError):
    """A file or folder is not for models."""


class Readable:
    """The folder of a tree, without what `secrets` name and, unless told otherwise, without what git ignores.

    Everything together takes at most about `SECONDS` from when it is made, and raises TimeoutError then.
    """

    def __init__(self, tree: Tree, secrets: tuple[str, ...] = (), *, ignores: bool = True) -> None:
        self.tree = tree
        self.until = time.monotonic() + SECONDS
        self._secrets = _rules(secrets)
        self._ignored = Ignored(tree, self.check) if ignores else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tree.close()

    @contextmanager
    def opened(self, name: str, *, ignored: bool = False, judged: bool = False) -> Iterator[Opened]:
        """The file or folder with this name, open. With `ignored` also one that git ignores; `judged` is a name that
        `files` has given. Raises Withheld, PathRefused, OSError."""
        try:
            with self.tree.opened(name) as opened:
                if not judged or opened.name != name:
                    self._admit(name, parts_of(opened.name), opened.is_folder, ignored=ignored)
                    self._admit(name, parts_of(name), opened.is_folder, ignored=ignored)
                yield opened
        except (FileNotFoundError, NotADirectoryError):
            for is_folder in (False, True):  # what is withheld is not said to be missing, whatever it would have been
                self._admit(name, parts_of(name) or parts_of(normpath(name)), is_folder, ignored=ignored)
            raise

    def files(self, start: str = ".", wanted: Wildcard | None = None, *, runs: bool = False) -> Iterator[str]:
        """The names of the files below a folder, a folder's own first: at most MOST_FILES, or those that are wanted.

        A link to a file is one, a link to a folder is not followed. Folders of runs are left out unless `runs`.
        """
        left = MOST_FILES
        pending = [start]
        while pending:
            folder = pending.pop()
            below = parts_of(folder)
            entries = self._entries(folder)
            if not runs and folder != start and (".run", "folder") in entries:
                continue
            for own, kind in entries:
                parts = (*below, own)
                if kind == "folder" or (wanted is not None and not wanted.matches(parts)):
                    continue
                if not self._why(parts, False) and self._is_file("/".join(parts), kind):
                    yield "/".join(parts)
                    left -= 1
                    if not left:
                        return
            folders = [(*below, own) for own, kind in entries if kind == "folder"]
            pending += [
                "/".join(parts)
                for parts in reversed(folders if len(below) < DEEPEST else ())
                if (wanted is None or wanted.may_match_below(parts)) and not self._why(parts, True)
            ]

    def names(self, folder: str) -> Iterator[tuple[str, bool]]:
        """What is in a folder, by name, and whether each is a folder; a link is what it leads to."""
        for own, kind in self._entries(folder):
            parts = (*parts_of(folder), own)
            if self._why(parts, kind == "folder"):
                continue
            if kind in ("file", "folder"):
                yield own, kind == "folder"
            elif kind == "link" and (is_folder := self._leads_to("/".join(parts))) is not None:
                yield own, is_folder

    def _entries(self, folder: str) -> list[tuple[str, Kind]]:
        """The entries of a folder by its real name; none of what is something else by now."""
        self.check()
        try:
            with self.tree.opened(folder) as opened:
                return entries(opened.descriptor, MOST_ENTRIES) if opened.is_folder and opened.name == folder else []
        except (OSError, PathRefused):
            return []

    def _is_file(self, name: str, kind: Kind) -> bool:
        return kind == "file" or (kind == "link" and self._leads_to(name) is False)

    def _leads_to(self, name: str) -> bool | None:
        """Whether a link leads to a folder; None where it leads to nothing that may be read."""
        try:
            with self.opened(name) as opened:
                return opened.is_folder
        except (OSError, SkillrunError):
            return None

    def _admit(self, name: str, parts: Parts, is_folder: bool, *, ignored: bool) -> None:
        for end in range(1, len(parts) + 1):
            if because := self._why(parts[:end], end < len(parts) or is_folder, ignored=ignored):
                raise Withheld(f"{quoted(name)} is withheld: {because}")

    def _why(self, parts: Parts, is_folder: bool, *, ignored: bool = False) -> str:
        """Why a file or folder is withheld whose folder is not; empty where it is not."""
        self.check()
        plain = tuple(map(_plain, parts))
        if plain[-1] in NEVER:
            return f"`{plain[-1]}` is never shown"
        if self._secrets.verdict(plain, is_folder, self.check):
            return "its name is one of those that hold secrets"
        if ignored or self._ignored is None:
            return ""
        return f"`{plain[-1]}` is never shown" if plain[-1] in LARGE else self._ignored.why(parts, is_folder)

    def check(self) -> None:
        """Raises TimeoutError once there was enough time."""
        if time.monotonic() > self.until:
            raise TimeoutError


def parts_of(name: str) -> Parts:
    """The parts of a name, as far as they can be told without looking: none where it goes up again."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    return () if ".." in parts else parts


def one_line(name: str) -> str:
    """A name as one line of text that can be sent and shown."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)


@lru_cache(maxsize=8)
def _rules(secrets: tuple[str, ...]) -> Rules:
    """The names that hold secrets. Raises SkillrunError for one that is no pattern."""
    try:
        return Rules(map(_plain, secrets), strict=True)
    except NoPattern as error:
        raise SkillrunError(f"{quoted(str(error))} under `repository.withheld` is no pattern") from None


def _plain(text: str) -> str:
    """A name as the least careful file system takes it: without regard to case, composition and what is not seen."""
    if text.isascii():
        return text.lower()
    text = "".join(
        character for character in unicodedata.normalize("NFKC", text) if unicodedata.category(character) != "Cf"
    )
    return text.casefold()
