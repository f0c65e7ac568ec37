"""Read: the lines of a file that are asked for, as far as the answer has room, and what stands below them."""

from __future__ import annotations

from typing import Final

from skillrun.repository.outline import outline_below
from skillrun.repository.readable_folder import Readable
from skillrun.repository.results import Failed, Room, lines_of, numbered, text_content
from skillrun.types.schemas import quoted

WHOLE: Final = 24_000  # characters; a file that is no longer comes whole
NOTE: Final = 120  # characters; for the words at the end
BELOW: Final = 3_000  # characters; what is defined below the part that is shown
RANGE: Final = 100_000  # characters; so much of a range that is asked for


def read_lines(folder: Readable, room: Room, path: str, offset: int = 1, limit: int | None = None) -> str:
    """The lines with their numbers. Raises Failed, and what opening the file raises."""
    content = text_content(folder, path)
    lines = lines_of(content)
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        raise Failed(f"{quoted(path)} has {len(lines)} lines")
    wanted = lines[offset - 1 : None if limit is None else offset - 1 + limit]
    numbered_lines = numbered(wanted, offset)
    kept = room.of(WHOLE if limit is None else RANGE).less(NOTE).fitting(numbered_lines)
    if limit is None and len(kept) < len(numbered_lines):
        kept = room.less(NOTE).fitting(numbered_lines)
    if not kept:
        raise Failed(f"there is no room left for line {offset} of {quoted(path)}; answer with what you have")
    last = offset + len(kept) - 1
    if last < len(lines):
        kept.append(f"(lines {offset} to {last} of {len(lines)}; the next is offset {last + 1})")
        left = room.of(BELOW).less(NOTE).after(kept)
        if limit is None and (defined := outline_below(path, content, last + 1, folder.until, left)):
            kept += ["(below:)", *defined]
    return "\n".join(kept)
