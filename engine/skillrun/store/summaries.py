"""Stores the summaries of phases in this round and in finished rounds, and detects which of them a user has changed.

A workflow inside a phase has separate summaries: `summaries/<address of the step>/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypedDict

from skillrun.repository.paths import PathRefused
from skillrun.store.artifacts import SUMMARIES, Refusals, is_artifact_name
from skillrun.store.files import Files, read_content, sha256_of
from skillrun.store.frontmatter import RunFile, from_frontmatter, to_frontmatter
from skillrun.store.journal import Journal
from skillrun.store.state import MAX_ROUNDS
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.records import Bounds, NonNegativeFloat, NonNegativeInt, field_checks
from skillrun.types.schemas import quote_value

Count = Annotated[int, Bounds(0, MAX_ROUNDS)]
WAITING_STATUS: Final = "needs-user-input"
"""The status of a phase that waits for the user."""
REQUIRED_KEYS: Final = ("phase", "number", "checkpoint", "artifacts", "summary", "flags")
"""The keys of every summary that a run writes."""


class UsageRecord(TypedDict, total=False):
    """The usage of a phase; see `runtime.usage_totals.UsageTotals`."""

    calls: NonNegativeFloat
    input: NonNegativeFloat
    output: NonNegativeFloat
    cache_read: NonNegativeFloat
    cache_write: NonNegativeFloat
    price: NonNegativeFloat | None
    replayed: NonNegativeFloat
    kept: NonNegativeFloat


class Goto(TypedDict):
    """The phase to go back to, and the step that decided to go back."""

    target: str
    step: str


@dataclass(frozen=True)
class Summary:
    """The result of a phase. A missing or invalid value in its record is replaced by the field's default."""

    phase: str = ""
    number: Count = 0
    status: str = ""
    round: Count = 1
    checkpoint: str = ""
    summary: str = ""
    artifacts: Sequence[str] = ()
    flags: Mapping[str, object] = field(default_factory=dict)
    reason: str = ""
    entry_type: str = ""
    key_decisions: Sequence[Mapping[str, object]] = ()
    open_questions: Sequence[Mapping[str, object]] = ()
    risks_identified: Sequence[Mapping[str, object]] = ()
    quality_warnings: Sequence[str] = ()
    prompts: Mapping[str, Mapping[str, NonNegativeInt]] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    asked: Sequence[str] = ()
    outputs: Mapping[str, object] = field(default_factory=dict)
    set: Mapping[str, object] = field(default_factory=dict)
    failures: Mapping[str, Count] = field(default_factory=dict)
    usage: UsageRecord = field(default_factory=UsageRecord)
    goto: Goto | None = None
    record: Mapping[str, object] = field(default_factory=dict, repr=False)
    """The complete record of the file, including keys that a user has added."""

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> Summary:
        """Create a summary from a valid record."""
        known: Any = {key: value for key, value in record.items() if key in FIELDS}
        return cls(**known, record=record)

    def with_fields(self, **more: object) -> Summary:
        """Return a copy with the fields in `more` replaced."""
        return Summary.from_record({**self.record, **more})

    @property
    def is_over(self) -> bool:
        return self.status != WAITING_STATUS

    @property
    def missing_keys(self) -> list[str]:
        """The required keys that the record lacks."""
        return [key for key in REQUIRED_KEYS if self.record.get(key, "") == ""]


@dataclass(frozen=True)
class PastRound:
    """A finished round: its number, and its summaries by phase."""

    round: int
    phases: Mapping[str, Summary]

    @property
    def records(self) -> dict[str, dict[str, object]]:
        """The records of the summaries by phase."""
        return {name: dict(summary.record) for name, summary in self.phases.items()}


CONTRACT_NAMES: Final = {"stage": "phase", "stage_number": "number", "artifacts_written": "artifacts"}
"""The names that the contract for summaries has for three fields."""
InvalidFields = list[tuple[tuple[str | int, ...], str]]
"""The invalid values of a record, each as (path of keys and item numbers, message)."""


def read_summary(data: Mapping[str, object]) -> tuple[Summary, InvalidFields]:
    """Return the summary in `data` without its invalid values, and a list of the invalid values.

    A list or mapping keeps its valid entries.

    `CONTRACT_NAMES` are accepted in place of the project's own names, which have priority.
    """
    valid: dict[str, object] = {}
    invalid: InvalidFields = []
    aliases = {CONTRACT_NAMES[key]: value for key, value in data.items() if key in CONTRACT_NAMES}
    for key, value in {**aliases, **{key: value for key, value in data.items() if key not in CONTRACT_NAMES}}.items():
        if value is None and key in FIELDS:
            continue
        check = field_checks(Summary)[key] if key in FIELDS else lambda _: True
        if isinstance(value, list) and check([]):
            valid[key] = entries = []
            for at, entry in enumerate(value):
                if key == "artifacts" and not is_artifact_name(entry):
                    invalid.append(((key, at), f"{quote_value(entry)} is not a valid artifact name"))
                elif not check([entry]):
                    invalid.append(((key, at), f"`{key}` has the invalid entry {quote_value(entry)}"))
                else:
                    entries.append(entry)
        elif isinstance(value, dict) and check({}):
            valid[key] = {name: entry for name, entry in value.items() if check({name: entry})}
            invalid += [
                ((key, name), f"`{key}.{name}` has the invalid value {quote_value(entry)}")
                for name, entry in value.items()
                if not check({name: entry})
            ]
        elif check(value):
            valid[key] = value
        else:
            invalid.append(((key,), f"`{key}` has the invalid value {quote_value(value)}"))
    return Summary.from_record(valid), invalid


FIELDS: Final = frozenset(Summary.__dataclass_fields__) - {"record"}


ROUND: Final = re.compile(r"round-[0-9]+")


def past_round_folders(files: Files) -> list[str]:
    """Return the folders of finished rounds."""
    return [name for name, kind in files.entries() if kind == "folder" and ROUND.fullmatch(name)]


class Summaries:
    """The summaries of a run by phase.

    The `summary` records of the journal list the texts that the run has written.
    """

    def __init__(self, files: Files, journal: Journal | None, refusals: Refusals) -> None:
        self.folder = SUMMARIES
        self.inline_rounds: list[PastRound] | None = None
        """The finished rounds of a workflow inside a phase. They are kept only in memory."""
        self._files, self._journal, self._refusals = files, journal, refusals
        self._read: dict[str, Summary] = {}  # keyed by file name
        self._written: dict[str, set[str]] = {}  # hashes, keyed by file name
        for entry in journal.entries("summary", texts=False) if journal is not None else ():
            self._written.setdefault(entry.address, set()).add(entry.fingerprint)

    def inline(self, address: str) -> Summaries:
        """Return the summaries of the workflow that the step at `address` runs, initially empty."""
        inner = copy(self)
        inner.folder, inner.inline_rounds = f"{SUMMARIES}/{address.replace('/', '.')}", []
        for name in self._files.matching(f"{inner.folder}/*.md"):
            self.remove(name)
        return inner

    def file_name(self, phase: str) -> str:
        """Return the name of the summary file of a phase."""
        return f"{self.folder}/{phase}.md"

    def find(self, phase: str) -> Summary | None:
        """Return the record of a finished or waiting phase. Raises SkillrunError if the file is invalid."""
        name = self.file_name(phase)
        return self._read_file(name) if self._files.has(name) else None

    def find_completed(self, phase: str) -> Summary | None:
        """Return the record of a finished phase."""
        summary = self.find(phase)
        return summary if summary is not None and summary.is_over else None

    def find_readable(self, phase: str) -> Summary | None:
        """Return the record of a phase, for views. If the record is invalid, report it and return None."""
        try:
            return self.find(phase)
        except SkillrunError as error:
            self._refusals.refuse(error.message)
            return None

    def completed_summaries(self, phases: Iterable[str]) -> dict[str, Summary]:
        """Return this round's summaries of finished phases in `phases`, keyed by phase."""
        return {name: summary for name in phases if (summary := self.find_completed(name)) is not None}

    def phases(self) -> list[str]:
        """Return the phases that have a summary in this round, sorted."""
        return [_stem(name) for name in self._files.matching(f"{self.folder}/*.md")]

    def history(self, rounds: int) -> list[PastRound]:
        """Return the summaries of finished rounds, oldest first."""
        if self.inline_rounds is not None:
            return self.inline_rounds
        past = []
        for number in range(1, rounds):
            phases = {}
            for name in self._files.matching(f"round-{number}/{SUMMARIES}/*.md"):
                record = {"round": number, "phase": _stem(name), **self._read_file(name).record}
                phases[_stem(name)] = Summary.from_record(record)
            past.append(PastRound(number, phases))
        return past

    def all_summaries(self, rounds: int, phases: Iterable[str]) -> list[Summary]:
        """Return the summaries of finished rounds, then this round's summaries of finished phases in `phases`."""
        past = [summary for over in self.history(rounds) for summary in over.phases.values()]
        return [*past, *self.completed_summaries(phases).values()]

    def artifacts(self) -> set[str]:
        """Return the artifacts that this round's summaries name, including those of workflows inside phases."""
        names = self._files.matching(f"{SUMMARIES}/**/*.md")
        return {artifact for name in names for artifact in self._read_file(name).artifacts}

    async def put(self, phase: str, summary: Summary) -> None:
        """Write the record of a phase."""
        body = f"# {phase}\n\n{summary.summary}".rstrip() + "\n"
        await self._write_file(self.file_name(phase), to_frontmatter(summary.record, body))

    def quarantine(self, phase: str) -> None:
        """Rename an invalid summary, so that nothing reads it."""
        self._move_file(self.file_name(phase), f"{self.file_name(phase)}.invalid")

    async def rename(self, new_names: Mapping[str, str]) -> None:
        """Rename the summaries of all rounds to the current names of their phases."""
        files = self._files
        for folder in (SUMMARIES, *(f"{past}/{SUMMARIES}" for past in past_round_folders(files))):
            for old, new in new_names.items():
                name, renamed = f"{folder}/{old}.md", f"{folder}/{new}.md"
                if files.has(name) and not files.has(renamed):
                    data, body = from_frontmatter(files.path / name, files.read(name, MAX_BYTES))
                    await self._write_file(renamed, to_frontmatter({**data, "phase": new}, body))
                    self.remove(name)

    def end_round(self, number: int, phases: Iterable[str]) -> None:
        """Move the summaries of finished phases in `phases` to the finished round `number`."""
        moving = self.completed_summaries(phases)
        for phase in moving:
            name = self.file_name(phase)
            if self.inline_rounds is None:
                self._move_file(name, f"round-{number}/{name}")
            else:
                self.remove(name)
        if self.inline_rounds is not None:
            self.inline_rounds.append(PastRound(number, moving))

    def remove(self, name: str) -> None:
        """Remove the file of a summary, or a folder and its contents."""
        if self._files.is_taken(name):
            self._files.remove(name)
        for file in [file for file in self._read if f"{file}/".startswith(f"{name}/")]:
            del self._read[file]

    def is_edited(self, phase: str) -> bool:
        """Whether the summary of a phase differs from what the run wrote."""
        return self._is_edited(self.file_name(phase))

    def list_edited(self) -> list[str]:
        """Return the summaries, of any round, that were edited outside the run."""
        return [*filter(self._is_edited, self._written), *self.list_edited_in_past_rounds()]

    def list_edited_in_past_rounds(self) -> list[str]:
        """Return the edited summaries of finished rounds."""
        places = ((f"{past}/{name}", name) for past in past_round_folders(self._files) for name in self._written)
        return [place for place, name in places if self._is_edited(place, name)]

    # files, by name

    def _read_file(self, name: str) -> Summary:
        """Read a summary. Report its invalid values and leave them out."""
        if name not in self._read:
            file = RunFile.read(self._files.path / name, self._files.read(name, MAX_BYTES))
            self._read[name], invalid_fields = read_summary(file.data)
            aliases = {CONTRACT_NAMES[key]: key for key in CONTRACT_NAMES.keys() & file.data.keys()}
            for (key, *rest), text in invalid_fields:
                place = file.span_of(str(key) if key in file.data else aliases[str(key)], *rest)
                self._refusals.refuse(f"{name}:{place.line}:{place.column}: {text}")
        return self._read[name]

    async def _write_file(self, name: str, text: str) -> None:
        """Write a summary. Its hash is recorded first, so that a later edit is noticed."""
        written_hashes, new = self._written.setdefault(name, set()), sha256_of(text)
        if new not in written_hashes:
            written_hashes.add(new)
            if self._journal is not None:
                await self._journal.record("summary", name, new, {})
        content = read_content(self._files, name)
        if content is None or sha256_of(content) != new:
            self._files.write(name, text)
            self._read.pop(name, None)

    def _move_file(self, name: str, target: str) -> None:
        self._files.move(name, target)
        self._read.pop(name, None)
        self._read.pop(target, None)

    def _is_edited(self, place: str, name: str = "") -> bool:
        """Whether a file differs from every text that the run wrote for it.

        `name` is the name of the file in this round, if the file is in a finished round.
        """
        name = name or place
        if name not in self._written:
            return False
        try:
            content = read_content(self._files, place)
        except PathRefused:  # reported when the file is read
            return False
        return content is not None and sha256_of(content) not in self._written[name]


def _stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".md")
