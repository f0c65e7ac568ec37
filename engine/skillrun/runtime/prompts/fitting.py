"""Shortens texts so that a prompt fits the model's window. Text is omitted at the ends of sections, in whole sentences.

A text is split at its headings into sections; a heading inside a code fence does not count. Each section is split into
indivisible units: a sentence, an item of a list, a row of a table, a block of code. The level is the number of tokens
that each section may keep. A section keeps its heading, and as many of its first units as fit the level. So the last
sections are not lost first, and a larger window never shows less.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from skillrun.scoring.compaction import estimate_tokens
from skillrun.syntax.document import Fences

OMISSION_MARK: Final = "[…]"
"""Marks an omission in a text."""

_HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<name>.*)$", re.MULTILINE)
_BLANK: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*)*\n")
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]|^[ \t]*\|", re.MULTILINE)
_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"')\]»”*_`]*\s+|(?<=[。！？])")
_MARK: Final = estimate_tokens(f"\n{OMISSION_MARK}\n") + 1


@dataclass(frozen=True)
class OutlineSection:
    """A section: its heading with the newline, and the units below. Text before the first heading has no heading."""

    name: str
    heading: str
    units: tuple[str, ...]

    @cached_property
    def cumulative_tokens(self) -> tuple[int, ...]:
        """For each unit, an upper estimate of the tokens of the section up to and including this unit."""
        total, ends = 0, []
        for unit in self.units:
            total += estimate_tokens(unit)
            ends.append(total)
        return tuple(ends)

    @cached_property
    def heading_tokens(self) -> int:
        return estimate_tokens(self.heading)

    @cached_property
    def size(self) -> int:
        return self.cumulative_tokens[-1] if self.cumulative_tokens else 0

    def unit_count(self, level: int) -> int:
        """Return how many units are kept at a level; all of them if the rest is as short as the omission mark."""
        if self.size <= level + _MARK:
            return len(self.units)
        return bisect_right(self.cumulative_tokens, level)

    def shorten(self, level: int) -> tuple[str, int]:
        """Return the section's text at a level, and the number of omitted tokens."""
        kept = self.unit_count(level)
        if kept == len(self.units):
            return self.heading + "".join(self.units), 0
        text = "".join(self.units[:kept]).rstrip()
        left = self.size - (self.cumulative_tokens[kept - 1] if kept else 0)
        return f"{self.heading}{text}{_gap(text)}{OMISSION_MARK}\n\n", left

    def cost(self, level: int) -> int:
        """Return the tokens of the section at a level. A lower level never costs more."""
        kept = self.unit_count(level)
        if kept == len(self.units):
            return self.heading_tokens + self.size
        return self.heading_tokens + (self.cumulative_tokens[kept - 1] if kept else 0) + _MARK


def _gap(text: str) -> str:
    if not text:
        return ""
    last = text.rsplit("\n", 1)[-1]
    return "\n" if _ITEM.match(last) else "\n\n" if "\n\n" in text or _ends_with_fence(text) else " "


def _ends_with_fence(text: str) -> bool:
    return text.endswith(("```", "~~~"))


@dataclass(frozen=True)
class Outline:
    """A text as a sequence of sections."""

    text: str

    @cached_property
    def sections(self) -> tuple[OutlineSection, ...]:
        fences = Fences(self.text)
        heads = [head for head in _HEADING.finditer(self.text) if not fences.contains(head.start())]
        starts = [(0, 0, ""), *((head.start(), head.end() + 1, head["name"].strip(" #*_")) for head in heads)]
        ends = [*(start for start, _, _ in starts[1:]), len(self.text)]
        sections = []
        for (start, body, name), end in zip(starts, ends, strict=True):
            if start < end:
                held = min(body, end)
                sections.append(OutlineSection(name, self.text[start:held], tuple(units(self.text[held:end]))))
        return tuple(sections)

    @cached_property
    def size(self) -> int:
        return estimate_tokens(self.text)

    @cached_property
    def most(self) -> int:
        """The level at which nothing is omitted."""
        return max((section.size for section in self.sections), default=0)

    def cost(self, level: int) -> int:
        return sum(section.cost(level) for section in self.sections)

    def shorten(self, level: int) -> ShortenedText:
        """Return the text with at most `level` tokens below each heading."""
        parts = [(section, *section.shorten(level)) for section in self.sections]
        names = tuple(section.name for section, _, left in parts if left and section.name)
        return ShortenedText("".join(text for _, text, _ in parts).rstrip(), sum(left for *_, left in parts), names)


@lru_cache(maxsize=128)
def outline_of(text: str) -> Outline:
    """Return the outline of a text. It is cached, because several prompts contain the same text."""
    return Outline(text)


@dataclass(frozen=True)
class ShortenedText:
    """A shortened text, the number of omitted tokens, and the headings of the sections that were shortened."""

    text: str
    omitted_tokens: int = 0
    sections: tuple[str, ...] = ()


def units(body: str) -> list[str]:
    """Split a text into indivisible units. They include all whitespace, so that joining them gives the text again."""
    fences, pieces = Fences(body), []
    start = 0
    for blank in [*_BLANK.finditer(body), None]:
        if blank is not None and fences.contains(blank.start()):
            continue
        end = blank.end() if blank is not None else len(body)
        if start < end:
            pieces += _block(body[start:end])
        start = end
    return pieces


def _block(text: str) -> list[str]:
    """Split a paragraph into sentences, and a list or table into items; code stays whole."""
    if text.lstrip(" ").startswith(("```", "~~~")):
        return [text]
    starts = [item.start() for item in _ITEM.finditer(text)]
    if not starts:
        return _pieces(text, [end.end() for end in _SENTENCE.finditer(text)])
    lead = _pieces(text[: starts[0]], [end.end() for end in _SENTENCE.finditer(text[: starts[0]])])
    return [*lead, *_pieces(text[starts[0] :], [start - starts[0] for start in starts[1:]])]


def _pieces(text: str, cuts: Sequence[int]) -> list[str]:
    pieces, start = [], 0
    for cut in [*cuts, len(text)]:
        if text[start:cut].strip():
            pieces.append(text[start:cut])
            start = cut
    if pieces and start < len(text):
        pieces[-1] += text[start:]
    return pieces or ([text] if text else [])


def highest(most: int, fits: Callable[[int], bool]) -> int | None:
    """Return the highest level from 0 to `most` that fits; None if not even 0 fits. If a level fits, every lower one
    must fit too."""
    if not fits(0):
        return None
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
