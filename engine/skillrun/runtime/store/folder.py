"""The folder of a run: artifacts, summaries, rounds and state, each written whole or not at all.

Knows which files are its own work and which a person has changed since. The journal is beside it in `.run/`. All of it
is reached from the folder's descriptor: no link is followed, and nothing that was recorded is trusted to be a name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from skillrun.language.text.border import clean
from skillrun.language.text.diagnostics import SkillrunError
from skillrun.language.text.source import MAX_BYTES
from skillrun.language.types.schemas import shown
from skillrun.runtime.store.files import (
    LARGEST,
    FileChanged,
    digest,
    folder_mode,
    folders,
    move,
    sweep,
    tree_of,
    write_atomic,
)
from skillrun.runtime.store.journal import Journal
from skillrun.runtime.store.recorded import SUMMARIES, artifact, is_artifact, names_beside
from skillrun.runtime.store.records_yaml import RunFile, from_frontmatter, to_frontmatter
from skillrun.runtime.store.state import STATE, State, from_text, to_text
from skillrun.runtime.store.summary import Past, Summary, read_summary
from skillrun.tools.matching import matching
from skillrun.tools.paths import PathRefused
from skillrun.tools.tree import Tree

Written = Literal["written", "same", "kept", "conflict"]
Listener = Callable[[str], None]
KEPT: Final = "kept/"  # where the journal notes that an edited artifact stays
_ROUND: Final = re.compile(r"round-[0-9]+")


class RunFolder:
    """The files of one run. All names given to it are checked against escaping from there.

    The `wrote` records of the journal say which texts the run itself has written to which artifact; without a journal
    the files can be looked at. With `shared`, what it writes can be read by whom the umask allows.
    """

    def __init__(self, folder: Tree | Path, journal: Journal | None = None, *, shared: bool = False) -> None:
        self.tree = tree_of(folder)
        self.path = self.tree.path
        self.shared = shared
        self._journal = journal
        self._written: dict[str, list[str]] = {}  # hashes by artifact, the latest last
        self._put: set[str] = set()
        self._summarized: dict[str, set[str]] = {}  # hashes by summary, with its round
        self._state = ""  # as it was last written
        self._summaries = SUMMARIES
        self._read: dict[str, Summary] = {}  # the summaries that have been read, by name
        self._refused: dict[str, None] = {}
        self._listeners: list[Listener] = []
        for entry in journal.entries("wrote") if journal is not None else ():
            if is_artifact(entry.address):
                self._written.setdefault(entry.address, []).append(entry.fingerprint)
            else:
                self._refuse(f"the journal says that the run wrote {shown(entry.address)}, which is no artifact of it")

        for entry in journal.entries("summary") if journal is not None else ():
            self._summarized.setdefault(entry.address, set()).add(entry.fingerprint)

    @property
    def refused(self) -> list[str]:
        """What was recorded and not followed so far, a line each."""
        return list(self._refused)

    def listen(self, listener: Listener) -> None:
        """Tell what was refused so far, and what will be."""
        self._listeners.append(listener)
        for line in self._refused:
            listener(line)

    def _refuse(self, line: str) -> None:
        if line not in self._refused:
            self._refused[line] = None
            for listener in self._listeners:
                listener(line)

    def check(self) -> None:
        """Raises PathRefused where something that a run's own files should be is a link or nothing regular."""
        for name, kind in self.tree.entries():
            if name in (".run", SUMMARIES) or _ROUND.fullmatch(name):
                if kind != "folder":
                    raise PathRefused(f"`{name}` in {self.path} is no folder", "skillrun makes one there: remove it")
            elif name == STATE:
                self.tree.known(name)
        if self.tree.is_folder(".run"):
            for name, kind in self.tree.entries(".run"):
                if kind != "folder":
                    self.tree.known(f".run/{name}")

    # artifacts

    def name(self, name: str) -> str:
        """The one name of an artifact. Raises PathRefused when it would lie outside, or in a file of the engine's."""
        return artifact(name)

    def text(self, name: str) -> str | None:
        """The text of an artifact; None where there is none, or where it is refused, which is told."""
        try:
            content = self._content(artifact(name))
        except PathRefused as error:
            self._refuse(error.message)
            return None
        return None if content is None else clean(content.decode("utf-8", "replace"))

    async def put(self, name: str, text: str) -> Written:
        """Write an artifact, unless a person has changed the file that is there.

        `kept`: the run has written this text before, the person has changed what became of it, and theirs stays, also
        when the round ends.
        `conflict`: the text is new, and nothing was written. The hash is in the ledger before the file is.
        """
        current = self._digest(artifact(name))
        self._put.add(name)
        new = digest(text)
        before = self._written.get(name, [])
        if current == new:
            if new not in before:
                await self._note(name, new)
            return "same"
        if current is not None and current not in before:
            if new not in before:
                return "conflict"
            await self.keep(name)
            return "kept"
        if before[-1:] != [new]:
            await self._note(name, new)
        try:
            write_atomic(self.tree, name, text, shared=self.shared, last=lambda: self._unchanged(name, current))
        except FileChanged:  # by a person, since it was looked at
            return "conflict"
        return "written"

    def _unchanged(self, name: str, current: str | None) -> None:
        if self._digest(name) != current:
            raise FileChanged(name)

    def _digest(self, name: str) -> str | None:
        content = self._content(name)
        return None if content is None else digest(content)

    async def keep(self, name: str) -> None:
        """Have what a person has made of an artifact stay where it is when a round ends, instead of moving there."""
        content = self._content(name)
        if self._journal is not None and content is not None and not self._is_kept(name, content):
            await self._journal.record("note", f"{KEPT}{name}", digest(content), {})

    def _is_kept(self, name: str, content: bytes) -> bool:
        return self._journal is not None and self._journal.find("note", f"{KEPT}{name}", digest(content)) is not None

    async def replace(self, name: str, text: str) -> None:
        """Write an artifact over whatever is there; noted when it is, or a kill between would let the old one stand."""
        self.put_beside(name, text)
        await self._note(name, digest(text))

    async def _note(self, name: str, sha: str) -> None:
        assert self._journal is not None
        self._written.setdefault(name, []).append(sha)
        await self._journal.record("wrote", name, sha, {})

    def put_beside(self, name: str, text: str) -> None:
        """Write a file that belongs to the person from then on."""
        self._write(artifact(name), text)

    def remove(self, name: str) -> None:
        """Remove an artifact, where it is there."""
        if self.tree.known(artifact(name)) is not None:
            self.tree.remove(name)

    def make_folder(self, name: str) -> None:
        """Make a folder for files that a person brings."""
        self.tree.make(artifact(name), folder_mode(shared=self.shared))

    def _write(self, name: str, content: str | bytes) -> None:
        write_atomic(self.tree, name, content, shared=self.shared)

    def artifacts(self) -> list[str]:
        """The files that the run has written and that are there."""
        return [name for name in self._written if self.has(name)]

    def has(self, name: str) -> bool:
        """Whether an artifact is there; one that is refused is not, and that is told."""
        try:
            return self.tree.known(artifact(name)) is not None
        except PathRefused as error:
            self._refuse(error.message)
        except IsADirectoryError:
            pass
        return False

    def changed_by_hand(self) -> list[str]:
        """The artifacts, and the summaries of all rounds, whose present text the run has never written."""
        edited = [name for name in self._summarized if self._is_edited(name, name)]
        return [*(name for name in self.artifacts() if not self._own(name)), *edited, *self.edited_before()]

    def edited_before(self) -> list[str]:
        """The summaries of the rounds that are over whose present text the run has never written."""
        return [
            place
            for past in self._rounds()
            for name in self._summarized
            if self._is_edited(place := f"{past}/{name}", name)
        ]

    def removed(self) -> list[str]:
        """The artifacts that this round's summaries name and that are not there any more."""
        summaries = filter(None, map(self.told_summary, self.summarized()))
        names = dict.fromkeys(name for summary in summaries for name in summary.artifacts)
        return list(filter(self._is_gone, names))

    def _is_gone(self, name: str) -> bool:
        try:
            return self.tree.known(name) is None
        except (PathRefused, IsADirectoryError):  # something else stands there
            return False

    def is_edited(self, phase: str) -> bool:
        """Whether the summary of a phase is other than the run has written it."""
        name = f"{self._summaries}/{phase}.md"
        return self._is_edited(name, name)

    def _is_edited(self, place: str, name: str) -> bool:
        known = self._summarized.get(name)
        try:
            content = self._content(place) if known is not None else None
        except PathRefused:  # told by who reads it
            return False
        return known is not None and content is not None and digest(content) not in known

    def matching(self, pattern: str) -> list[str]:
        """The names of the files that match a pattern, sorted: those of this evaluation and those of other people.

        Not the engine's own or another run's, and nothing that an earlier evaluation wrote and this one may or may not
        write again. As in a shell, a wildcard stands for no dot that a name begins with: `._a.md` is an editor's or a
        system's own.
        """
        current = self._current()
        hidden = pattern.startswith(".") or "/." in pattern
        return [
            name
            for name in matching(self.tree, pattern)
            if name != STATE and not name.startswith(".run/") and (name in current or not self._own(name))
            if hidden or not any(part.startswith(".") for part in name.split("/"))
            if not self._of_another(name)
        ]

    def _of_another(self, name: str) -> bool:
        """Whether a file is that of a run that lies inside this one."""
        above = [name[:at] for at, sign in enumerate(name) if sign == "/"]
        return any(self.tree.is_folder(f"{one}/.run") for one in above)

    def content(self, name: str) -> bytes:
        """The bytes of a file that `matching` has found."""
        found = self._content(name)
        if found is None:
            raise SkillrunError(f"there is no file `{name}` in {self.path} any more")
        return found

    def _content(self, name: str) -> bytes | None:
        try:
            content = self.tree.read(name, LARGEST)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        if len(content) > LARGEST:
            raise PathRefused(
                f"{shown(name)} is larger than {LARGEST:,} bytes", "No run writes that much: move it away."
            )
        return content

    def _own(self, name: str) -> bool:
        """Whether a file is as the run has written it."""
        if name not in self._written:
            return False
        try:
            content = self._content(name)
        except PathRefused as error:
            self._refuse(error.message)
            return False
        return content is not None and digest(content) in self._written[name]

    def _current(self) -> set[str]:
        """The artifacts that this evaluation has written: so far, and in the phases that are over."""
        summaries = map(self._record, matching(self.tree, f"{SUMMARIES}/**/*.md"))
        return self._put.union(*(summary.artifacts for summary in summaries))

    # summaries

    def summary(self, phase: str) -> Summary | None:
        """The record of a phase that is over."""
        summary = self.any_summary(phase)
        return summary if summary is not None and summary.is_over else None

    def any_summary(self, phase: str) -> Summary | None:
        """Also that of a phase which waits. Raises SkillrunError where the file cannot be read."""
        name = f"{self._summaries}/{phase}.md"
        return self._record(name) if self.tree.known(name) is not None else None

    def told_summary(self, phase: str) -> Summary | None:
        """The same, for who only looks; None also where it cannot be read, which is told."""
        try:
            return self.any_summary(phase)
        except SkillrunError as error:
            self._refuse(error.message)
            return None

    def summaries(self, phases: Iterable[str]) -> dict[str, Summary]:
        """The summaries of this round, of those phases that are over."""
        return {name: summary for name in phases if (summary := self.summary(name)) is not None}

    def summarized(self) -> list[str]:
        """The phases that have a summary in this round, sorted."""
        return [_stem(name) for name in matching(self.tree, f"{self._summaries}/*.md")]

    def set_aside(self, phase: str) -> None:
        """Keep a summary that cannot be used under a name that nothing reads."""
        name = f"{self._summaries}/{phase}.md"
        with self.tree.place(name) as (folder, leaf):
            os.rename(leaf, f"{leaf}.invalid", src_dir_fd=folder, dst_dir_fd=folder)
        self._read.pop(name, None)

    async def put_summary(self, phase: str, summary: Summary) -> None:
        """Write the record of a phase; its hash is in the journal before, so that an edit is noticed."""
        name = f"{self._summaries}/{phase}.md"
        body = f"# {phase}\n\n{summary.summary}".rstrip() + "\n"
        await self._put_summary(name, to_frontmatter(summary.record, body))

    async def _put_summary(self, name: str, text: str) -> None:
        known, new = self._summarized.setdefault(name, set()), digest(text)
        if new not in known:
            known.add(new)
            if self._journal is not None:
                await self._journal.record("summary", name, new, {})
        content = self._content(name)
        if content is None or digest(content) != new:
            self._write(name, text)
            self._read.pop(name, None)

    def history(self, rounds: int) -> list[Past]:
        """The summaries of the rounds that are over, oldest first."""
        past = []
        for number in range(1, rounds):
            names = matching(self.tree, f"round-{number}/{SUMMARIES}/*.md")
            records = {_stem(name): self._record(name).record for name in names}
            phases = {
                phase: Summary.of({"round": number, "phase": phase, **record}) for phase, record in records.items()
            }
            past.append(Past(number, phases))
        return past

    def ended(self, rounds: int, phases: Iterable[str]) -> list[Summary]:
        """Every summary: those of the rounds that are over, and of this one those of `phases`."""
        past = [summary for one in self.history(rounds) for summary in one.phases.values()]
        return [*past, *self.summaries(phases).values()]

    def move_to_round(self, number: int, phases: Iterable[str], staying: Iterable[str]) -> None:
        """Move the summaries and artifacts of `phases` to `round-<number>/`; doing it again does nothing more.

        An artifact is copied that one of the phases `staying` has written too, because they are not evaluated again, or
        that a person has changed and keeps.
        """
        target = f"round-{number}"
        kept = {name for summary in self.summaries(staying).values() for name in summary.artifacts}
        for phase, summary in self.summaries(phases).items():
            for name in summary.artifacts:
                self._move(name, f"{target}/{name}", stays=name in kept)
            self._move(f"{SUMMARIES}/{phase}.md", f"{target}/{SUMMARIES}/{phase}.md")

    def _record(self, name: str) -> Summary:
        if name not in self._read:
            file = RunFile.read(self.path / name, self.tree.read(name, MAX_BYTES))
            self._read[name], wrong = read_summary(file.data)
            for path, text in wrong:
                place = file.place(*path)
                self._refuse(f"{name}:{place.line}:{place.column}: {text}")
        return self._read[name]

    def _forget(self, name: str) -> None:
        self.tree.remove(name)
        self._read.pop(name, None)

    def _move(self, name: str, target: str, *, stays: bool = False) -> None:
        try:
            there = self.tree.known(name) is not None
        except PathRefused as error:
            return self._refuse(error.message)
        if not there:
            return None
        content = self._content(name) or b""
        if self.tree.known(target) is not None and self.tree.read(target, LARGEST) != content:
            self._spare(target)
        if stays or self._is_kept(name, content):
            return self._write(target, content)
        move(self.tree, name, target, shared=self.shared)
        self._read.pop(name, None)
        return None

    def _spare(self, name: str) -> None:
        """Give what stands there a name beside it, unless it is the run's own."""
        if not self._is_written(name, name.partition("/")[2]):
            move(self.tree, name, next(one for one in names_beside(name) if self.tree.identity(one) is None))

    def _is_written(self, name: str, artifact: str) -> bool:
        """Whether a file holds what the run has written as an artifact or, below `summaries`, at all."""
        if artifact.startswith(f"{SUMMARIES}/"):
            return True
        content = self._content(name)
        return content is not None and digest(content) in self._written.get(artifact, ())

    # state

    def write_state(self, state: State, log: Iterable[str]) -> None:
        text = to_text(state, log)
        if text != self._state:
            self._write(STATE, text)
            self._state = text

    def read_state(self) -> tuple[State, list[str]]:
        """Raises SkillrunError when there is no state, or one of another version."""
        if self.tree.known(STATE) is None:
            raise SkillrunError(f"{self.path} is no run: it has no {STATE}", "`skillrun runs` lists the runs")
        return from_text(self.path / STATE, self.tree.read(STATE, MAX_BYTES))

    async def rename_phases(self, now: Mapping[str, str]) -> None:
        """Give the summaries of phases, of all rounds, the names that their phases have now."""
        for folder in (SUMMARIES, *(f"{one}/{SUMMARIES}" for one in self._rounds())):
            for old, new in now.items():
                name, renamed = f"{folder}/{old}.md", f"{folder}/{new}.md"
                if self.tree.known(name) is not None and self.tree.known(renamed) is None:
                    data, body = from_frontmatter(self.path / name, self.tree.read(name, MAX_BYTES))
                    await self._put_summary(renamed, to_frontmatter({**data, "phase": new}, body))
                    self._forget(name)

    def prune(self) -> None:
        """Remove the artifacts that an earlier evaluation wrote and this one did not, unless a person changed them."""
        current = self._current()
        for name in self.artifacts():
            if name not in current and self._own(name):
                self.tree.remove(name)

    def clean(self) -> None:
        """Remove what killed writes left behind."""
        for folder in folders(self.tree):
            sweep(self.tree, folder)

    def begin_again(self) -> None:
        """Forget summaries and rounds, so that everything is evaluated from the start; artifacts stay, and so does what
        a person has changed in a round: it becomes the artifact again, or stands beside one that was changed too."""
        for name in sorted(self._rounds(), key=lambda one: -int(one.rpartition("-")[2])):
            self._rescue(name)
        for name in (SUMMARIES, *self._rounds()):
            if self.tree.is_folder(name):
                self.tree.remove(name)
        self._read.clear()

    def _rescue(self, past: str) -> None:
        for folder in [name for name in folders(self.tree) if name == past or name.startswith(f"{past}/")]:
            for leaf, _ in self.tree.entries(folder):
                path = f"{folder}/{leaf}"
                name = path.removeprefix(f"{past}/")
                if not self.tree.is_file(path) or not is_artifact(name) or self._is_written(path, name):
                    continue
                if self.has(name) and not self._own(name):
                    if self._content(name) == self._content(path):
                        continue
                    name = next(one for one in names_beside(name) if self.tree.identity(one) is None)
                move(self.tree, path, name, shared=self.shared)

    def _rounds(self) -> list[str]:
        return [name for name, kind in self.tree.entries() if kind == "folder" and _ROUND.fullmatch(name)]


class InlineFolder(RunFolder):
    """The same folder for a workflow that runs inside a phase: its summaries are its own, and none is written yet.

    Those of its earlier rounds are only remembered, and its artifacts stay to be written again.
    """

    def __init__(self, outer: RunFolder, address: str) -> None:
        vars(self).update(vars(outer))
        self._summaries = f"{SUMMARIES}/{address.replace('/', '.')}"
        self._over: list[Past] = []
        for name in matching(self.tree, f"{self._summaries}/*.md"):
            self._forget(name)

    def history(self, rounds: int) -> list[Past]:  # noqa: ARG002 (all that are over)
        return self._over

    def move_to_round(self, number: int, phases: Iterable[str], staying: Iterable[str]) -> None:  # noqa: ARG002
        moving = self.summaries(phases)
        self._over.append(Past(number, moving))
        for phase in moving:
            self._forget(f"{self._summaries}/{phase}.md")


def _stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".md")
