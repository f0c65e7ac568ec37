"""Material: texts by other authors in a prompt, such as replies and files. Shortens material to fit.

A piece of material is a title with one or more texts. Pieces of equal importance form a group. If a prompt does not fit
the window, the least important group is shortened first, and all pieces of a group are shortened to the same level. The
prompt and a report to the user name what was omitted.

A text is split at its headings into sections; a heading inside a code fence does not count. Each section is split into
indivisible units: a sentence, an item of a list, a row of a table, a block of code. A long unit is split at its lines,
and a long line at a space or, without spaces, anywhere. The level is the number of tokens that each section may keep.
A section keeps its heading, and as many of its first units as fit the level. So the last sections are not lost first,
and a larger window never shows less.

If the headings do not fit either, a piece keeps its beginning: the first headings of its first texts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, Final

from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.frontmatter import as_yaml
from skillrun.syntax.document import Fences
from skillrun.templates.functions import to_single_line, wrap_untrusted_text
from skillrun.templates.values import Absent, to_text

WHOLE: Final = 1 << 40  # the level at which every text is whole
TITLE_ONLY: Final = -1  # the level that shows only the title and the size of a piece
BEGINNING: Final = -(1 << 41)  # the level `BEGINNING + n` shows the first n tokens of the headings of a piece
LONGEST_UNIT: Final = 400  # characters; a longer unit is split
LONGEST_REASON: Final = 300  # characters
MOST_TOLD: Final = 12  # headings named in a prompt
MOST_NAMED: Final = 40  # headings or ids named in one line of the summary
_LADDER: Final = tuple(sorted({n << s for s in range(3, 22) for n in (2, 3)} | {0, 4, 8, 12}))
"""The levels to try. There are only a few, because prompts that are shortened to the same level share a prefix."""
_BEGINNINGS: Final = tuple(BEGINNING + tokens for tokens in _LADDER[1:])

Print = Callable[[Mapping[str, Any]], str]

OMISSION_MARK: Final = "[…]"
"""Marks an omission in a text."""

_HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<name>.*)$", re.MULTILINE)
_BLANK: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*)*\n")
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]|^[ \t]*\|", re.MULTILINE)
_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"')\]»”*_`]*\s+|(?<=[。！？])")
_SENTENCE_END: Final = re.compile(r"[.!?…。！？][\"')\]»”*_`]*$")
_CHUNK: Final = re.compile(rf".{{1,{LONGEST_UNIT - 1}}}\s|.{{1,{LONGEST_UNIT}}}", re.DOTALL)
_MARK: Final = estimate_tokens(f"\n{OMISSION_MARK}\n") + 1


@dataclass(frozen=True)
class MaterialPart:
    """A text and its source: a member, a file, or neither. `reason` says why a reply is missing or incomplete."""

    text: str
    member: str = ""
    path: str = ""
    reason: str = ""

    @property
    def outline(self) -> Outline:
        return outline_of(self.text)

    def template_value(self, text: str) -> dict[str, str]:
        """Return the part's values for the template. `text` is the part's text, possibly shortened."""
        return {
            "member": to_single_line(self.member),
            "path": to_single_line(self.path),
            "reason": to_single_line(self.reason, LONGEST_REASON),
            "text": wrap_untrusted_text(text.strip("\n")) if text else "",
        }


@dataclass(frozen=True)
class MaterialOmission:
    """What is omitted from a piece: how many of its `total` tokens, and the headings of the shortened sections."""

    title: str
    tokens: int
    total: int
    sections: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.title}: {self.amount}"

    @property
    def amount(self) -> str:
        """Text that states the omitted tokens, the total tokens, and the headings of the shortened sections."""
        names = [to_single_line(section) for section in self.sections[:MOST_NAMED]]
        more = f" and {len(self.sections) - MOST_NAMED} more" if len(self.sections) > MOST_NAMED else ""
        places = f", under {'; '.join(names)}{more}" if names else ""
        if self.tokens < self.total:
            return f"about {self.tokens:,} of {self.total:,} tokens{places}"
        return f"{self.total:,} tokens, all{places}"


@dataclass(frozen=True)
class MaterialBlock:
    """A piece of material: texts under one title. `print` renders the template `system/material` with given values."""

    title: str
    parts: tuple[MaterialPart, ...]
    print: Print = field(repr=False, compare=False)

    @cached_property
    def size(self) -> int:
        return sum(part.outline.size for part in self.parts)

    @cached_property
    def most(self) -> int:
        return max((part.outline.most for part in self.parts), default=0)

    def _count_frame_tokens(self, parts: Sequence[MaterialPart]) -> int:
        """Return the maximum number of tokens that the template adds to the texts of the parts."""
        names = {section.name for part in self.parts for section in part.outline.sections if section.name}
        values = [part.template_value(OMISSION_MARK) for part in parts]
        return estimate_tokens(self._print(values, self.size, sorted(names, key=len, reverse=True))) + 3 * len(parts)

    @cached_property
    def _frame_tokens(self) -> int:
        return self._count_frame_tokens(self.parts)

    @cached_property
    def _empty_frame_tokens(self) -> int:
        return self._count_frame_tokens(())

    @cached_property
    def _title_tokens(self) -> int:
        return estimate_tokens(self.render_at(TITLE_ONLY)[0])

    @cached_property
    def _part_frame_tokens(self) -> tuple[int, ...]:
        """The maximum number of tokens that the template adds to each text."""
        empty = estimate_tokens(self._print([], self.size, ()))
        frames = (self._print([part.template_value(OMISSION_MARK)], self.size, ()) for part in self.parts)
        return tuple(max(0, estimate_tokens(frame) - empty) + 3 for frame in frames)

    def _part_levels(self, level: int) -> list[int]:
        """Return the level of each part that is shown. At a level of the beginning, the first parts that fit are shown,
        and the last of them may be shortened."""
        if level >= TITLE_ONLY:
            return [level] * len(self.parts) if level >= 0 else []
        levels: list[int] = []
        left = level - BEGINNING
        for part, frame in zip(self.parts, self._part_frame_tokens, strict=True):
            left -= frame
            if left <= 0:
                break
            levels.append(BEGINNING + left)
            left -= part.outline.headings.size
        return levels

    def cost(self, level: int) -> int:
        """Return an upper estimate of the piece's tokens at a level. A higher level never costs less."""
        levels = self._part_levels(level)
        if not levels:
            return self._title_tokens
        frames = self._frame_tokens
        if level < 0:
            frames = self._empty_frame_tokens + sum(self._part_frame_tokens[: len(levels)])
        texts = sum(part.outline.cost(at) for part, at in zip(self.parts, levels, strict=False))
        return max(self._title_tokens, frames + texts)

    def render_at(self, level: int) -> tuple[str, MaterialOmission | None]:
        """Return the piece's text at a level, and the omission, or None if nothing is omitted."""
        levels = self._part_levels(level)
        shown = levels + [TITLE_ONLY] * (len(self.parts) - len(levels))
        shortened = [(part, part.outline.shorten(at)) for part, at in zip(self.parts, shown, strict=True)]
        values = [part.template_value(short.text) for part, short in shortened[: len(levels)]]
        left = sum(short.omitted_tokens for _, short in shortened)
        sections = tuple(dict.fromkeys(name for _, short in shortened for name in short.sections))
        omission = MaterialOmission(self.title, left, self.size, sections) if left else None
        return self._print(values, left, sections), omission

    def _print(self, parts: list[dict[str, str]], left_out: int, headings: Sequence[str]) -> str:
        """Render the template with the first few `headings` of shortened sections, and the number of other headings."""
        names = [to_single_line(heading) for heading in headings[:MOST_TOLD]]
        return self.print(
            {
                "title": self.title,
                "parts": parts,
                "size": self.size,
                "left_out": left_out,
                "sections": wrap_untrusted_text("\n".join(names)) if names else "",
                "more_sections": len(headings[MOST_TOLD:]),
            }
        )


@dataclass(frozen=True)
class MaterialGroup:
    """Pieces that are shortened together to one level, from `most` down to `least`. `cost` returns their tokens at a
    level."""

    name: str
    most: int
    least: int
    cost: Callable[[int], int] = field(repr=False)

    @classmethod
    def for_material(cls, name: str, pieces: Sequence[MaterialBlock]) -> MaterialGroup:
        most = max((piece.most for piece in pieces), default=0)
        return cls(name, most, TITLE_ONLY, lambda level: sum(piece.cost(level) for piece in pieces))


def fit_levels(groups: Iterable[MaterialGroup], available: int) -> tuple[dict[str, int], int]:
    """Return the level of each group, keyed by name, and the total tokens of all groups, which can exceed `available`.

    The groups are given in order of importance, the least important first. A group is shortened only after all earlier
    groups are at their `least` level. A group can occur twice, the second time with a lower `least`.
    """
    stages = list(groups)
    levels: dict[str, int] = {stage.name: WHOLE for stage in stages}
    costs = {stage.name: stage.cost(WHOLE) for stage in stages}
    for stage in stages:
        if sum(costs.values()) <= available:
            break
        rest = sum(costs.values()) - costs[stage.name]
        floor = max(0, stage.least)
        beginnings = _BEGINNINGS if stage.least == TITLE_ONLY else ()
        ladder = (level for level in _LADDER if floor < level < min(stage.most, levels[stage.name]))
        steps = [*beginnings, floor, *ladder]
        fitting = bisect_right(steps, available - rest, key=stage.cost)  # the number of levels that fit
        levels[stage.name] = steps[fitting - 1] if fitting else stage.least
        costs[stage.name] = stage.cost(levels[stage.name])
    return levels, sum(costs.values())


def build_material_block(title: str, value: Any, print_: Print) -> MaterialBlock | None:
    """Return `value` (text, list, record, replies or documents) as a piece; None if the value is absent."""
    if isinstance(value, Absent) or value is None:
        return None
    return MaterialBlock(title, tuple(_parts(value)), print_)


def _parts(value: Any) -> list[MaterialPart]:
    if isinstance(value, Mapping) and isinstance(value.get("replies"), list):
        value = value["replies"]
    elif isinstance(value, Mapping) and isinstance(value.get("documents"), list):
        value = value["documents"]
    if isinstance(value, list) and value and all(map(_is_attributed, value)):
        return [_part(item) for item in value]
    if isinstance(value, list) and any(isinstance(item, str) and "\n" in item.strip() for item in value):
        return [MaterialPart(item if isinstance(item, str) else as_yaml(item)) for item in value]
    text = as_yaml(value) if isinstance(value, Mapping | list) else to_text(value)
    return [MaterialPart(text)] if text.strip() and value not in ([], {}) else []


def _is_attributed(item: Any) -> bool:
    """Return whether an item has a source: it is a member's reply, or a document."""
    if not isinstance(item, Mapping):
        return False
    return isinstance(item.get("member"), str) if "member" in item else {"path", "text"} == item.keys()


def _part(item: Mapping[str, Any]) -> MaterialPart:
    text, reason = item.get("text"), item.get("reason") or ""
    if item.get("status", "success") != "success":
        reason = reason or item["status"]
    member, path = (str(item.get(key) or "") for key in ("member", "path"))
    if text and isinstance(data := item.get("data"), Mapping | list):
        text = as_yaml(data)
    return MaterialPart(str(text or ""), member, path, str(reason))


@dataclass(frozen=True)
class OutlineSection:
    """A section: its heading with the newline, and the units below it. Text before the first heading has no heading."""

    name: str
    heading: str
    units: tuple[str, ...]

    @cached_property
    def cumulative_tokens(self) -> tuple[int, ...]:
        """An upper estimate of the tokens of the section's first 0, 1, 2, … units."""
        return tuple(accumulate(map(estimate_tokens, self.units), initial=0))

    @property
    def size(self) -> int:
        return self.cumulative_tokens[-1]

    @cached_property
    def heading_tokens(self) -> int:
        return estimate_tokens(self.heading)

    @cached_property
    def _fences(self) -> Fences:
        return Fences("".join(self.units))

    @cached_property
    def _mark_tokens(self) -> int:
        """The maximum number of tokens of the omission mark, with the line that closes a fence."""
        return _MARK + max((estimate_tokens(f"\n{fence}\n") for fence in self._fences.marks), default=0)

    def unit_count(self, level: int) -> int:
        """Return how many units are kept at a level. Keep all units if the rest is as short as the omission mark."""
        if self.size <= level + self._mark_tokens:
            return len(self.units)
        return bisect_right(self.cumulative_tokens, level) - 1

    def shorten(self, level: int) -> tuple[str, int]:
        """Return the section's text at a level, and the number of omitted tokens."""
        kept = self.unit_count(level)
        if kept == len(self.units):
            return self.heading + "".join(self.units), 0
        text = "".join(self.units[:kept])
        fence = self._fences.open_at(len(text))
        is_line = text.endswith("\n") and not text.endswith("\n\n") and not _ITEM.match(self.units[kept])
        text = text.rstrip()
        is_item = text and _ITEM.match(text.rsplit("\n", 1)[-1])
        gap = "" if not text else " "
        if fence:
            gap = f"\n{fence}\n\n"
        elif is_item or (is_line and not _SENTENCE_END.search(text[-40:])):
            gap = "\n"
        elif "\n\n" in text or text.endswith(("```", "~~~")):
            gap = "\n\n"
        return f"{self.heading}{text}{gap}{OMISSION_MARK}\n\n", self.size - self.cumulative_tokens[kept]

    def cost(self, level: int) -> int:
        """Return the tokens of the section at a level. A lower level never costs more."""
        kept = self.unit_count(level)
        return self.heading_tokens + self.cumulative_tokens[kept] + (self._mark_tokens if kept < len(self.units) else 0)


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

    @cached_property
    def headings(self) -> OutlineSection:
        """The text at level 0 as one section. Its units are the headings, with the bodies that are never omitted."""
        texts = (section.shorten(0)[0] for section in self.sections)
        return OutlineSection("", "", tuple(part for text in texts for part in _split_long_unit(text)))

    def cost(self, level: int) -> int:
        if level < TITLE_ONLY:
            return self.headings.cost(level - BEGINNING)
        return sum(section.cost(level) for section in self.sections)

    def shorten(self, level: int) -> ShortenedText:
        """Return the text with at most `level` tokens below each heading.

        At TITLE_ONLY, return an empty text. At a lower level, return the first headings.
        """
        if level < TITLE_ONLY:
            text, left = self.headings.shorten(level - BEGINNING)
            gone = max(left, self.size - estimate_tokens(text))
            return ShortenedText(text.rstrip(), gone, tuple(filter(None, (section.name for section in self.sections))))
        if level < 0:
            return ShortenedText("", self.size)
        if level == WHOLE or level >= self.most:
            return ShortenedText(self.text)
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
    """Split a text into indivisible units. Joining the units gives the text again, including all whitespace."""
    fences, pieces = Fences(body), []
    start = 0
    for blank in [*_BLANK.finditer(body), None]:
        if blank is not None and fences.contains(blank.start()):
            continue
        end = blank.end() if blank is not None else len(body)
        if start < end:
            pieces += _block(body[start:end])
        start = end
    return [part for piece in pieces for part in _split_long_unit(piece)]


def _split_long_unit(unit: str) -> list[str]:
    """Split a unit that is too long at its lines, and a line that is too long at a space or anywhere."""
    if len(unit) <= LONGEST_UNIT:
        return [unit]
    lines = unit.splitlines(keepends=True)
    return [part for line in lines for part in (_CHUNK.findall(line) if len(line) > LONGEST_UNIT else [line])]


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
