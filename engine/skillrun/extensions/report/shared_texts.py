"""Decides which texts a report shows only once: texts that were sent several times, documents and replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MAX_INLINE_CHARS: Final = 240  # shorter texts are repeated wherever they are used


class SharedText(NamedTuple):
    """A text that the page shows once, at `anchor`; `title` is the first title it had."""

    anchor: str
    title: str
    text: str
    uses: int
    is_difference: bool


@dataclass
class SharedTexts:
    """Texts and their anchors. `set_anchor` registers texts that the page shows anyway."""

    _uses: Counter[str] = field(default_factory=Counter)
    _titles: dict[str, str] = field(default_factory=dict)
    _anchors: dict[str, str] = field(default_factory=dict)
    _differences: set[str] = field(default_factory=set)

    def count(self, texts: Iterable[tuple[str, str]]) -> None:
        """Count uses of texts and their titles. Must be called before `anchor_of`."""
        for title, text in texts:
            self._uses[text] += 1
            self._titles.setdefault(text, title)

    def count_difference(self, title: str, lines: Sequence[str]) -> None:
        """Count a difference as `count` does a text."""
        text = "\n".join(lines)
        self.count([(title, text)])
        self._differences.add(text)

    def set_anchor(self, anchor: str, text: str) -> None:
        """Register a text that the page shows at this anchor."""
        if len(text) > MAX_INLINE_CHARS:
            self._anchors.setdefault(text, anchor)

    def anchor_of(self, text: str) -> str:
        """Return the anchor of a text that is shown once; empty for a text that is shown where it is used."""
        if text in self._anchors:
            return self._anchors[text]
        if self._uses[text] < 2 or len(text) <= MAX_INLINE_CHARS:
            return ""
        self._anchors[text] = f"text-{len(self._anchors) + 1}"
        return self._anchors[text]

    def list_texts(self) -> list[SharedText]:
        """Return the texts of the shared section, most used first."""
        texts = [text for text in self._titles if self.anchor_of(text).startswith("text-")]
        shared_texts = [
            SharedText(self._anchors[text], self._titles[text], text, self._uses[text], text in self._differences)
            for text in texts
        ]
        return sorted(shared_texts, key=lambda shared: -shared.uses)
