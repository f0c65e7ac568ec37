"""Records that members add at the end of a document: fields that later steps or phases read, and answers to points.

Adds the request for a record to the task, splits the record off the reply, checks it, and reports missing parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from skillrun.checker.phase_effects import is_read, step_key
from skillrun.definitions.definitions import Step, strip_markers
from skillrun.definitions.verbs import RECORD_KEYS
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.runtime.phase_record import StepRecords
from skillrun.runtime.prompts.shared_prefix import render_template
from skillrun.runtime.run import PhaseRun, Run
from skillrun.store.frontmatter import as_yaml, plain_data
from skillrun.structured_output.trailing_record import (
    ANSWERS,
    answers_schema,
    find_last_block,
    merge_schemas,
    select_fields,
    split_record,
)
from skillrun.structured_output.values import parse_reply
from skillrun.templates.absent import Absent
from skillrun.templates.functions import wrap_untrusted_text
from skillrun.types.schemas import DroppedValue, Shape, ShapeError, quote_value
from skillrun.types.skeletons import notes, skeleton

LONGEST_ID: Final = 80
MOST_NAMED: Final = 8  # points named in a warning


@dataclass(frozen=True)
class RecordRequest:
    """The request for a record: its shape, and the points that it must answer.

    `drop`: invalid values are dropped (`invalid: drop`).
    """

    shape: Shape
    points: tuple[Mapping[str, Any], ...] = ()
    drop: bool = False

    @property
    def ids(self) -> list[str]:
        return [point["id"] for point in self.points]

    @property
    def allows_pruning(self) -> bool:
        """Whether invalid values may be dropped if the record is still invalid after the second request.

        This always holds for a record with answers to points.
        """
        return self.drop or bool(self.points)


@dataclass(frozen=True)
class DocumentReply:
    """A reply, split into document and record. A record with errors matches its schema, but not every point has exactly
    one answer."""

    document: str
    record: Any = None
    errors: tuple[ShapeError, ...] = ()
    dropped: tuple[DroppedValue, ...] = ()

    @property
    def reason(self) -> str:
        return "; ".join(f"{error.path}: {error.message}".removeprefix(": ") for error in self.errors[:3])


def build_record_request(step: Step, frame: Frame) -> RecordRequest | None:
    """Return the record to request with a step's document; None if nothing is read later and there are no points."""
    points = _read_points(step, frame)
    library = frame.run.program.library
    specs = [spec for part in step.record if (spec := library.record_shape(part)) is not None]
    schema = merge_schemas(spec.resolve(frame.names).schema for spec in specs)
    read = frame.run.program.record_reads.get(step_key(step), frozenset())
    phase = _phase_record_fields(frame.phase)
    schema = select_fields(schema, {name for name in schema["properties"] if name in phase or is_read(name, read)})
    if points:
        schema = merge_schemas([schema, answers_schema(point["id"] for point in points)])
    if not schema["properties"]:
        return None
    return RecordRequest(Shape(schema), points, frame.value(step, "invalid", "") == "drop")


def _phase_record_fields(phase: PhaseRun) -> set[str]:
    """Return the record fields that the phase's summary needs: none if nothing reads it, and none that are outputs."""
    program = phase.run.program
    read = phase.name in program.summarized_phases | program.history_phases
    return {name for name in RECORD_KEYS if read and name not in phase.phase.outputs}


def _read_points(step: Step, frame: Frame) -> tuple[Mapping[str, Any], ...]:
    """Return the points of a step as records with unique ids. Raises StepFailed."""
    given = frame.value(step, "points", None)
    if given is None or isinstance(given, Absent):
        return ()
    if not isinstance(given, list | tuple):
        raise StepFailed(f"`points` is {quote_value(plain_data(given))}; expected a list", frame.at(step))
    kept = [plain_data(point) for point in given if point is not None and not isinstance(point, Absent)]
    points: list[Mapping[str, Any]] = []
    taken = {str(point["id"]) for point in kept if isinstance(point, Mapping) and _is_id(point.get("id"))}
    used: set[str] = set()
    numbers: dict[str, Iterator[int]] = defaultdict(lambda: count(1))
    for point in kept:
        about = (
            point if isinstance(point, Mapping) else {"text": point if isinstance(point, str) else quote_value(point)}
        )
        known = str(about["id"]) if _is_id(about.get("id")) else ""
        start = f"{known}-" if known else "P-"
        name = known
        if not known or known in used:
            name = next(free for number in numbers[start] if (free := f"{start}{number}") not in taken)
        used.add(name)
        taken.add(name)
        points.append({"id": name, **{key: value for key, value in about.items() if key not in ("id", "answer")}})
    return tuple(points)


def _is_id(value: Any) -> bool:
    written = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return bool(written.strip()) and written.isprintable() and len(written) <= LONGEST_ID


# request


def render_task(step: Step, frame: Frame, task: str, record_request: RecordRequest | None, *, ends: bool) -> str:
    """Return the task, followed by the points. If the document `ends` with its record, the record's format follows."""
    if record_request is None:
        return task
    run = frame.run
    points = wrap_untrusted_text(_format_points(record_request.points))
    parts = [task, render_template(run, "system/points", {"points": points})] if record_request.points else [task]
    if not ends:
        return "\n\n".join(part.strip() for part in parts)
    names = {
        **_form(record_request),
        "first": _next_id(step, frame),
        "fields": list(record_request.shape.schema["properties"]),
    }
    asking = render_template(run, "system/record", {**names, "points": len(record_request.points)})
    return "\n\n".join(part.strip() for part in (*parts, asking))


def _format_points(points: Iterable[Mapping[str, Any]]) -> str:
    """Return the points as a list. Each item has the id and the text or title of a point; its other fields follow."""
    return "\n".join(map(_format_point, points))


def _format_point(point: Mapping[str, Any]) -> str:
    first = next((name for name in ("text", "title") if isinstance(point.get(name), str)), "")
    fields = (f"\n  - {key}{_format_field_value(value, 2)}" for key, value in point.items() if key not in ("id", first))
    return f"- {point['id']}{_format_field_value(point.get(first), 1)}{''.join(fields)}"


def _format_field_value(value: Any, depth: int) -> str:
    """Return the text that follows the name of a field: a colon and the value. A value that is not text is YAML."""
    if value in ("", None):
        return ""
    start = ":\n" if isinstance(value, Mapping | list) and value else ": "
    return (start + (value if isinstance(value, str) else as_yaml(value))).replace("\n", "\n" + "  " * depth)


def render_record_request(run: Run, request: RecordRequest, errors: Sequence[ShapeError]) -> str:
    """Return the message that requests the record alone. `errors` is empty if this is the first request for it."""
    wrong = [{"path": error.path, "message": error.message} for error in errors]
    return render_template(run, "system/record-again", {**_form(request), "errors": wrong})


def _form(record_request: RecordRequest) -> dict[str, object]:
    # The task lists the ids of the points, so the form does not.
    schema = merge_schemas([record_request.shape.schema, *([answers_schema()] if record_request.points else [])])
    return {"form": skeleton(schema), "notes": [{"field": name, "text": text} for name, text in notes(schema)]}


# reply


def has_complete_document(text: str) -> bool:
    """Return whether a truncated reply contains its whole document, because it ends within or after the record."""
    return find_last_block(text) is not None


def split_reply(record_request: RecordRequest, text: str) -> DocumentReply:
    """Return the document and the record of a reply, and all errors of the record."""
    document = split_record(text, record_request.shape)
    if document.errors:
        return DocumentReply(document.document, None, document.errors)
    return DocumentReply(document.document, document.value, tuple(_answer_errors(record_request, document.value)))


def merge_second_record(record_request: RecordRequest, first: DocumentReply, text: str) -> DocumentReply:
    """Return the document with the record from a second reply. If this record is invalid, keep the first
    record, if there is one."""
    value, errors = parse_reply(text, record_request.shape.schema)
    dropped: list[DroppedValue] = []
    if errors and record_request.allows_pruning and value is not None:
        value, dropped = record_request.shape.drop_invalid(value)
        errors = record_request.shape.check_reply(value)
    if errors:
        return first if first.record is not None else DocumentReply(first.document, None, tuple(errors))
    if first.record is not None:
        value = _merge_records(first.record, value)
    return DocumentReply(first.document, value, tuple(_answer_errors(record_request, value)), tuple(dropped))


def _merge_records(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, object]:
    """Merge two records. The second one has priority; answers to points that it lacks come from the first one."""
    again = {entry["id"] for entry in second[ANSWERS]}
    earlier = [entry for entry in first[ANSWERS] if entry["id"] not in again]
    return {**first, **second, ANSWERS: [*earlier, *second[ANSWERS]]}


def _answer_errors(record_request: RecordRequest, record: Any) -> Iterable[ShapeError]:
    """Yield an error for each point that does not have exactly one answer."""
    given = Counter(entry["id"] for entry in record[ANSWERS]) if record_request.points else Counter[str]()
    for name in record_request.ids:
        times = given[name]
        if times != 1:
            yield ShapeError(ANSWERS, f"`{name}` is answered {times} times" if times else f"`{name}` is not answered")


def point_answers(record_request: RecordRequest, record: Any, member: str) -> list[Mapping[str, Any]]:
    """Return every point with its answer. A point that was answered more than once has no answer."""
    given: dict[str, list[dict[str, object]]] = {}
    for entry in record[ANSWERS] if record is not None and record_request.points else ():
        given.setdefault(entry["id"], []).append({"member": member, "done": entry["done"], "how": entry["how"]})
    return [
        {**point, **({"answer": point_replies[0]} if len(point_replies := given.get(point["id"], [])) == 1 else {})}
        for point in record_request.points
    ]


# saved records


def save_records(
    step: Step, frame: Frame, record_request: RecordRequest, records: Iterable[Mapping[str, Any]], paths: Iterable[str]
) -> None:
    """Save the records of a step for the phase's summary.

    They replace the records of an earlier pass of the step, and the records of a document that is now overwritten.
    """
    record_key, replaced_paths = _record_key(step, frame), frozenset(paths)
    fields = frozenset(record_request.shape.schema["properties"]) & set(RECORD_KEYS)
    kept = {
        key: step_record
        for key, step_record in frame.phase.record.step_records.items()
        if key != record_key and not step_record.paths & replaced_paths
    }
    numbered = tuple(renumber_records(records, f"{frame.phase.name.upper()}-"))
    frame.phase.record.step_records = {**kept, record_key: StepRecords(numbered, fields, replaced_paths)}


def renumber_records(
    records: Iterable[Mapping[str, Any]], start: str, known: AbstractSet[str] = frozenset()
) -> Iterator[Mapping[str, Any]]:
    """Yield the records with unique ids.

    An id that begins with `start` is replaced by `start` and the next free number if it is repeated or in `known`.
    """
    taken: set[str] = set(known)
    numbers = count(1)
    for record in records:
        lists = {name: record[name] for name in RECORD_KEYS[1:] if isinstance(record.get(name), list)}
        own = [_id_of(entry) for entries in lists.values() for entry in entries if _id_of(entry)]
        free = taken | set(own)
        ids = {}
        for id_ in dict.fromkeys(own):
            ids[id_] = id_
            if id_ in taken and id_.startswith(start):
                ids[id_] = next(new for number in numbers if (new := f"{start}{number}") not in free)
            free.add(ids[id_])
        taken |= set(ids.values())
        named = {name: [_with_id(entry, ids) for entry in entries] for name, entries in lists.items()}
        yield {**record, **named}


def _id_of(entry: Any) -> str:
    return str(entry.get("id") or "") if isinstance(entry, Mapping) else ""


def _with_id(entry: Any, ids: Mapping[str, str]) -> Any:
    return {**entry, "id": ids[_id_of(entry)]} if _id_of(entry) else entry


def _record_key(step: Step, frame: Frame) -> str:
    """Return the step's address without the markers for passes of a loop and items of an `each`."""
    return strip_markers(frame.at(step))


def _next_id(step: Step, frame: Frame) -> str:
    """Return the first id for a step's records. Its number follows the highest one of the phase's other steps."""
    phase, where = frame.phase, _record_key(step, frame)
    start = f"{phase.name.upper()}-"
    others = (record for key, step in phase.record.step_records.items() if key != where for record in step.records)
    entries = (entry for record in others for name in RECORD_KEYS[1:] for entry in record.get(name) or [])
    ids = (_id_of(entry).removeprefix(start) for entry in entries)
    return f"{start}{1 + max((int(number) for number in ids if number.isdecimal() and len(number) < 6), default=0)}"


def merge_step_records(phase: PhaseRun) -> tuple[dict[str, Any], frozenset[str]]:
    """Return one record for the phase, merged from the records of its steps, and the fields that were requested.

    The summaries by several members of a step are joined. The summary of a later step replaces that of an earlier step.
    Lists are merged: a later entry replaces an earlier one that has the same id.
    """
    record: dict[str, Any] = {}
    for step in phase.record.step_records.values():
        if summary := " ".join(
            entry["summary"] for entry in step.records if isinstance(entry.get("summary"), str)
        ).strip():
            record["summary"] = summary
    for entry in (entry for step in phase.record.step_records.values() for entry in step.records):
        for name in RECORD_KEYS[1:]:
            if isinstance(entry.get(name), list):
                record[name] = _merge_entries(record.get(name, []), entry[name])
    asked = frozenset[str]().union(*(step.requested_fields for step in phase.record.step_records.values()))
    return record, asked


def _merge_entries(before: list[Any], after: list[Any]) -> list[Any]:
    ids = {_id_of(entry) for entry in after if _id_of(entry)}
    return [entry for entry in before if _id_of(entry) not in ids] + after
