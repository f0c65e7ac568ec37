"""Which files are the run's own work, and which a person has changed since: by the `wrote` records of the journal.

All names given to it are checked against escaping from the run. What was recorded is never trusted to be a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from skillrun.repository.paths import PathRefused
from skillrun.store.artifact_names import SUMMARIES, artifact, is_artifact, names_beside
from skillrun.store.files import FileChanged, Files, content_of, sha256_of
from skillrun.store.journal import Journal
from skillrun.syntax.sanitizing import clean
from skillrun.types.schemas import quoted

Written = Literal["written", "same", "kept", "conflict"]
Listener = Callable[[str], None]
KEPT: Final = "kept/"  # where the journal notes that an edited artifact stays


class Refusals:
    """What was recorded and not followed, a line each, and who wants to hear of it."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._listeners: list[Listener] = []

    @property
    def lines(self) -> list[str]:
        return list(self._lines)

    def listen(self, listener: Listener) -> None:
        """Tell what was refused so far, and what will be."""
        self._listeners.append(listener)
        for line in self._lines:
            listener(line)

    def refuse(self, line: str) -> None:
        if line not in self._lines:
            self._lines[line] = None
            for listener in self._listeners:
                listener(line)


class Ledger:
    """The artifacts of a run. Without a journal they can be looked at."""

    def __init__(self, files: Files, journal: Journal | None, refusals: Refusals) -> None:
        self._files, self._journal, self._refusals = files, journal, refusals
        self._written: dict[str, list[str]] = {}  # hashes by artifact, the latest last
        self.put_now: set[str] = set()
        """The artifacts that this evaluation has written."""
        for entry in journal.entries("wrote") if journal is not None else ():
            if is_artifact(entry.address):
                self._written.setdefault(entry.address, []).append(entry.fingerprint)
            else:
                refusals.refuse(
                    f"the journal says that the run wrote {quoted(entry.address)}, which is no artifact of it"
                )

    def name(self, name: str) -> str:
        """The one name of an artifact. Raises PathRefused when it would lie outside, or in a file of the engine's."""
        return artifact(name)

    def text(self, name: str, number: int = 0) -> str | None:
        """The text of an artifact, or with the number of a round that is over the one that it left.

        None where there is none, or where it is refused, which is told.
        """
        try:
            content = content_of(self._files, f"round-{number}/{artifact(name)}" if number else artifact(name))
        except PathRefused as error:
            self._refusals.refuse(error.message)
            return None
        return None if content is None else clean(content.decode("utf-8", "replace"))

    def has(self, name: str) -> bool:
        """Whether an artifact is there; one that is refused is not, and that is told."""
        try:
            return self._files.has(artifact(name))
        except PathRefused as error:
            self._refusals.refuse(error.message)
        except IsADirectoryError:
            pass
        return False

    def artifacts(self) -> list[str]:
        """The files that the run has written and that are there."""
        return [name for name in self._written if self.has(name)]

    def changed_by_hand(self) -> list[str]:
        """The artifacts whose present text the run has never written."""
        return [name for name in self.artifacts() if not self.is_own(name)]

    def is_own(self, name: str) -> bool:
        """Whether a file is as the run has written it."""
        if name not in self._written:
            return False
        try:
            content = content_of(self._files, name)
        except PathRefused as error:
            self._refusals.refuse(error.message)
            return False
        return content is not None and sha256_of(content) in self._written[name]

    async def put(self, name: str, text: str) -> Written:
        """Write an artifact, unless a person has changed the file that is there.

        `kept`: the run has written this text before, the person has changed what became of it, and theirs stays, also
        when the round ends.
        `conflict`: the text is new, and nothing was written. The hash is in the ledger before the file is.
        """
        current = self._digest(artifact(name))
        self.put_now.add(name)
        new = sha256_of(text)
        before = self._written.get(name, [])
        if current == new:
            if new not in before:
                await self._note(name, new, text)
            return "same"
        if current is not None and current not in before:
            if new not in before:
                return "conflict"
            await self.keep(name)
            return "kept"
        if before[-1:] != [new]:
            await self._note(name, new, text)
        try:
            self._files.write(name, text, last=lambda: self._check_unchanged(name, current))
        except FileChanged:  # by a person, since it was looked at
            return "conflict"
        return "written"

    async def keep(self, name: str) -> None:
        """Have what a person has made of an artifact stay where it is when a round ends, instead of moving there."""
        content = content_of(self._files, name)
        if self._journal is not None and content is not None and not self._is_kept(name, content):
            await self._journal.record("note", f"{KEPT}{name}", sha256_of(content), {})

    async def replace(self, name: str, text: str) -> None:
        """Write an artifact over whatever is there; noted when it is, or a kill between would let the old one stand."""
        self.put_beside(name, text)
        await self._note(name, sha256_of(text), text)

    def put_beside(self, name: str, text: str) -> None:
        """Write a file that belongs to the person from then on."""
        self._files.write(artifact(name), text)

    def put_form(self, name: str, text: str) -> bool:
        """Write a file for the person to fill in, unless one is there; whether it was written."""
        return self._files.write_new(artifact(name), text)

    def remove(self, name: str) -> None:
        """Remove an artifact, where it is there."""
        if self._files.has(artifact(name)):
            self._files.remove(name)

    def make_folder(self, name: str) -> None:
        """Make a folder for files that a person brings."""
        self._files.make_folder(artifact(name))

    def prune(self, current: set[str]) -> None:
        """Remove the artifacts that an earlier evaluation wrote and this one did not, unless a person changed them."""
        for name in self.artifacts():
            if name not in current and self.is_own(name):
                self._files.remove(name)

    # rounds

    def move(self, name: str, target: str, *, stays: bool = False) -> None:
        """Move a file to a round that ends. It is copied where it `stays`, or where a person has changed and keeps it;
        what a person has put at `target` gets a name beside it."""
        try:
            there = self._files.has(name)
        except PathRefused as error:
            self._refusals.refuse(error.message)
            return
        if not there:
            return
        content = content_of(self._files, name) or b""
        if self._files.has(target) and self._files.read(target) != content and not self._is_of_run(target):
            self._files.move(target, self._free_beside(target))
        if stays or self._is_kept(name, content):
            self._files.write(target, content)
        else:
            self._files.move(name, target)

    def rescue(self, path: str, past: str) -> None:
        """Give a file in the round `past` its place in the run again, where a person has made or changed it."""
        name = path.removeprefix(f"{past}/")
        if not self._files.is_file(path) or not is_artifact(name) or self._is_of_run(path):
            return
        if self.has(name) and not self.is_own(name):
            if content_of(self._files, name) == content_of(self._files, path):
                return
            name = self._free_beside(name)
        self._files.move(path, name)

    def _is_of_run(self, path: str) -> bool:
        """Whether a file in a round holds what the run has written as that artifact or, below `summaries`, at all."""
        name = path.partition("/")[2]
        if name.startswith(f"{SUMMARIES}/"):
            return True
        content = content_of(self._files, path)
        return content is not None and sha256_of(content) in self._written.get(name, ())

    def _free_beside(self, name: str) -> str:
        return next(beside for beside in names_beside(name) if not self._files.is_taken(beside))

    def _is_kept(self, name: str, content: bytes) -> bool:
        return self._journal is not None and self._journal.find("note", f"{KEPT}{name}", sha256_of(content)) is not None

    async def _note(self, name: str, sha: str, text: str) -> None:
        assert self._journal is not None
        self._written.setdefault(name, []).append(sha)
        await self._journal.record("wrote", name, sha, {"text": text})

    def _check_unchanged(self, name: str, current: str | None) -> None:
        if self._digest(name) != current:
            raise FileChanged(name)

    def _digest(self, name: str) -> str | None:
        content = content_of(self._files, name)
        return None if content is None else sha256_of(content)
