"""The record at the end of a document: one fenced block, marked `record`, that holds one JSON object.

Taking it off never loses what was written: where nobody can say which block is meant, the text stays as it is.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from skillrun.structured_output.values import parse_reply
from skillrun.types.schemas import Shape, ShapeError

MARK: Final = "record"
MOST_BLOCKS: Final = 8  # that are looked at, from the end on

_FENCE: Final = re.compile(r"^ {0,3}(?P<marks>`{3,}(?=[^`\n]*$)|~{3,})[ \t]*(?P<info>[^\n]*)$", re.MULTILINE)
_WRAPPERS: Final = ("", "markdown", "md")


class FencedBlock(NamedTuple):
    """What stands in front of a block at the end of a text, and what stands in it."""

    before: str
    inside: str
    closed: bool


class Attached(NamedTuple):
    """A reply taken apart. With errors there is no value, or one that has the shape and lacks something else."""

    document: str
    value: Any = None
    errors: tuple[ShapeError, ...] = ()


def attach(document: str, value: Any) -> str:
    """The document with a record at its end."""
    written = json.dumps(value, ensure_ascii=False, indent=1)
    return f"{document.rstrip()}\n\n```{MARK}\n{written}\n```\n"


def take_off(text: str, shape: Shape) -> Attached:
    """The document of a reply and its record, or what is wrong with that one.

    Two blocks at the end that both have the shape and do not say the same are none: which is meant is not guessed. An
    earlier one that has not the shape is text of the document, and so is every block that text follows.
    """
    block = last_block(text)
    if block is None:
        return Attached(text.strip(), None, (ShapeError("", f"no block `{MARK}` stands at the end of the reply"),))
    document, value, errors = block.before, *parse_reply(block.inside, shape.schema)
    for _ in range(MOST_BLOCKS):
        earlier = _last(document)
        if earlier is None or not earlier.closed:
            break
        other, wrong = parse_reply(earlier.inside, shape.schema)
        if wrong:
            break
        document = earlier.before
        if errors or other != value:
            two = f"two blocks `{MARK}` that differ stand at the end of the reply"
            value, errors = None, [*errors, ShapeError("", two)]
    return Attached(document, None if errors else value, tuple(errors))


def last_block(text: str) -> FencedBlock | None:
    """The block that ends the text, also of one that stands in a fence of its own as a whole."""
    return _last(text) or _last(_unwrapped(text))


def _last(text: str) -> FencedBlock | None:
    """A fence that the document has left open in front of the block is a slip, and does not swallow the record.

    A block inside a fence that is closed behind it is an example.
    """
    fences = list(_FENCE.finditer(text))
    opening = next((fence for fence in reversed(fences) if _is_record(fence)), None)
    if opening is None:
        return None
    before, behind = (
        [fence for fence in fences if fence.start() < opening.start()],
        [fence for fence in fences if fence.start() > opening.start()],
    )
    closing = next((fence for fence in behind if _closes(fence, opening["marks"])), None)
    document, around = text[: opening.start()].rstrip(), _left_open(before)
    if closing is None:
        cut = around[:1] == opening["marks"][0] and len(around) > len(opening["marks"])  # within an example
        return None if cut else FencedBlock(document, text[opening.end() :].strip(), closed=False)
    if text[closing.end() :].strip():
        return None
    if around and _closes(closing, around) and len(closing["marks"]) > len(opening["marks"]):
        return None
    return FencedBlock(document, text[opening.end() : closing.start()].strip(), closed=True)


def _is_record(fence: re.Match[str]) -> bool:
    """Also ```` ```json record ````."""
    return MARK in fence["info"].lower().split()[:2]


def _closes(fence: re.Match[str], marks: str) -> bool:
    return fence["marks"].startswith(marks) and not fence["info"].strip()


def _left_open(fences: list[re.Match[str]]) -> str:
    """The marks of the fence that is open behind these; empty where none is."""
    marks = ""
    for fence in fences:
        if not marks:
            marks = fence["marks"]
        elif _closes(fence, marks):
            marks = ""
    return marks


def _unwrapped(text: str) -> str:
    """What stands in a fence that holds the whole text; otherwise nothing."""
    text = text.strip()
    first, _, rest = text.partition("\n")
    inside, _, last = rest.rpartition("\n")
    opening, closing = _FENCE.fullmatch(first), _FENCE.fullmatch(last)
    if opening is None or closing is None or opening["info"].strip().lower() not in _WRAPPERS:
        return ""
    return inside if _closes(closing, opening["marks"]) else ""
