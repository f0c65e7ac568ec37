"""Material: titled texts by other authors, in prompts, shortened to the available room.

A piece of material is a title with one or more parts (replies, files). Pieces of one weight form a group. If a window
is too small, the group of the lowest weight is shortened first, all its pieces to one level. Omissions are named in
the prompt and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from skillrun.runtime.prompts.fitting import OMISSION_MARK, Outline, highest, outline_of
from skillrun.store.frontmatter import as_yaml
from skillrun.templates.absent import Absent
from skillrun.templates.functions import to_single_line, wrap_untrusted_text
from skillrun.templates.values import to_text

WHOLE: Final = 1 << 40
TITLE_ONLY: Final = -1  # shows only the title and the size of a piece
LONGEST_REASON: Final = 300  # characters
MOST_TOLD: Final = 12  # headings named in a prompt
MOST_NAMED: Final = 40  # headings or ids named in a line of the summary
_LADDER: Final = tuple(sorted({n << s for s in range(3, 22) for n in (2, 3)} | {0, 4, 8, 12}))
"""The levels to try; they are few, so that prompts with similar omissions still share a prefix."""


Print = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class MaterialPart:
    """A text and its source, if any: a member or a file. `reason`: why the reply is missing or incomplete."""

    text: str
    member: str = ""
    path: str = ""
    reason: str = ""

    @property
    def outline(self) -> Outline:
        return outline_of(self.text)

    def template_value(self, text: str) -> dict[str, str]:
        """Return the values for the template, with `text` as the text to show."""
        fenced = wrap_untrusted_text(text.strip("\n")) if text else ""
        reason = to_single_line(self.reason, LONGEST_REASON)
        return {
            "member": to_single_line(self.member),
            "path": to_single_line(self.path),
            "reason": reason,
            "text": fenced,
        }


@dataclass(frozen=True)
class MaterialOmission:
    """The omitted tokens of a piece, their total, and the headings below which they were omitted."""

    title: str
    tokens: int
    total: int
    sections: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.title}: {self.amount}"

    @property
    def amount(self) -> str:
        """The omitted and total tokens, and the headings, as text."""
        names = [to_single_line(section) for section in self.sections[:MOST_NAMED]]
        more = f" and {len(self.sections) - MOST_NAMED} more" if len(self.sections) > MOST_NAMED else ""
        places = f", under {'; '.join(names)}{more}" if names else ""
        much = (
            f"about {self.tokens:,} of {self.total:,} tokens"
            if self.tokens < self.total
            else f"{self.total:,} tokens, all"
        )
        return f"{much}{places}"


@dataclass(frozen=True)
class MaterialBlock:
    """Material under one title; `print` renders it from the values of the template `system/material`."""

    title: str
    parts: tuple[MaterialPart, ...]
    print: Print = field(repr=False, compare=False)

    @cached_property
    def size(self) -> int:
        return sum(part.outline.size for part in self.parts)

    @cached_property
    def most(self) -> int:
        return max((part.outline.most for part in self.parts), default=0)

    @cached_property
    def _frame_tokens(self) -> int:
        """The maximum number of tokens around the texts."""
        names = {section.name for part in self.parts for section in part.outline.sections if section.name}
        empty = [part.template_value(OMISSION_MARK) for part in self.parts]
        longest = sorted(names, key=len, reverse=True)
        values = {
            "title": self.title,
            "parts": empty,
            "size": self.size,
            "left_out": self.size,
            **_headings_value(longest),
        }
        return Outline(self.print(values)).size + 3 * len(self.parts)

    @cached_property
    def _title_tokens(self) -> int:
        return Outline(self.render_at(TITLE_ONLY)[0]).size

    def cost(self, level: int) -> int:
        """Return the tokens of the piece at a level, rather too many than too few; never fewer at a higher level."""
        if level < 0:
            return self._title_tokens
        outlines = (part.outline for part in self.parts)
        return max(self._title_tokens, self._frame_tokens + sum(outline.cost(level) for outline in outlines))

    def render_at(self, level: int) -> tuple[str, MaterialOmission | None]:
        """Return the piece at a level, and its omission."""
        parts, left, sections = [], 0, dict[str, None]()
        for part in self.parts if level >= 0 else ():
            short = None if level == WHOLE or level >= part.outline.most else part.outline.shorten(level)
            parts.append(part.template_value(part.text if short is None else short.text))
            if short is not None:
                left += short.omitted_tokens
                sections.update(dict.fromkeys(short.sections))
        if level < 0:
            left = self.size
        names = {
            "title": self.title,
            "parts": parts,
            "size": self.size,
            "left_out": left,
            **_headings_value(list(sections)),
        }
        return self.print(names), MaterialOmission(self.title, left, self.size, tuple(sections)) if left else None


def _headings_value(headings: Sequence[str]) -> dict[str, object]:
    """Return the template's values for headings with omissions: the first of them, fenced."""
    names = [to_single_line(heading) for heading in headings[:MOST_TOLD]]
    return {
        "sections": wrap_untrusted_text("\n".join(names)) if names else "",
        "more_sections": len(headings[MOST_TOLD:]),
    }


@dataclass(frozen=True)
class MaterialGroup:
    """Pieces that are shortened together, from `most` down to `least` (`TITLE_ONLY`: without their texts)."""

    name: str
    most: int
    least: int
    cost: Callable[[int], int] = field(repr=False)

    @classmethod
    def for_material(cls, name: str, pieces: Sequence[MaterialBlock]) -> MaterialGroup:
        most = max((piece.most for piece in pieces), default=0)
        return cls(name, most, TITLE_ONLY, lambda level: sum(piece.cost(level) for piece in pieces))


def fit_levels(groups: Iterable[MaterialGroup], available: int) -> tuple[dict[str, int], int]:
    """Return the level of each group by name, and their total tokens, which may exceed `available`.

    Groups are ordered by increasing weight; each is shortened only after all earlier ones are at their least. A group
    may occur twice, the second time with a lower least.
    """
    stages = list(groups)
    levels: dict[str, int] = {stage.name: WHOLE for stage in stages}
    costs = {stage.name: stage.cost(WHOLE) for stage in stages}
    for stage in stages:
        if sum(costs.values()) <= available:
            break
        rest = sum(costs.values()) - costs[stage.name]
        floor = max(0, stage.least)
        steps = [floor, *(level for level in _LADDER if floor < level < min(stage.most, levels[stage.name]))]
        step = highest(len(steps) - 1, lambda at: rest + stage.cost(steps[at]) <= available)  # noqa: B023 -- called now
        levels[stage.name] = stage.least if step is None else steps[step]
        costs[stage.name] = stage.cost(levels[stage.name])
    return levels, sum(costs.values())


def build_material_block(title: str, value: Any, print_: Print) -> MaterialBlock | None:
    """Return a value as a piece: text, list, record, replies, or documents; None if it is absent."""
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
    """Return whether an item is a text with a source: a member's reply, or a document."""
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
