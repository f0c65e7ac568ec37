"""Formats differences between texts, and between current and recorded prompts of a case.

`-` marks expected or recorded lines, `+` actual lines. Recorded prompts are stored as JSON.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import islice, takewhile
from typing import Any, Final

from skillrun.models.messages import Block, Request
from skillrun.store.files import sha256_of

MAX_PROMPTS_BYTES: Final = 20_000_000
MOST_LINES: Final = 80  # lines of a difference that are shown; the others are only counted
MOST_COMPARED: Final = 5_000  # lines of a text among which the most similar line is searched
MAX_LINE_CHARS: Final = 1_000  # only so many characters of a line are compared
CONTEXT_LINES: Final = 2  # unchanged lines shown before and after a difference
CONTEXT_CHARS: Final = 40  # characters shown on either side of the nearest match
MIN_SIMILARITY: Final = 0.5  # share of the expected line that a similar line must contain
MIN_MATCH_CHARS: Final = 3  # shortest run of equal characters that counts as a match
_NAME: Final = 16  # hexadecimal digits of the hash that names a text
_HUNK_HEADER: Final = re.compile(r"@@ (?:line|(-\S+)) \+?(\d+)\S* @@")

RecordedPrompt = tuple[str, list[str]]
"""The address of a call, and the texts of its prompt."""


def diff_lines(expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    """Return the unified diff of two lists of lines, without the file header."""
    lines = list(islice(unified_diff(expected, actual, lineterm="", n=CONTEXT_LINES), 2, None))
    return truncate_lines(lines)


def nearest_lines(words: str, text: str) -> list[str]:
    """Return the first difference between the expected words and the most similar lines of `text`.

    If no line is similar, return only the expected words.
    """
    wanted = words.strip("\n").split("\n")
    lines = text.split("\n")
    longest = max(wanted, key=len)
    at = _nearest_line_number(longest, lines)
    if at is None:
        return truncate_lines([*(f"-{line}" for line in wanted), "(nothing similar in the text)"])
    first = max(0, at - wanted.index(longest))
    candidates = [*lines[first : first + len(wanted)], *[""] * len(wanted)]
    number = next((n for n, line in enumerate(wanted) if line.strip() not in candidates[n]), 0)
    before = [f" {line}" for line in candidates[max(0, number - CONTEXT_LINES) : number]]
    shown, column = _excerpt(candidates[number], wanted[number].strip())
    return [f"@@ line {first + number + 1} @@", *before, f"-{wanted[number]}", f"+{shown}", f"{' ' * (column + 1)}^"]


def matching_lines(words: str, text: str) -> list[str]:
    """Return the first occurrence of `words` in `text` with the lines around it. `+` marks lines of the occurrence."""
    first_match = text[: text.index(words)].count("\n")
    last = first_match + words.count("\n")
    lines = text.split("\n")
    first = max(0, first_match - CONTEXT_LINES)
    shown = [
        f"{'+' if first_match <= number <= last else ' '}{lines[number]}"
        for number in range(first, min(len(lines), last + CONTEXT_LINES + 1))
    ]
    return truncate_lines([f"@@ line {first_match + 1} @@", *shown])


def truncate_lines(lines: list[str]) -> list[str]:
    """Return at most `MOST_LINES` lines; if lines are left out, the last line says how many."""
    rest = len(lines) - MOST_LINES
    return lines if rest <= 0 else [*lines[:MOST_LINES], f"… and {rest} more lines"]


def add_part_names(lines: Sequence[str], blocks: Sequence[Block]) -> list[str]:
    """Append to each hunk header the name of the prompt part that contains the first difference.

    `blocks` are the parts of the prompt, which are joined with empty lines.
    """
    parts, first = [], 1
    for block in blocks:
        parts.append((first, block.part or "other"))
        first += block.text.count("\n") + 2
    labelled_lines = []
    for place, line in enumerate(lines):
        part: list[str] = []
        if header := _HUNK_HEADER.fullmatch(line):
            context = takewhile(lambda each: each.startswith(" "), lines[place + 1 :] if header[1] else ())
            number = int(header[2]) + len(list(context))
            part = [name for start, name in parts if start <= number][-1:]
        labelled_lines.append(" ".join([line, *part]))
    return labelled_lines


def _nearest_line_number(line: str, lines: Sequence[str]) -> int | None:
    """Return the index of the line that is most similar to `line`; None if no line contains half of it.

    If several lines are equally similar, return the last: in a prompt, the instructions follow the material.
    """
    wanted = line.strip()[:MAX_LINE_CHARS]
    matcher = SequenceMatcher(None, "", wanted, autojunk=False)
    least, best, best_line = max(MIN_MATCH_CHARS, len(wanted) // 3), MIN_SIMILARITY, None
    for number, other in enumerate(lines[:MOST_COMPARED]):
        matcher.set_seq1(other[:MAX_LINE_CHARS])
        found = matcher.find_longest_match()
        if found.size < least:
            continue
        first = max(0, found.a - found.b)
        pieces = SequenceMatcher(None, other[first : first + len(wanted)], wanted, autojunk=False).get_matching_blocks()
        alike = sum(piece.size for piece in pieces if piece.size >= MIN_MATCH_CHARS) / len(wanted)
        if alike >= best:
            best, best_line = alike, number
    return best_line


def _excerpt(line: str, wanted: str) -> tuple[str, int]:
    """Return the part of `line` that is most similar to `wanted`, and the column of the first difference."""
    matcher = SequenceMatcher(None, line[:MAX_LINE_CHARS], wanted[:MAX_LINE_CHARS], autojunk=False)
    match = matcher.find_longest_match()
    first = max(0, match.a - match.b)
    window = slice(first, match.a + match.size + len(wanted))
    same = next(iter(SequenceMatcher(None, line[window], wanted, autojunk=False).get_matching_blocks()))
    difference_at = first + (same.a + same.size if same.b == 0 else 0)
    start, end = max(0, first - CONTEXT_CHARS), min(len(line), max(first + len(wanted), difference_at) + CONTEXT_CHARS)
    shown = f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
    return shown, difference_at - start + bool(start)


@dataclass(frozen=True)
class PromptDifference:
    """A call whose prompt differs from the recorded prompt. `-` marks recorded lines, `+` current lines.

    `status` is `differs`, `new` (only the run of the case makes the call), or `gone` (only the recorded run made it).
    """

    address: str
    status: str
    difference: tuple[str, ...] = ()


def dump_prompts(prompts: Iterable[RecordedPrompt]) -> str:
    """Return the prompts as JSON. Each distinct text is stored once, as a list of lines keyed by the text's hash."""
    texts: dict[str, list[str]] = {}
    calls = []
    for address, parts in prompts:
        names = [sha256_of(text.encode("utf-8", "surrogatepass"))[:_NAME] for text in parts]
        texts.update(zip(names, (text.split("\n") for text in parts), strict=True))
        calls.append({"address": address, "texts": names})
    return json.dumps({"prompts": calls, "texts": texts}, indent=1) + "\n"


def load_prompts(text: str) -> list[RecordedPrompt]:
    """Return the prompts in a text that `dump_prompts` returned. Raises ValueError for any other text."""
    data: Any = json.loads(text)
    try:
        texts = {name: "\n".join(lines) for name, lines in data["texts"].items()}
        return [(str(call["address"]), [texts[name] for name in call["texts"]]) for call in data["prompts"]]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a file of recorded prompts: {error}") from None


def prompt_differences(
    recorded: Iterable[RecordedPrompt], sent: Iterable[tuple[str, Request]]
) -> Iterator[PromptDifference]:
    """Yield the sent prompts that differ from the recorded ones, then the recorded prompts that are no longer sent.

    If an address has several prompts, the first sent is compared with the first recorded, and so on.
    """
    recorded_texts: defaultdict[str, list[list[str]]] = defaultdict(list)
    for address, texts in recorded:
        recorded_texts[address].append(texts)
    for address, request in sent:
        texts = [block.text for block in request.blocks]
        if not recorded_texts[address]:
            yield PromptDifference(address, "new")
        elif (earlier := recorded_texts[address].pop(0)) != texts:
            before, after = ("\n\n".join(each).splitlines() for each in (earlier, texts))
            yield PromptDifference(address, "differs", tuple(diff_lines(before, after)))
    for address, remaining in recorded_texts.items():
        yield from (PromptDifference(address, "gone") for _ in remaining)
