"""Which texts of a run stand in a report once for all: what was sent several times, and what is a document or a reply.

Knows places on the page and no HTML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MAX_INLINE_CHARS: Final = 240  # characters that stand wherever they are used


class SharedText(NamedTuple):
    """A text that stands in one place of the page, `anchor`; `title` is what it was called first."""

    anchor: str
    title: str
    text: str
    uses: int
    is_difference: bool


@dataclass
class SharedTexts:
    """Texts by their place. What stands on the page anyway is entered with `stands_at`."""

    _uses: Counter[str] = field(default_factory=Counter)
    _titles: dict[str, str] = field(default_factory=dict)
    _anchors: dict[str, str] = field(default_factory=dict)
    _differences: set[str] = field(default_factory=set)

    def count(self, texts: Iterable[tuple[str, str]]) -> None:
        """Count texts, each with its title, before any of them is told."""
        for title, text in texts:
            self._uses[text] += 1
            self._titles.setdefault(text, title)

    def count_difference(self, title: str, lines: Sequence[str]) -> None:
        """Count a difference as `count` does a text."""
        text = "\n".join(lines)
        self.count([(title, text)])
        self._differences.add(text)

    def set_anchor(self, anchor: str, text: str) -> None:
        """A text that the page has at this place."""
        if len(text) > MAX_INLINE_CHARS:
            self._anchors.setdefault(text, anchor)

    def anchor_of(self, text: str) -> str:
        """Where a text stands once for all; empty for one that is told where it is used."""
        if text in self._anchors:
            return self._anchors[text]
        if self._uses[text] < 2 or len(text) <= MAX_INLINE_CHARS:
            return ""
        self._anchors[text] = f"text-{len(self._anchors) + 1}"
        return self._anchors[text]

    def list_texts(self) -> list[SharedText]:
        """The texts that the page has for this alone, the most used first."""
        texts = [text for text in self._titles if self.anchor_of(text).startswith("text-")]
        shared_texts = [
            SharedText(self._anchors[text], self._titles[text], text, self._uses[text], text in self._differences)
            for text in texts
        ]
        return sorted(shared_texts, key=lambda shared: -shared.uses)
