"""Material: texts by other authors that a prompt contains, such as replies and files.

A piece of material is a title with one or more texts. Pieces of equal importance form a group. If a prompt does not fit
the window, the least important group is shortened first, and all pieces of a group are shortened to the same level. The
prompt names what was omitted, and so does a report to the user.
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
TITLE_ONLY: Final = -1  # the level that shows only the title and the size of a piece
LONGEST_REASON: Final = 300  # characters
MOST_TOLD: Final = 12  # headings named in a prompt
MOST_NAMED: Final = 40  # headings or ids named in one line of the summary
_LADDER: Final = tuple(sorted({n << s for s in range(3, 22) for n in (2, 3)} | {0, 4, 8, 12}))
"""The levels to try. There are only a few, so that prompts with similar omissions have a prefix in common."""


Print = Callable[[Mapping[str, Any]], str]


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
        """Return the part's values for the template, with `text`, possibly shortened, instead of the whole text."""
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
    """What is omitted from a piece: how many of its `total` tokens, and the headings of the shortened sections."""

    title: str
    tokens: int
    total: int
    sections: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.title}: {self.amount}"

    @property
    def amount(self) -> str:
        """A text with the number of omitted tokens, the total, and the headings of the shortened sections."""
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

    @cached_property
    def _frame_tokens(self) -> int:
        """The maximum number of tokens that the template adds to the texts."""
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
        """Return an upper estimate of the piece's tokens at a level. A higher level never costs less."""
        if level < 0:
            return self._title_tokens
        outlines = (part.outline for part in self.parts)
        return max(self._title_tokens, self._frame_tokens + sum(outline.cost(level) for outline in outlines))

    def render_at(self, level: int) -> tuple[str, MaterialOmission | None]:
        """Return the text of the piece at a level, and what is omitted from it; None if nothing is."""
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
    """Return the template's values for the headings of shortened sections: the first headings, and how many follow."""
    names = [to_single_line(heading) for heading in headings[:MOST_TOLD]]
    return {
        "sections": wrap_untrusted_text("\n".join(names)) if names else "",
        "more_sections": len(headings[MOST_TOLD:]),
    }


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
    """Return the level of each group, keyed by name, and the total tokens of all groups, which may exceed `available`.

    The groups are given in order of importance, the least important first. A group is shortened only after all earlier
    groups are at their `least` level. A group may occur twice, the second time with a lower `least`.
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
    """Return a piece with a value (text, list, record, replies or documents); None if the value is absent."""
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
