"""Tracks the files that the run has written, and detects which of them a user has changed.

The `wrote` records of the journal list the written files. Every name is validated, even a recorded name, because it
could lead out of the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, Final, Literal

from skillrun.repository.confined_folder import LONGEST
from skillrun.repository.paths import PathRefused, fold_name, is_reserved_by_git
from skillrun.store.files import FileChanged, Files, normalize_path, read_content, sha256_of
from skillrun.store.journal import Journal
from skillrun.store.state import STATE
from skillrun.syntax.diagnostics import sanitize
from skillrun.syntax.reading import decode_text, encoding_warning, is_binary
from skillrun.types.schemas import quote_value

INBOX: Final = ".run/inbox"  # answers of users, until the run reads them
SUMMARIES: Final = "summaries"
FORBIDDEN_NAMES: Final = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl", "head"})
"""Names that make version control treat a folder as a repository and execute its hooks. `HEAD` marks a bare one."""
COMPLETION_MARKER: Final = re.compile(r"\.[a-z0-9][a-z0-9-]*-complete")
"""The hidden names that a run may have. Such a file marks that others are whole, and no program executes it."""
MAX_PART_BYTES: Final = 240  # bytes: the limit of file systems, minus what temporary names add


def normalize_artifact_name(name: str) -> str:
    """Return the canonical name of an artifact: `plan.md` for `./plan.md`.

    Raises PathRefused for a path outside of the run, for the path of an engine file, and for a name that
    `check_artifact_name` refuses.
    """
    path = normalize_path(name)
    top = fold_name(path.partition("/")[0])  # some file systems ignore case
    if top in ("", ".run", SUMMARIES, STATE) or top.startswith("round-"):
        raise PathRefused(f"{quote_value(name)} is not a valid artifact name: it belongs to the run itself")
    check_artifact_name(path)
    return path


def check_artifact_name(name: str) -> None:
    """Raises PathRefused for the name of a file that no run has: a path that is not canonical, too long, or hidden.

    Editors, shells, version control and other programs execute what hidden files say, except `.gitignore` and
    `.NAME-complete`. For each part, the name counts under which some file system stores it.
    """
    if not name.isprintable():
        raise PathRefused(f"{quote_value(name)} is not a valid artifact name: it contains a non-printable character")
    if len(name) > LONGEST or any(len(part.encode(errors="replace")) > MAX_PART_BYTES for part in name.split("/")):
        raise PathRefused(f"{quote_value(name)} is not a valid artifact name: it is too long")
    if normalize_path(name) != name or not name:
        raise PathRefused(f"{quote_value(name)} is not a valid artifact name: it is not a plain relative path")
    for part in re.split(r"[/\\]", name):
        if _is_version_control(part):
            raise PathRefused(f"{quote_value(name)} is not a valid artifact name: version control uses `{part}`")
        is_allowed = part == ".gitignore" or COMPLETION_MARKER.fullmatch(part)
        if fold_name(part).startswith(".") and not is_allowed:
            reason = f"`{part}` is hidden, and other programs execute such files"
            raise PathRefused(f"{quote_value(name)} is not a valid artifact name: {reason}")


def check_artifact_names(names: Iterable[str]) -> None:
    """Raises PathRefused for a name that `check_artifact_name` refuses, and for two names that can be the same file.

    These are names that differ only by case or in the form of their letters, and a file that is also a folder.
    """
    known: dict[str, str] = {}  # keyed by the folded name
    folders: dict[str, str] = {}
    for name in names:
        check_artifact_name(name)
        parts = [fold_name(part) for part in name.split("/")]
        for depth in range(1, len(parts)):
            folder = "/".join(name.split("/")[:depth])
            if (first := folders.setdefault("/".join(parts[:depth]), folder)) != folder:
                raise PathRefused(f"{quote_value(folder)} and {quote_value(first)} can be the same folder")
        folded = "/".join(parts)
        if known.setdefault(folded, name) != name:
            raise PathRefused(f"{quote_value(name)} and {quote_value(known[folded])} can be the same file")
    for folded in known.keys() & folders.keys():
        raise PathRefused(f"{quote_value(known[folded])} is a file, and also the folder of another file")


def variant_names(path: str) -> Iterator[str]:
    """Yield alternative names for a file: `plan.new.md`, `plan.new-2.md` and so on.

    Callers use them if the existing file could be a user's work.
    """
    stem, dot, suffix = path.rpartition(".")
    for number in count(1):
        new = "new" if number == 1 else f"new-{number}"
        yield f"{stem}.{new}.{suffix}" if dot and "/" not in suffix else f"{path}.{new}"


def is_plain_path(name: Any) -> bool:
    """Whether a recorded name is a canonical path in a folder, and no part of it is a folder of version control."""
    try:
        is_canonical = isinstance(name, str) and name.isprintable() and normalize_path(name) == name
    except PathRefused:
        return False
    return is_canonical and not any(map(_is_version_control, re.split(r"[/\\]", name)))


def _is_version_control(part: str) -> bool:
    return fold_name(part.partition(":")[0]) in FORBIDDEN_NAMES or is_reserved_by_git(part)


def is_artifact_name(name: Any) -> bool:
    """Whether a recorded name is a canonical artifact name."""
    try:
        return isinstance(name, str) and normalize_artifact_name(name) == name
    except PathRefused:
        return False


WriteOutcome = Literal["written", "same", "kept", "conflict"]
KEPT_PREFIX: Final = "kept/"  # address prefix of a note: the edited artifact stays


class Refusals:
    """Collects a one-line message for each refused record, and passes the messages to listeners."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._listeners: list[Callable[[str], None]] = []

    @property
    def lines(self) -> list[str]:
        return list(self._lines)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Pass all past and future messages to `listener`."""
        self._listeners.append(listener)
        for line in self._lines:
            listener(line)

    def refuse(self, line: str) -> None:
        if line not in self._lines:
            self._lines[line] = None
            for listener in self._listeners:
                listener(line)


class Artifacts:
    """The artifacts of a run. Without a journal, they are read-only."""

    def __init__(self, files: Files, journal: Journal | None, refusals: Refusals) -> None:
        self._files, self._journal, self._refusals = files, journal, refusals
        self._written: dict[str, list[str]] = {}  # hashes keyed by artifact, the latest last
        self.put_now: set[str] = set()
        """The artifacts that this evaluation has written."""
        for entry in journal.entries("wrote", texts=False) if journal is not None else ():
            if is_artifact_name(entry.address):
                self._written.setdefault(entry.address, []).append(entry.fingerprint)
            else:
                refusals.refuse(
                    f"the journal says that the run wrote {quote_value(entry.address)}, which is not a valid name"
                )

    def text(self, name: str, number: int = 0) -> str | None:
        """Return the text of an artifact: the current text, or the text in finished round `number` if it is not 0.

        Returns None if the file is missing or refused. A refused file is reported.
        """
        content = self._read(name, f"round-{number}/" if number else "")
        if content is not None and is_binary(content):
            self._refusals.refuse(f"{name} is a binary file, so it has no text")
            content = None
        if content is None:
            return None
        text, undecoded = decode_text(content)
        if undecoded:
            self._refusals.refuse(encoding_warning(name, undecoded))
        return sanitize(text)

    def has(self, name: str) -> bool:
        """Whether an artifact exists. Reports a refused artifact and returns False."""
        try:
            return self._files.has(normalize_artifact_name(name))
        except PathRefused as error:
            self._refusals.refuse(error.message)
        except IsADirectoryError:
            pass
        return False

    def list_names(self) -> list[str]:
        """Return the names of the artifacts that the run has written and that still exist."""
        return [name for name in self._written if self.has(name)]

    def has_written(self, name: str) -> bool:
        """Whether the run has written a file with this name, or with a name that a file system can confuse with it."""
        return fold_name(name) in map(fold_name, self._written)

    def list_edited(self) -> list[str]:
        """Return the artifacts that were edited outside the run."""
        return [name for name in self.list_names() if not self.is_unmodified(name)]

    def is_unmodified(self, name: str) -> bool:
        """Whether a file is unchanged since the run wrote it."""
        content = self._read(name) if name in self._written else None
        return content is not None and sha256_of(content) in self._written[name]

    def _read(self, name: str, folder: str = "") -> bytes | None:
        """Return the content of an artifact. If it is missing, return None; if it is refused, report it too."""
        try:
            return read_content(self._files, f"{folder}{normalize_artifact_name(name)}")
        except PathRefused as error:
            self._refusals.refuse(error.message)
            return None

    async def put(self, name: str, text: str) -> WriteOutcome:
        """Write an artifact, unless a user has changed the existing file.

        For a changed file, the result is `kept` if the run has written `text` before: the user's version stays, even
        when the round ends. If `text` is new, the result is `conflict`. The hash is recorded before the file is
        written.
        """
        current = self._digest(normalize_artifact_name(name))
        self.put_now.add(name)
        new = sha256_of(text)
        written_hashes = self._written.get(name, [])
        if current == new:
            if new not in written_hashes:
                await self._record_write(name, new, text)
            return "same"
        if current is not None and current not in written_hashes:
            if new not in written_hashes:
                return "conflict"
            await self.keep_user_version(name)
            return "kept"
        if written_hashes[-1:] != [new]:
            await self._record_write(name, new, text)

        def check_unchanged() -> None:
            if self._digest(name) != current:
                raise FileChanged(name)

        try:
            self._files.write(name, text, precondition=check_unchanged)
        except FileChanged:
            return "conflict"
        return "written"

    async def keep_user_version(self, name: str) -> None:
        """Record that the user's version of an artifact stays in place when a round ends."""
        content = read_content(self._files, name)
        if self._journal is not None and content is not None and not self._has_keep_note(name, content):
            await self._journal.record("note", f"{KEPT_PREFIX}{name}", sha256_of(content), {})

    async def replace(self, name: str, text: str) -> None:
        """Overwrite an artifact.

        The new text is recorded after the write. Otherwise, a kill between the two would make the run keep the old
        text.
        """
        self.write_user_file(name, text)
        await self._record_write(name, sha256_of(text), text)

    def write_user_file(self, name: str, text: str) -> None:
        """Write a file and record nothing: the file then belongs to the user."""
        self._files.write(normalize_artifact_name(name), text)

    def remove(self, name: str) -> None:
        """Remove an artifact, if it exists."""
        if self._files.has(normalize_artifact_name(name)):
            self._files.remove(name)

    def make_folder(self, name: str) -> None:
        """Make a folder for files that the user provides."""
        self._files.make_folder(normalize_artifact_name(name))

    # rounds

    def move(self, name: str, target: str, *, copy: bool = False) -> None:
        """Move a file to a finished round.

        If `copy` is set or `keep_user_version` was called for the file, copy it instead. A user's file at `target` is
        renamed.
        """
        try:
            exists = self._files.has(name)
        except PathRefused as error:
            self._refusals.refuse(error.message)
            return
        if not exists:
            return
        content = read_content(self._files, name) or b""
        if self._files.has(target) and self._files.read(target) != content and not self._is_run_output(target):
            self._files.move(target, self._unused_variant(target))
        if copy or self._has_keep_note(name, content):
            self._files.write(target, content)
        else:
            self._files.move(name, target)

    def restore_from_round(self, path: str, round_folder: str) -> None:
        """If a user has created or changed a file of a finished round, move the file back into the run."""
        name = path.removeprefix(f"{round_folder}/")
        if not self._files.is_file(path) or not is_artifact_name(name) or self._is_run_output(path):
            return
        if self.has(name) and not self.is_unmodified(name):
            if read_content(self._files, name) == read_content(self._files, path):
                return
            name = self._unused_variant(name)
        self._files.move(path, name)

    def _is_run_output(self, path: str) -> bool:
        """Whether a file in a round is a summary or contains a text that the run wrote."""
        name = path.partition("/")[2]
        if name.startswith(f"{SUMMARIES}/"):
            return True
        content = read_content(self._files, path)
        return content is not None and sha256_of(content) in self._written.get(name, ())

    def _unused_variant(self, name: str) -> str:
        return next(variant for variant in variant_names(name) if not self._files.is_taken(variant))

    def _has_keep_note(self, name: str, content: bytes) -> bool:
        return (
            self._journal is not None
            and self._journal.find("note", f"{KEPT_PREFIX}{name}", sha256_of(content)) is not None
        )

    async def _record_write(self, name: str, sha: str, text: str) -> None:
        assert self._journal is not None
        self._written.setdefault(name, []).append(sha)
        await self._journal.record("wrote", name, sha, {"text": text})

    def _digest(self, name: str) -> str | None:
        content = read_content(self._files, name)
        return None if content is None else sha256_of(content)
