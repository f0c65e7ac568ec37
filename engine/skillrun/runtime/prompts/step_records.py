"""Records that members add at the end of a document: fields that later steps or phases read, and answers to points.

Adds the request for a record to the task, splits the record off the reply, checks the record, and reports missing
parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
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
    DocumentReply,
    answers_schema,
    merge_schemas,
    select_fields,
    split_record,
)
from skillrun.structured_output.values import parse_reply
from skillrun.templates.functions import wrap_untrusted_text
from skillrun.templates.values import Absent
from skillrun.types.forms import notes, skeleton
from skillrun.types.schemas import DroppedValue, Shape, ShapeError, quote_value

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


def build_record_request(step: Step, frame: Frame) -> RecordRequest | None:
    """Return the record to request with a step's document; None if no field is read later and there are no points."""
    points = _read_points(step, frame)
    run = frame.run
    specs = [spec for part in step.record if (spec := run.program.library.record_shape(part)) is not None]
    schema = merge_schemas(spec.resolve(frame.names).schema for spec in specs)
    read = run.program.record_reads.get(step_key(step), frozenset())
    summarized = run.program.summarized_phases | run.program.history_phases
    # The phase's summary needs the fields that are no outputs of the phase, if anything reads the summary.
    needed = set(RECORD_KEYS) - frame.phase.phase.outputs.keys() if frame.phase.name in summarized else set()
    schema = select_fields(schema, {name for name in schema["properties"] if name in needed or is_read(name, read)})
    if points:
        schema = merge_schemas([schema, answers_schema(point["id"] for point in points)])
    if not schema["properties"]:
        return None
    return RecordRequest(Shape(schema), points, frame.value(step, "invalid", "") == "drop")


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
    """Return the task, followed by the points. If the document `ends` with its record, the record's format is last."""
    if record_request is None:
        return task
    run = frame.run
    parts = [task]
    if record_request.points:
        points = wrap_untrusted_text("\n".join(map(_format_point, record_request.points)))
        parts.append(render_template(run, "system/points", {"points": points}))
    if ends:
        names = {
            **_form(record_request),
            "first": _next_id(step, frame),
            "fields": list(record_request.shape.schema["properties"]),
            "points": len(record_request.points),
        }
        parts.append(render_template(run, "system/record", names))
    return "\n\n".join(part.strip() for part in parts)


def _format_point(point: Mapping[str, Any]) -> str:
    """Return a point as an item of a list, with its id and its text or title; its other fields follow."""
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
    wrong = [vars(error) for error in errors]
    return render_template(run, "system/record-again", {**_form(request), "errors": wrong})


def _form(record_request: RecordRequest) -> dict[str, object]:
    # The task lists the ids of the points, so the form does not.
    schema = merge_schemas([record_request.shape.schema, *([answers_schema()] if record_request.points else [])])
    return {"form": skeleton(schema), "notes": [{"field": name, "text": text} for name, text in notes(schema)]}


# reply


def split_reply(record_request: RecordRequest, text: str) -> DocumentReply:
    """Return the document and the record of a reply, and all errors of the record."""
    document = split_record(text, record_request.shape)
    if document.errors:
        return document
    return replace(document, errors=tuple(_answer_errors(record_request, document.record)))


def merge_second_record(record_request: RecordRequest, first: DocumentReply, text: str) -> DocumentReply:
    """Return the document with the record from a second reply.

    Answers that the second record lacks come from the first record. If the second record is invalid, the first record
    is kept, if there is one. Invalid values are dropped if the request has points or `drop`.
    """
    value, errors = parse_reply(text, record_request.shape.schema)
    dropped: list[DroppedValue] = []
    if errors and (record_request.drop or record_request.points) and value is not None:
        value, dropped = record_request.shape.drop_invalid(value)
        errors = record_request.shape.check_reply(value)
    if errors:
        return first if first.record is not None else DocumentReply(first.document, None, tuple(errors))
    if first.record is not None:
        again = {entry["id"] for entry in value[ANSWERS]}
        earlier = [entry for entry in first.record[ANSWERS] if entry["id"] not in again]
        value = {**first.record, **value, ANSWERS: [*earlier, *value[ANSWERS]]}
    return DocumentReply(first.document, value, tuple(_answer_errors(record_request, value)), tuple(dropped))


def _answer_errors(record_request: RecordRequest, record: Any) -> Iterable[ShapeError]:
    """Yield an error for each point that does not have exactly one answer."""
    given = Counter(entry["id"] for entry in record[ANSWERS]) if record_request.points else Counter[str]()
    for name in (point["id"] for point in record_request.points):
        times = given[name]
        if times != 1:
            yield ShapeError(ANSWERS, f"`{name}` is answered {times} times" if times else f"`{name}` is not answered")


def point_answers(record_request: RecordRequest, record: Any, member: str) -> list[Mapping[str, Any]]:
    """Return every point with its answer. A point with more than one answer counts as unanswered."""
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

    The new records replace the records of an earlier pass of the step, and the records of a document that is now
    overwritten. If no record has arrived, the earlier ones stay: they are the latest that is known.
    """
    record_key, replaced_paths = strip_markers(frame.at(step)), frozenset(paths)
    fields = frozenset(record_request.shape.schema["properties"]) & set(RECORD_KEYS)
    numbered = tuple(renumber_records(records, f"{frame.phase.name.upper()}-"))
    earlier = frame.phase.record.step_records
    if not numbered and record_key in earlier:
        return
    kept = {
        key: step_record
        for key, step_record in earlier.items()
        if not numbered or (key != record_key and not step_record.paths & replaced_paths)
    }
    frame.phase.record.step_records = {**kept, record_key: StepRecords(numbered, fields, replaced_paths)}


def renumber_records(
    records: Iterable[Mapping[str, Any]], start: str, known: AbstractSet[str] = frozenset()
) -> Iterator[Mapping[str, Any]]:
    """Yield the records with unique ids.

    If an id that begins with `start` is repeated or in `known`, it becomes `start` plus the next free number.
    """
    taken: set[str] = set(known)
    numbers = count(1)
    for record in records:
        own = list(dict.fromkeys(record_ids([record])))
        free = taken | set(own)
        ids = {}
        for id_ in own:
            ids[id_] = id_
            if id_ in taken and id_.startswith(start):
                ids[id_] = next(new for number in numbers if (new := f"{start}{number}") not in free)
            free.add(ids[id_])
        taken |= set(ids.values())
        named = {
            name: [{**entry, "id": ids[_id_of(entry)]} if _id_of(entry) else entry for entry in record[name]]
            for name in RECORD_KEYS[1:]
            if isinstance(record.get(name), list)
        }
        yield {**record, **named}


def record_ids(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the id of each entry in the lists of records."""
    for record in records:
        for name in RECORD_KEYS[1:]:
            yield from filter(None, map(_id_of, record[name] if isinstance(record.get(name), list) else ()))


def _id_of(entry: Any) -> str:
    return str(entry.get("id") or "") if isinstance(entry, Mapping) else ""


def _next_id(step: Step, frame: Frame) -> str:
    """Return the first id for a step's records. Its number follows the highest number of the phase's other steps."""
    phase, where = frame.phase, strip_markers(frame.at(step))
    start = f"{phase.name.upper()}-"
    others = (record for key, step in phase.record.step_records.items() if key != where for record in step.records)
    ids = (id_.removeprefix(start) for id_ in record_ids(others))
    return f"{start}{1 + max((int(number) for number in ids if number.isdecimal() and len(number) < 6), default=0)}"


def merge_step_records(phase: PhaseRun) -> tuple[dict[str, Any], frozenset[str]]:
    """Return one record for the phase, merged from the records of its steps, and the fields that were requested.

    The summaries of several members of a step are joined. A later step's summary replaces an earlier step's summary.
    Lists are merged: a later entry replaces an earlier entry with the same id.
    """
    record: dict[str, Any] = {}
    recorded = phase.record.step_records.values()
    for step in recorded:
        summaries = [entry["summary"] for entry in step.records if isinstance(entry.get("summary"), str)]
        if summary := " ".join(summaries).strip():
            record["summary"] = summary
    for entry in (entry for step in recorded for entry in step.records):
        for name in RECORD_KEYS[1:]:
            if isinstance(entry.get(name), list):
                replaced = set(filter(None, map(_id_of, entry[name])))
                earlier = [other for other in record.get(name, []) if _id_of(other) not in replaced]
                record[name] = earlier + entry[name]
    return record, frozenset[str]().union(*(step.requested_fields for step in recorded))
