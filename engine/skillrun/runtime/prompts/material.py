"""Material: titled texts that somebody else wrote, as prompts carry them, and what of it has room.

A piece of material is a title with one part or several (replies, files). Pieces of one weight are a group; where a
window is too small, the least weighty group is shortened first, all its pieces to one level, and what is left out is
named in the prompt and told of.
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
TITLE_ONLY: Final = -1  # of the piece only its title stands, and how much it had
LONGEST_REASON: Final = 300  # characters
MOST_TOLD: Final = 12  # headings that a prompt names
MOST_NAMED: Final = 40  # headings or ids that a line of the summary names
_LADDER: Final = tuple(sorted({n << s for s in range(3, 22) for n in (2, 3)} | {0, 4, 8, 12}))
"""The levels that are tried, so that prompts which lack nearly the same still begin with the same words."""


Print = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class MaterialPart:
    """A text with whose it is: a member, a file, or nobody in particular. `reason`: why it is no whole answer."""

    text: str
    member: str = ""
    path: str = ""
    reason: str = ""

    @property
    def outline(self) -> Outline:
        return outline_of(self.text)

    def template_value(self, text: str) -> dict[str, str]:
        """What the template reads of it, with so much of the text."""
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
    """How many tokens of a piece a prompt does not hold, of how many, and below which headings they stand."""

    title: str
    tokens: int
    total: int
    sections: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.title}: {self.amount}"

    @property
    def amount(self) -> str:
        """How much of how much, and below which headings, in words."""
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
    """Material under one title; `print` renders it from what the template `system/material` reads."""

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
        """Tokens of all that stands around the texts, at most."""
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
        """Tokens of the piece at a level, rather too many than too few; never fewer at a higher one."""
        if level < 0:
            return self._title_tokens
        outlines = (part.outline for part in self.parts)
        return max(self._title_tokens, self._frame_tokens + sum(outline.cost(level) for outline in outlines))

    def render_at(self, level: int) -> tuple[str, MaterialOmission | None]:
        """The piece as a prompt carries it at a level, and what that leaves out."""
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
    """What the template reads of the headings below which something is left out: the first of them, fenced."""
    names = [to_single_line(heading) for heading in headings[:MOST_TOLD]]
    return {
        "sections": wrap_untrusted_text("\n".join(names)) if names else "",
        "more_sections": len(headings[MOST_TOLD:]),
    }


@dataclass(frozen=True)
class MaterialGroup:
    """What is shortened together: from `most` down to `least` (NAMED: not even a beginning of its texts stands)."""

    name: str
    most: int
    least: int
    cost: Callable[[int], int] = field(repr=False)

    @classmethod
    def for_material(cls, name: str, pieces: Sequence[MaterialBlock]) -> MaterialGroup:
        most = max((piece.most for piece in pieces), default=0)
        return cls(name, most, TITLE_ONLY, lambda level: sum(piece.cost(level) for piece in pieces))


def fit_levels(groups: Iterable[MaterialGroup], available: int) -> tuple[dict[str, int], int]:
    """The level of each group, by name, and the tokens that they come to, which may be more than are available.

    The groups come least weighty first; none is shortened before all in front of it are at their least. A group may
    stand twice, with a lower least.
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
        step = highest(len(steps) - 1, lambda at: rest + stage.cost(steps[at]) <= available)  # noqa: B023 -- at once
        levels[stage.name] = stage.least if step is None else steps[step]
        costs[stage.name] = stage.cost(levels[stage.name])
    return levels, sum(costs.values())


def build_material_block(title: str, value: Any, print_: Print) -> MaterialBlock | None:
    """A value as a piece: text, list, record, replies, or what a step has read; None where it is absent."""
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
    """Whether an item is a text with a name: a member's reply, or a document."""
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
