"""The tools List, Glob and Read, and excerpts of files for `find`.

List shows the contents of a folder with sizes, Glob finds files that match a pattern, and Read shows numbered lines of
a file. The size of a text is its number of lines, since this determines the cost of reading it. The size of a folder is
its number of readable files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from skillrun.repository.matching import parse_glob
from skillrun.repository.outline import render_outline_below
from skillrun.repository.readable_folder import MAX_FILES, SECONDS, ReadableFolder, one_line, split_path
from skillrun.repository.results import (
    MAX_FILE,
    MAX_LINE,
    OutputBudget,
    ToolError,
    count_lines,
    count_noun,
    encoding_notes,
    format_result,
    name_encoding_note,
    number_lines,
    read_text,
    split_lines,
    to_utf8,
)
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.reading import decode_text, encoding_warning, is_binary
from skillrun.types.schemas import quote_value

MAX_WHOLE_FILE: Final = 24_000  # characters; files up to this size are returned whole
LINE_RESERVE: Final = 40  # characters reserved for the number of a line, and the note at its end
NOTE_RESERVE: Final = 120  # characters reserved for the note at the end
MAX_OUTLINE_BELOW: Final = 3_000  # characters of the outline of lines that are not shown
MAX_RANGE: Final = 100_000  # characters of a requested range
MAX_CHARACTERS: Final = 400_000  # characters of all excerpts
MERGE_DISTANCE: Final = 3  # lines; ranges at most this far apart are merged
END: Final = 1 << 40
LineRange = tuple[int, int]  # the first line and the last


def glob(folder: ReadableFolder, budget: OutputBudget, pattern: str) -> str:
    """Return the names of the files that match the pattern. Raises ToolError."""
    rules = parse_glob(pattern)
    names: list[str] = []
    remark = ""
    try:
        names += (name for name in folder.files() if rules.matches(split_path(name), False, folder.check_deadline))
    except TimeoutError:
        remark = f"(stopped after {SECONDS:g} seconds; there may be more)"
    remark = " ".join(filter(None, (remark, name_encoding_note(names))))
    return format_result(list(map(one_line, names)), budget, remark, "(no files)")


def list_folder(folder: ReadableFolder, budget: OutputBudget, path: str = ".") -> str:
    """Return the contents of a folder. Raises ToolError and the errors of `open_path`."""
    with folder.open_path(path) as opened:
        if not opened.is_folder:
            raise ToolError(f"{quote_value(path)} is a file; use Read")
        start = opened.name
    names = list(folder.names(start))
    plain = [f"{one_line(name)}{'/' if is_folder else ''}" for name, is_folder in names]
    sizes: dict[str, str] = {}
    remark = ""
    try:
        depth = len(split_path(start))
        readable = [split_path(name) for name in folder.files(start, include_runs=True)]
        file_counts = Counter(parts[depth] for parts in readable if len(parts) > depth + 1)
        if len(readable) >= MAX_FILES:
            remark = f"(only the first {MAX_FILES:,} files in folders are counted)"
        for label, (name, is_folder) in zip(budget.take_lines(plain), names, strict=False):
            if not is_folder:
                sizes[label] = _describe_size(folder, name if start == "." else f"{start}/{name}")
            elif count := file_counts.get(name):
                sizes[label] = count_noun(count, "file")
    except TimeoutError:
        remark = f"(stopped after {SECONDS:g} seconds; missing sizes are unknown)"
    lines = [f"{name}  {sizes.get(name, '')}".rstrip() for name in plain]
    remark = " ".join(filter(None, (remark, name_encoding_note(name for name, _ in names))))
    return format_result(lines, budget, remark, "(the folder is empty)")


def _describe_size(folder: ReadableFolder, name: str) -> str:
    """Return the size of a file for display: lines for a text, bytes for a binary or very large file. Empty if it
    cannot be read."""
    folder.check_deadline()
    try:
        with folder.open_path(name) as opened, open(opened.descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE + 1)
            if len(content) > MAX_FILE or is_binary(content):
                return f"{file.seek(0, 2):,} bytes"
    except TimeoutError:
        raise
    except (OSError, SkillrunError):
        return ""
    return count_noun(count_lines(to_utf8(content)), "line")


def read_lines(
    folder: ReadableFolder, budget: OutputBudget, path: str, offset: int = 1, limit: int | None = None
) -> str:
    """Return lines of a file with their numbers. Raises ToolError and the errors of `open_path`."""
    content = read_text(folder, path)
    lines = split_lines(content)
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolError(f"{quote_value(path)} has {len(lines)} lines")
    wanted = lines[offset - 1 : None if limit is None else offset - 1 + limit]
    most = MAX_WHOLE_FILE if limit is None else MAX_RANGE
    share = (
        int(min(most, budget.tokens) - NOTE_RESERVE) // len(wanted) - LINE_RESERVE
    )  # a few long lines are shown whole
    numbered_lines = number_lines(wanted, offset, max(MAX_LINE, share))
    kept = replace(budget, characters=most).minus(NOTE_RESERVE).take_lines(numbered_lines)
    if limit is None and len(kept) < len(numbered_lines):
        kept = budget.minus(NOTE_RESERVE).take_lines(numbered_lines)
    if not kept:
        raise ToolError(f"there is no room left for line {offset} of {quote_value(path)}; answer with what you have")
    last = offset + len(kept) - 1
    if last < len(lines):
        kept.append(f"(lines {offset} to {last} of {len(lines)}; continue with offset {last + 1})")
        remaining = replace(budget, characters=MAX_OUTLINE_BELOW).minus(NOTE_RESERVE).subtract_lines(kept)
        below = render_outline_below(path, content, last + 1, folder.deadline, remaining) if limit is None else []
        kept += ["(below:)", *below] if below else []
    return "\n".join([*kept, *encoding_notes(content)])


def load_text(folder: ReadableFolder, path: str) -> bytes | None:
    """Return the content of a file; None if it is binary, too long or unreadable. Raises TimeoutError."""
    try:
        return read_text(folder, path)
    except TimeoutError:
        raise
    except (ToolError, OSError, SkillrunError):
        return None


def read_excerpts(
    folder: ReadableFolder, wanted: Mapping[str, Iterable[LineRange]], max_lines: int
) -> tuple[dict[str, str], list[str], list[str]]:
    """Return the excerpts of each file, the paths or ranges that were left out, and a warning for each file that is not
    UTF-8.

    A file without ranges is read whole. Binary and unreadable files are left out. So is text beyond the limits. Raises
    TimeoutError.
    """
    texts: dict[str, str] = {}
    left_out: list[str] = []
    not_utf8: list[str] = []
    room = MAX_CHARACTERS
    for path, ranges in wanted.items():
        if max_lines <= 0 or room <= 0:
            left_out.append(path)
            continue
        content = load_text(folder, path)
        if content is None:
            left_out.append(path)
            continue
        lines, undecoded = split_lines(content), decode_text(content)[1]
        not_utf8 += [encoding_warning(path, undecoded)] if undecoded else []
        parts = []
        for first, requested_last in _merge_ranges(ranges):
            if first > len(lines):
                break
            last = min(requested_last, len(lines))
            ends = min(last, first + max_lines - 1)
            kept = OutputBudget(room).take_lines(number_lines(lines[first - 1 : ends], first))
            max_lines -= len(kept)
            room -= sum(len(line) + 1 for line in kept)
            if kept:
                parts.append("\n".join(kept))
            if first + len(kept) <= last:
                left_out.append(f"{path}:{first + len(kept)}-{last}")
        if parts:
            texts[path] = "\n   […]\n".join(parts)
    return texts, left_out, not_utf8


def _merge_ranges(ranges: Iterable[LineRange]) -> list[LineRange]:
    """Return the ranges in order. Ranges that overlap or are close are merged. Without ranges, return one for the whole
    file."""
    merged: list[LineRange] = []
    for first, last in sorted(ranges) or [(1, END)]:
        if merged and first <= merged[-1][1] + MERGE_DISTANCE + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged
