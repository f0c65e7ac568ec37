"""The tool `Lookup`: returns records of earlier phases by id, including settled ones and those omitted from prompts.

A member that has tools also gets this one if its prompt lacks a record. The records come from the phases' summaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillrun.definitions.verbs import LOOKUP
from skillrun.models.messages import ToolSpec
from skillrun.runtime.calls.tools import tool_descriptions
from skillrun.runtime.run import PhaseRun
from skillrun.scoring.compaction import KINDS, clip
from skillrun.types.schemas import quote_value

MOST: Final = 20  # ids in one call
MOST_TOLD: Final = 60  # known ids in an error
PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
_WORDS: Final = {"key_decisions": "decision", "open_questions": "question", "risks_identified": "risk"}


@dataclass(frozen=True)
class RecordedEntry:
    """A record of an earlier phase. `status` says what replaced or settled the record; empty if nothing did."""

    phase: str
    kind: str
    record: Mapping[str, Any]
    status: str

    @property
    def id(self) -> str:
        return str(self.record["id"])

    def __str__(self) -> str:
        head = f"{self.id}: {_WORDS[self.kind]} of {self.phase}{f', {self.status}' if self.status else ''}"
        rest = (f"  {key}: {_text(value)}" for key, value in self.record.items() if key != "id" and value)
        return "\n".join((head, *rest))


def lookup_tool(phase: PhaseRun) -> tuple[ToolSpec, ...]:
    """Return the tool if the phase's latest prompt lacks a record; an empty tuple if it has all of them."""
    dropped = {str(omission["record"].get("id")) for omission in phase.record.prompts.dropped_records}
    if not any(entry.status or entry.id in dropped for entry in recorded_entries(phase)):
        return ()
    from skillrun.repository.repository import tool_spec

    text = tool_descriptions(phase.run).get(LOOKUP)
    return () if text is None else (ToolSpec(**tool_spec(LOOKUP, text, PARAMETERS)),)


def recorded_entries(phase: PhaseRun) -> list[RecordedEntry]:
    """Return all records of earlier phases that have an id, oldest first."""
    summaries = [
        (str(data["summary"].get("phase", name)), data["summary"]) for name, data in phase.names["phases"].items()
    ]
    records = [
        (name, kind, record)
        for name, summary in summaries
        for kind in reversed(KINDS)
        for record in _records_of_kind(summary, kind)
    ]
    settled = {
        question: str(record["id"])
        for _, kind, record in records
        for question in (_ids(record.get("resolves")) if kind == "key_decisions" else ())
    }
    last = {(kind, record["id"]): place for place, (_, kind, record) in enumerate(records)}
    entries = []
    for place, (name, kind, record) in enumerate(records):
        later = last[kind, record["id"]]
        standing = f"replaced by that of {records[later][0]}" if later != place else ""
        if not standing and kind in ("open_questions", "risks_identified") and record["id"] in settled:
            standing = f"settled by {settled[record['id']]}"
        entries.append(RecordedEntry(name, kind, record, standing))
    return entries


def look_up(phase: PhaseRun, arguments: Mapping[str, Any], room: int) -> str:
    """Return the records with the requested ids as text of at most about `room` tokens.

    If no record has any of the ids, the text begins with `error:`.
    """
    given = arguments.get("id")
    if not isinstance(given, str) or not given.strip():
        return "error: `id` must be an id such as `AC-1`, or several separated by commas"
    wanted = list(dict.fromkeys(re.findall(r"[^\s,;]+", given[:2000])))[:MOST]
    known = recorded_entries(phase)
    texts: list[str] = []
    missing: list[str] = []
    for name in wanted:
        records = [entry for entry in known if entry.id.casefold() == name.casefold()]
        texts += map(str, records)
        missing += [] if records else [name]
    if missing:
        ids = list(dict.fromkeys(entry.id for entry in known))
        more = f" and {len(ids) - MOST_TOLD} more" if len(ids) > MOST_TOLD else ""
        there = f"known ids: {', '.join(ids[:MOST_TOLD])}{more}"
        texts.append(f"no record has the id {', '.join(map(quote_value, missing))}; {there}")
    answer = clip("\n\n".join(texts), max(0, room))
    return answer if len(missing) < len(wanted) else f"error: {answer}"


def _records_of_kind(summary: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    listed = summary.get(kind)
    for record in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
        if isinstance(record, Mapping) and isinstance(record.get("id"), str) and record["id"]:
            yield record


def _ids(resolves: Any) -> list[str]:
    listed = [resolves] if isinstance(resolves, str) else resolves
    return [id_ for id_ in listed if isinstance(id_, str)] if isinstance(listed, Sequence) else []


def _text(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
