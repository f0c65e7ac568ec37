"""The summaries of phases, in this round and in finished rounds, and which summaries a user has changed.

A workflow inside a phase has separate summaries: `summaries/<address of the step>/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from skillrun.repository.paths import PathRefused
from skillrun.store.artifact_names import SUMMARIES
from skillrun.store.artifacts import Refusals
from skillrun.store.files import Files, read_content, sha256_of
from skillrun.store.frontmatter import RunFile, from_frontmatter, to_frontmatter
from skillrun.store.journal import Journal
from skillrun.store.summary import PastRound, Summary, read_summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import MAX_BYTES

ROUND: Final = re.compile(r"round-[0-9]+")


def past_round_folders(files: Files) -> list[str]:
    """Return the folders of finished rounds."""
    return [name for name, kind in files.entries() if kind == "folder" and ROUND.fullmatch(name)]


class SummaryFiles:
    """Summaries, keyed by file name: their contents, and whether the run wrote them.

    The `summary` records of the journal list the texts that the run has written.
    """

    def __init__(self, files: Files, journal: Journal | None, refusals: Refusals) -> None:
        self.files, self._journal, self._refusals = files, journal, refusals
        self._read: dict[str, Summary] = {}
        self._written: dict[str, set[str]] = {}  # hashes
        for entry in journal.entries("summary") if journal is not None else ():
            self._written.setdefault(entry.address, set()).add(entry.fingerprint)

    def summary(self, name: str) -> Summary:
        """Return a summary without its invalid values, which are reported."""
        if name not in self._read:
            file = RunFile.read(self.files.path / name, self.files.read(name, MAX_BYTES))
            self._read[name], invalid_fields = read_summary(file.data)
            for path, text in invalid_fields:
                place = file.span_of(*path)
                self._refusals.refuse(f"{name}:{place.line}:{place.column}: {text}")
        return self._read[name]

    async def put(self, name: str, text: str) -> None:
        """Write a summary. Its hash is recorded first, so that a later edit is noticed."""
        written_hashes, new = self._written.setdefault(name, set()), sha256_of(text)
        if new not in written_hashes:
            written_hashes.add(new)
            if self._journal is not None:
                await self._journal.record("summary", name, new, {})
        content = read_content(self.files, name)
        if content is None or sha256_of(content) != new:
            self.files.write(name, text)
            self._read.pop(name, None)

    def move(self, name: str, target: str) -> None:
        self.files.move(name, target)
        self._read.pop(name, None)
        self._read.pop(target, None)

    def remove(self, name: str) -> None:
        """Remove a summary, or a folder with all that is in it."""
        if self.files.is_taken(name):
            self.files.remove(name)
        self._read = {file: read for file, read in self._read.items() if not f"{file}/".startswith(f"{name}/")}

    def refuse(self, line: str) -> None:
        self._refusals.refuse(line)

    def list_edited(self, folder: str = "") -> list[str]:
        """Return the summaries in `folder` whose current text the run has never written.

        Without `folder`, check this round.
        """
        return [place for name in self._written if self.is_edited(name, place := f"{folder}{name}")]

    def is_edited(self, name: str, place: str = "") -> bool:
        written_hashes = self._written.get(name)
        try:
            content = read_content(self.files, place or name) if written_hashes is not None else None
        except PathRefused:  # reported when it is read
            return False
        return written_hashes is not None and content is not None and sha256_of(content) not in written_hashes


class Summaries:
    """The summaries of a run by phase."""

    def __init__(self, texts: SummaryFiles, folder: str = SUMMARIES) -> None:
        self.texts, self._folder = texts, folder

    def file_name(self, phase: str) -> str:
        """Return the name of the summary file of a phase."""
        return f"{self._folder}/{phase}.md"

    def find(self, phase: str) -> Summary | None:
        """Return the record of a finished or waiting phase. Raises SkillrunError if the file is invalid."""
        name = self.file_name(phase)
        return self.texts.summary(name) if self.texts.files.has(name) else None

    def find_completed(self, phase: str) -> Summary | None:
        """Return the record of a finished phase."""
        summary = self.find(phase)
        return summary if summary is not None and summary.is_over else None

    def find_readable(self, phase: str) -> Summary | None:
        """Return the record of a phase, for views. If the record is invalid, report it and return None."""
        try:
            return self.find(phase)
        except SkillrunError as error:
            self.texts.refuse(error.message)
            return None

    def completed_summaries(self, phases: Iterable[str]) -> dict[str, Summary]:
        """Return the summaries of the finished ones among `phases` in this round, keyed by phase."""
        return {name: summary for name in phases if (summary := self.find_completed(name)) is not None}

    def phases(self) -> list[str]:
        """Return the phases that have a summary in this round, sorted."""
        return [_stem(name) for name in self.texts.files.matching(f"{self._folder}/*.md")]

    def history(self, rounds: int) -> list[PastRound]:
        """Return the summaries of finished rounds, oldest first."""
        past = []
        for number in range(1, rounds):
            names = self.texts.files.matching(f"round-{number}/{SUMMARIES}/*.md")
            records = {_stem(name): self.texts.summary(name).record for name in names}
            phases = {
                phase: Summary.from_record({"round": number, "phase": phase, **record})
                for phase, record in records.items()
            }
            past.append(PastRound(number, phases))
        return past

    def all_summaries(self, rounds: int, phases: Iterable[str]) -> list[Summary]:
        """Return all summaries of finished rounds, and the summaries of finished `phases` in this round."""
        past = [summary for over in self.history(rounds) for summary in over.phases.values()]
        return [*past, *self.completed_summaries(phases).values()]

    def artifacts(self) -> set[str]:
        """Return the artifacts that this round's summaries name, including those of workflows inside phases."""
        names = self.texts.files.matching(f"{SUMMARIES}/**/*.md")
        return {artifact for name in names for artifact in self.texts.summary(name).artifacts}

    async def put(self, phase: str, summary: Summary) -> None:
        """Write the record of a phase."""
        body = f"# {phase}\n\n{summary.summary}".rstrip() + "\n"
        await self.texts.put(self.file_name(phase), to_frontmatter(summary.record, body))

    def quarantine(self, phase: str) -> None:
        """Rename an invalid summary, so that nothing reads it."""
        self.texts.move(self.file_name(phase), f"{self.file_name(phase)}.invalid")

    async def rename(self, new_names: Mapping[str, str]) -> None:
        """Rename the summaries of all rounds to the current names of their phases."""
        files = self.texts.files
        for folder in (SUMMARIES, *(f"{past}/{SUMMARIES}" for past in past_round_folders(files))):
            for old, new in new_names.items():
                name, renamed = f"{folder}/{old}.md", f"{folder}/{new}.md"
                if files.has(name) and not files.has(renamed):
                    data, body = from_frontmatter(files.path / name, files.read(name, MAX_BYTES))
                    await self.texts.put(renamed, to_frontmatter({**data, "phase": new}, body))
                    self.texts.remove(name)

    def end_round(self, phase: str, number: int) -> None:
        """Move the summary of a phase to a finished round."""
        self.texts.move(self.file_name(phase), f"round-{number}/{self.file_name(phase)}")

    def is_edited(self, phase: str) -> bool:
        """Whether the summary of a phase differs from what the run wrote."""
        return self.texts.is_edited(self.file_name(phase))

    def list_edited(self) -> list[str]:
        """Return the summaries of all rounds whose current text the run has never written."""
        return [*self.texts.list_edited(), *self.list_edited_in_past_rounds()]

    def list_edited_in_past_rounds(self) -> list[str]:
        """Return the edited summaries of finished rounds."""
        return [name for past in past_round_folders(self.texts.files) for name in self.texts.list_edited(f"{past}/")]


class InlineSummaries(Summaries):
    """The summaries of a workflow inside a phase.

    They are empty at first, and finished rounds are kept only in memory.
    """

    def __init__(self, texts: SummaryFiles, address: str) -> None:
        super().__init__(texts, f"{SUMMARIES}/{address.replace('/', '.')}")
        self._over: list[PastRound] = []
        for name in texts.files.matching(f"{self._folder}/*.md"):
            texts.remove(name)

    def history(self, rounds: int) -> list[PastRound]:  # noqa: ARG002 (returns all finished rounds)
        return self._over

    def archive_round(self, number: int, phases: Iterable[str]) -> None:
        """Remember the summaries of `phases` as the summaries of a finished round, and remove their files."""
        moving = self.completed_summaries(phases)
        self._over.append(PastRound(number, moving))
        for phase in moving:
            self.texts.remove(self.file_name(phase))


def _stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".md")
