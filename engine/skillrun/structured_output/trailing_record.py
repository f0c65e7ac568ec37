"""Splits a reply into a document and the record at its end, a fenced block marked `record` with one JSON object.

A reply in which more than one block could be the record is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from skillrun.structured_output.values import parse_reply
from skillrun.types.schemas import DroppedValue, Shape, ShapeError

RECORD_MARK: Final = "record"
MAX_BLOCKS: Final = 8  # blocks to check before the last one

_FENCE: Final = re.compile(r"^ {0,3}(?P<marks>`{3,}(?=[^`\n]*$)|~{3,})[ \t]*(?P<info>[^\n]*)$", re.MULTILINE)
_WRAPPERS: Final = ("", "markdown", "md")


class FencedBlock(NamedTuple):
    """A fenced block at the end of a text. `closed` says whether the fence is closed."""

    text_before: str
    content: str
    closed: bool


@dataclass(frozen=True)
class DocumentReply:
    """A reply, split into document and record. `record` is None if it is missing or does not match its schema.

    If `record` is set and `errors` is not empty, the record does not answer every point exactly once.
    """

    document: str
    record: Any = None
    errors: tuple[ShapeError, ...] = ()
    dropped: tuple[DroppedValue, ...] = ()

    @property
    def reason(self) -> str:
        return "; ".join(map(str, self.errors[:3]))


def append_record(document: str, value: Any) -> str:
    """Return the document with a record block added at its end."""
    written = json.dumps(value, ensure_ascii=False, indent=1)
    return f"{document.rstrip()}\n\n```{RECORD_MARK}\n{written}\n```\n"


def split_record(text: str, shape: Shape) -> DocumentReply:
    """Split a reply into its document and its record, or the errors of the record.

    Two different valid blocks at the end of the reply are an error, because either could be the record. An invalid
    block before the last one belongs to the document, and so does any block with text after it.
    """
    block = find_last_block(text)
    if block is None:
        missing = ShapeError("", f"the reply does not end with a `{RECORD_MARK}` block")
        return DocumentReply(text.strip(), None, (missing,))
    document, value, errors = block.text_before, *parse_reply(block.content, shape.schema)
    for _ in range(MAX_BLOCKS):
        earlier = _find_block(document)
        if earlier is None or not earlier.closed:
            break
        other, other_errors = parse_reply(earlier.content, shape.schema)
        if other_errors:
            break
        document = earlier.text_before
        if errors or other != value:
            message = f"the reply ends with two different `{RECORD_MARK}` blocks"
            value, errors = None, [*errors, ShapeError("", message)]
    return DocumentReply(document, None if errors else value, tuple(errors))


def find_last_block(text: str) -> FencedBlock | None:
    """Return the record block at the end of a text, or None. The whole text may be inside another fence."""
    return _find_block(text) or _find_block(_unwrap_fence(text))


def _find_block(text: str) -> FencedBlock | None:
    """Return the record block at the end of a text, or None.

    A block inside another fence is an example, not a record. A fence that is opened before the block and never closed
    does not enclose the block.
    """
    fences = list(_FENCE.finditer(text))
    opening = next((fence for fence in reversed(fences) if _is_record(fence)), None)
    if opening is None:
        return None
    preceding, following = (
        [fence for fence in fences if fence.start() < opening.start()],
        [fence for fence in fences if fence.start() > opening.start()],
    )
    closing = next((fence for fence in following if _closes(fence, opening["marks"])), None)
    document, open_marks = text[: opening.start()].rstrip(), _open_fence_marks(preceding)
    if closing is None:
        cut = open_marks[:1] == opening["marks"][0] and len(open_marks) > len(opening["marks"])  # within an example
        return None if cut else FencedBlock(document, text[opening.end() :].strip(), closed=False)
    if text[closing.end() :].strip():
        return None
    if open_marks and _closes(closing, open_marks) and len(closing["marks"]) > len(opening["marks"]):
        return None
    return FencedBlock(document, text[opening.end() : closing.start()].strip(), closed=True)


def _is_record(fence: re.Match[str]) -> bool:
    """Whether a fence is marked as a record. The mark can be the second word, as in ```` ```json record ````."""
    return RECORD_MARK in fence["info"].lower().split()[:2]


def _closes(fence: re.Match[str], marks: str) -> bool:
    return fence["marks"].startswith(marks) and not fence["info"].strip()


def _open_fence_marks(fences: list[re.Match[str]]) -> str:
    """Return the marks of the fence that is still open after `fences`, or "" if all are closed."""
    marks = ""
    for fence in fences:
        if not marks:
            marks = fence["marks"]
        elif _closes(fence, marks):
            marks = ""
    return marks


def _unwrap_fence(text: str) -> str:
    """Return the content of the fence that encloses the whole text, or "" if the text is not inside a fence."""
    text = text.strip()
    first, _, rest = text.partition("\n")
    inside, _, last = rest.rpartition("\n")
    opening, closing = _FENCE.fullmatch(first), _FENCE.fullmatch(last)
    if opening is None or closing is None or opening["info"].strip().lower() not in _WRAPPERS:
        return ""
    return inside if _closes(closing, opening["marks"]) else ""


ANSWERS: Final = "answers"
ANSWER_STATES: Final = ("changed", "kept")


def merge_schemas(schemas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a record schema with the fields of all given record schemas."""
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    for part in schemas:
        schema["properties"] |= part.get("properties", {})
        schema["required"] += [name for name in part.get("required", ()) if name not in schema["required"]]
    return schema


def select_fields(schema: Mapping[str, Any], names: AbstractSet[str]) -> dict[str, Any]:
    """Return the record schema with only the named fields."""
    properties = {name: rules for name, rules in schema["properties"].items() if name in names}
    return {**schema, "properties": properties, "required": [n for n in schema.get("required", ()) if n in properties]}


def answers_schema(ids: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the record schema with the field that answers points.

    `ids` are the allowed ids of points. Without `ids`, any id is allowed, because the ids are known only during a run.
    """
    known = {"type": "string"} | ({} if ids is None else {"enum": list(ids)})
    fields = {"id": known, "done": {"type": "string", "enum": list(ANSWER_STATES)}, "how": {"type": "string"}}
    item = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return merge_schemas([{"properties": {ANSWERS: {"type": "array", "items": item}}, "required": [ANSWERS]}])


def answer_each_point(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a sample record, changed so that it answers each point of the schema once."""
    item = schema.get("properties", {}).get(ANSWERS, {}).get("items", {}).get("properties", {})
    sample_answers = value.get(ANSWERS) if isinstance(value, dict) and item.keys() == {"id", "done", "how"} else None
    ids = item["id"].get("enum") if sample_answers is not None else None
    if not sample_answers or not ids:
        return value
    return {
        **value,
        ANSWERS: [{**sample_answers[number % len(sample_answers)], "id": id_} for number, id_ in enumerate(ids)],
    }
