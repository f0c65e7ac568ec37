"""A folder as models may read it: opened once, searched within limits, and without withheld files.

Withheld files are git's own folder, the records of runs, files whose names suggest secrets, and files that git ignores.
The name that is checked is the real name of the opened file, with all links resolved.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from posixpath import normpath
from typing import Final, Self

from skillrun.repository.confined_folder import ConfinedFolder, EntryKind, OpenPath, entries
from skillrun.repository.gitignore import GitIgnore, IgnoreRules
from skillrun.repository.paths import PathRefused
from skillrun.repository.wildcards import InvalidPattern, Wildcard
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import quote_value

ALWAYS_WITHHELD: Final = frozenset({".git", ".run"})
LARGE_FOLDERS: Final = frozenset({".venv", "__pycache__", "node_modules"})
MAX_FILES: Final = 20_000
MAX_PROJECT_BYTES: Final = 200_000_000  # of all files of a project, or of a commit, together
MAX_ENTRIES: Final = 100_000  # per folder
DEEPEST: Final = 64
SECONDS: Final = 5.0

Parts = tuple[str, ...]


class PathWithheld(SkillrunError):
    """Models may not read this file or folder."""


class ReadableFolder:
    """A folder without the files that match `secrets` and, by default, without the files that git ignores.

    Operations raise TimeoutError about `SECONDS` after this object was created.
    """

    def __init__(self, tree: ConfinedFolder, secrets: tuple[str, ...] = (), *, use_gitignore: bool = True) -> None:
        self.tree = tree
        self.deadline = time.monotonic() + SECONDS
        self._secrets = _secret_rules(secrets)
        self._gitignore = GitIgnore(tree, self.check_deadline) if use_gitignore else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tree.close()

    @contextmanager
    def open_path(self, name: str, *, allow_ignored: bool = False, is_checked: bool = False) -> Iterator[OpenPath]:
        """Open the file or folder with this name. With `allow_ignored`, a file that git ignores can be opened. With
        `is_checked`, the name must come from `files`, and is not checked again. Raises PathWithheld, PathRefused and
        OSError."""
        try:
            with self.tree.open_path(name) as opened:
                if not is_checked or opened.name != name:
                    self._check_access(name, split_path(opened.name), opened.is_folder, allow_ignored=allow_ignored)
                    self._check_access(name, split_path(name), opened.is_folder, allow_ignored=allow_ignored)
                yield opened
        except (FileNotFoundError, NotADirectoryError):
            for is_folder in (False, True):  # do not reveal whether a withheld file exists
                self._check_access(
                    name, split_path(name) or split_path(normpath(name)), is_folder, allow_ignored=allow_ignored
                )
            raise

    def files(self, start: str = ".", pattern: Wildcard | None = None, *, include_runs: bool = False) -> Iterator[str]:
        """Yield the names of the files below `start` that match `pattern`, at most MAX_FILES. The files in a folder
        come before the files in its subfolders.

        Links to files are included; links to folders are not followed. Run folders are skipped unless `include_runs`.
        """
        remaining = MAX_FILES
        pending = [start]
        while pending:
            folder = pending.pop()
            parent_parts = split_path(folder)
            entries = self._entries(folder)
            if not include_runs and folder != start and (".run", "folder") in entries:
                continue
            for base_name, kind in entries:
                parts = (*parent_parts, base_name)
                if kind == "folder" or (pattern is not None and not pattern.matches(parts)):
                    continue
                name = "/".join(parts)
                if self._withheld_reason(parts, False):
                    continue
                if kind == "file" or (kind == "link" and self._links_to_folder(name) is False):
                    yield name
                    remaining -= 1
                    if not remaining:
                        return
            folders = [(*parent_parts, base_name) for base_name, kind in entries if kind == "folder"]
            pending += [
                "/".join(parts)
                for parts in reversed(folders if len(parent_parts) < DEEPEST else ())
                if (pattern is None or pattern.may_match_below(parts)) and not self._withheld_reason(parts, True)
            ]

    def names(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield each name in a folder, and whether it is a folder. Links are followed."""
        for base_name, kind in self._entries(folder):
            parts = (*split_path(folder), base_name)
            if self._withheld_reason(parts, kind == "folder"):
                continue
            if kind in ("file", "folder"):
                yield base_name, kind == "folder"
            elif kind == "link" and (is_folder := self._links_to_folder("/".join(parts))) is not None:
                yield base_name, is_folder

    def _entries(self, folder: str) -> list[tuple[str, EntryKind]]:
        """Return the entries of the folder with this real name; empty if it has been replaced or cannot be read."""
        self.check_deadline()
        try:
            with self.tree.open_path(folder) as opened:
                return entries(opened.descriptor, MAX_ENTRIES) if opened.is_folder and opened.name == folder else []
        except (OSError, PathRefused):
            return []

    def _links_to_folder(self, name: str) -> bool | None:
        """Whether a link leads to a folder. None if the link's target may not be read."""
        try:
            with self.open_path(name) as opened:
                return opened.is_folder
        except (OSError, SkillrunError):
            return None

    def _check_access(self, name: str, parts: Parts, is_folder: bool, *, allow_ignored: bool) -> None:
        for end in range(1, len(parts) + 1):
            if reason := self._withheld_reason(parts[:end], end < len(parts) or is_folder, allow_ignored=allow_ignored):
                raise PathWithheld(f"{quote_value(name)} is withheld: {reason}")

    def _withheld_reason(self, parts: Parts, is_folder: bool, *, allow_ignored: bool = False) -> str:
        """Return why a file or folder is withheld; empty if it is not. Its parent folder must not be withheld."""
        self.check_deadline()
        normalized = tuple(map(_normalize_name, parts))
        if normalized[-1] in ALWAYS_WITHHELD:
            return f"`{normalized[-1]}` is never shown"
        if self._secrets.verdict(normalized, is_folder, self.check_deadline):
            return "files with this name may hold secrets"
        if allow_ignored or self._gitignore is None:
            return ""
        if normalized[-1] in LARGE_FOLDERS:
            return f"`{normalized[-1]}` is never shown"
        return self._gitignore.ignore_reason(parts, is_folder)

    def check_deadline(self) -> None:
        """Raise TimeoutError if the deadline has passed."""
        if time.monotonic() > self.deadline:
            raise TimeoutError


def split_path(name: str) -> Parts:
    """Return the parts of a name. If it contains `..`, return no parts, because only the file system can resolve it."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    return () if ".." in parts else parts


def one_line(name: str) -> str:
    """Return a name as one line of printable text."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)


@lru_cache(maxsize=8)
def _secret_rules(secrets: tuple[str, ...]) -> IgnoreRules:
    """Compile the patterns for the names of files that hold secrets. Raises SkillrunError for an invalid pattern."""
    try:
        return IgnoreRules(map(_normalize_name, secrets), strict=True)
    except InvalidPattern as error:
        raise SkillrunError(f"{quote_value(str(error))} under `repository.withheld` is not a valid pattern") from None


def _normalize_name(text: str) -> str:
    """Return a name without the differences that a file system may ignore: case, composition and invisible
    characters."""
    if text.isascii():
        return text.lower()
    text = "".join(
        character for character in unicodedata.normalize("NFKC", text) if unicodedata.category(character) != "Cf"
    )
    return text.casefold()
