"""The tool Read: the requested lines of a file, as far as they fit, and an outline of the rest."""

from __future__ import annotations

from typing import Final

from skillrun.repository.outline import render_outline_below
from skillrun.repository.readable_folder import ReadableFolder
from skillrun.repository.results import OutputBudget, ToolError, number_lines, read_text, split_lines
from skillrun.types.schemas import quote_value

MAX_WHOLE_FILE: Final = 24_000  # characters; files up to this size are returned whole
NOTE_RESERVE: Final = 120  # characters reserved for the note at the end
MAX_OUTLINE_BELOW: Final = 3_000  # characters of the outline of the rest
MAX_RANGE: Final = 100_000  # characters of a requested range


def read_lines(
    folder: ReadableFolder, budget: OutputBudget, path: str, offset: int = 1, limit: int | None = None
) -> str:
    """Return the lines with their numbers. Raises ToolError and the errors of `open_path`."""
    content = read_text(folder, path)
    lines = split_lines(content)
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolError(f"{quote_value(path)} has {len(lines)} lines")
    wanted = lines[offset - 1 : None if limit is None else offset - 1 + limit]
    numbered_lines = number_lines(wanted, offset)
    kept = (
        budget.with_characters(MAX_WHOLE_FILE if limit is None else MAX_RANGE)
        .minus(NOTE_RESERVE)
        .take_lines(numbered_lines)
    )
    if limit is None and len(kept) < len(numbered_lines):
        kept = budget.minus(NOTE_RESERVE).take_lines(numbered_lines)
    if not kept:
        raise ToolError(f"there is no room left for line {offset} of {quote_value(path)}; answer with what you have")
    last = offset + len(kept) - 1
    if last < len(lines):
        kept.append(f"(lines {offset} to {last} of {len(lines)}; continue with offset {last + 1})")
        remaining = budget.with_characters(MAX_OUTLINE_BELOW).minus(NOTE_RESERVE).subtract_lines(kept)
        if limit is None and (
            outline_lines := render_outline_below(path, content, last + 1, folder.deadline, remaining)
        ):
            kept += ["(below:)", *outline_lines]
    return "\n".join(kept)
