"""The record at the end of a document: one fenced block, marked `record`, that holds one JSON object.

Taking it off never loses what was written: where nobody can say which block is meant, the text stays as it is.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from skillrun.structured_output.values import parse_reply
from skillrun.types.schemas import Shape, ShapeError

RECORD_MARK: Final = "record"
MAX_BLOCKS: Final = 8  # that are looked at, from the end on

_FENCE: Final = re.compile(r"^ {0,3}(?P<marks>`{3,}(?=[^`\n]*$)|~{3,})[ \t]*(?P<info>[^\n]*)$", re.MULTILINE)
_WRAPPERS: Final = ("", "markdown", "md")


class FencedBlock(NamedTuple):
    """What stands in front of a block at the end of a text, and what stands in it."""

    text_before: str
    content: str
    closed: bool


class SplitReply(NamedTuple):
    """A reply taken apart. With errors there is no value, or one that has the shape and lacks something else."""

    document: str
    value: Any = None
    errors: tuple[ShapeError, ...] = ()


def append_record(document: str, value: Any) -> str:
    """The document with a record at its end."""
    written = json.dumps(value, ensure_ascii=False, indent=1)
    return f"{document.rstrip()}\n\n```{RECORD_MARK}\n{written}\n```\n"


def split_record(text: str, shape: Shape) -> SplitReply:
    """The document of a reply and its record, or what is wrong with that one.

    Two blocks at the end that both have the shape and do not say the same are none: which is meant is not guessed. An
    earlier one that has not the shape is text of the document, and so is every block that text follows.
    """
    block = find_last_block(text)
    if block is None:
        return SplitReply(
            text.strip(), None, (ShapeError("", f"no block `{RECORD_MARK}` stands at the end of the reply"),)
        )
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
            message = f"two blocks `{RECORD_MARK}` that differ stand at the end of the reply"
            value, errors = None, [*errors, ShapeError("", message)]
    return SplitReply(document, None if errors else value, tuple(errors))


def find_last_block(text: str) -> FencedBlock | None:
    """The block that ends the text, also of one that stands in a fence of its own as a whole."""
    return _find_block(text) or _find_block(_unwrap_fence(text))


def _find_block(text: str) -> FencedBlock | None:
    """A fence that the document has left open in front of the block is a slip, and does not swallow the record.

    A block inside a fence that is closed behind it is an example.
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
    """Also ```` ```json record ````."""
    return RECORD_MARK in fence["info"].lower().split()[:2]


def _closes(fence: re.Match[str], marks: str) -> bool:
    return fence["marks"].startswith(marks) and not fence["info"].strip()


def _open_fence_marks(fences: list[re.Match[str]]) -> str:
    """The marks of the fence that is open behind these; empty where none is."""
    marks = ""
    for fence in fences:
        if not marks:
            marks = fence["marks"]
        elif _closes(fence, marks):
            marks = ""
    return marks


def _unwrap_fence(text: str) -> str:
    """What stands in a fence that holds the whole text; otherwise nothing."""
    text = text.strip()
    first, _, rest = text.partition("\n")
    inside, _, last = rest.rpartition("\n")
    opening, closing = _FENCE.fullmatch(first), _FENCE.fullmatch(last)
    if opening is None or closing is None or opening["info"].strip().lower() not in _WRAPPERS:
        return ""
    return inside if _closes(closing, opening["marks"]) else ""
