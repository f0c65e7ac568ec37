"""Matches phrases in answers. The phrases are listed under `answers` in `config/skillrun.yaml`; this module contains
none.

A phrase can leave a question open, stand before or after a choice, or separate a choice from a remark about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_OUTER_MARKS: Final = " .!,;:*_`\"'()[]…“”„‘‚«»"
_DASHES: Final = frozenset("-–—")
_BULLET: Final = re.compile(r"[-*+•–]\s+")
_WORD: Final = re.compile(r"[^\W\d_]")
_OPENING: Final = r"[\s*_`\"'(\[“„‘«]*"
_PHRASE_END: Final = (
    r"[*_`\"'”’»]*"
    r"(?:[.!?…]*[*_`\"'”’»)\]]*$|[.!?…)\]]+[\s,;]|\s*[,;(\[–—\n]|:\s|\s+-|-\s)"
)


@dataclass(frozen=True)
class Phrases:
    """The phrase lists, normalized by `normalize_phrase`."""

    open: tuple[str, ...] = ()
    alone: frozenset[str] = frozenset()
    choose: tuple[str, ...] = ()
    think: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    either: tuple[str, ...] = ()

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any] | None) -> Phrases:
        """Return the phrases that the data of `config/skillrun.yaml` lists."""
        lists = (settings or {}).get("answers") or {}
        phrases = {
            name: tuple(normalize_phrase(str(phrase)) for phrase in lists.get(name) or [])
            for name in cls.__dataclass_fields__
        }
        alone = frozenset(phrases.pop("alone"))
        return cls(alone=alone, **phrases)

    def leaves_open(self, words: str) -> bool:
        """Whether the words explicitly leave a question open: `TBD`, `?`, `don't know`, `TBD - ask Anna`."""
        return bool(self.find_open_phrase(words))

    def find_open_phrase(self, words: str) -> str:
        """Return the phrase that leaves the question open. It is all of the words, or starts them. Empty if there is no
        such phrase."""
        words = words.strip()
        for text in (words, _BULLET.sub("", words, count=1), words.rstrip("? ")):
            if words and (normalize_phrase(text) in self.alone or normalize_phrase(text) in self.open):
                return normalize_phrase(text)
            phrases = [phrase for phrase in self.open if _WORD.search(phrase)]
            if phrases and (match := _compile_phrases(tuple(phrases), _PHRASE_END, _OPENING).match(text)):
                return normalize_phrase(match["phrase"])
        return ""

    def strip_choose_phrase(self, words: str) -> str:
        """Return the words after a phrase such as `I choose`. If no phrase starts them, return all words."""
        match = _compile_phrases(self.choose, r"[\s:]+").match(words) if self.choose else None
        return words[match.end() :] if match else words

    def strip_think_phrase(self, words: str) -> str:
        """Return the words after a phrase such as `I think`. If no phrase starts them, return all words."""
        match = _compile_phrases(self.think, r"(?:[\s:]+|,\s+)").match(words) if self.think else None
        return words[match.end() :] if match else words

    def find_trailing_phrases(self, words: str) -> list[int]:
        """Return the offsets at which a trailing phrase such as `please` or `I think` starts."""
        if not self.think:
            return []
        return [match.start() for match in re.finditer(_compile_phrases(self.think, r"[\s.!]*$", r"(?<=\s)"), words)]

    def starts_with_alternative(self, words: str) -> bool:
        """Whether the words after a choice start with a word such as `or`, which makes the choice uncertain."""
        return bool(self.either) and _compile_phrases(self.either, r"(?!\w)").match(words.lstrip(" (,;")) is not None

    def split_alternatives(self, words: str) -> str:
        """Replace words such as `or` with commas, so that `A or B?` becomes a list."""
        plain = words.rstrip("? ")
        return re.sub(_compile_phrases(self.either, r"(?!\w)", r"(?<!\w)"), ",", plain) if self.either else plain

    def find_reasons(self, words: str) -> list[int]:
        """Return the offsets of words such as `because`."""
        if not self.because:
            return []
        return [match.start() for match in re.finditer(_compile_phrases(self.because, r"(?!\w)", r"(?<!\w)"), words)]


def normalize_phrase(words: str) -> str:
    """Return the text in lower case, without surrounding marks and brackets. Repeated dashes or question marks become
    one."""
    text = " ".join(words.casefold().replace("’", "'").split())
    core = text.strip(_OUTER_MARKS)
    if core and set(core) <= _DASHES:
        return "-"
    if core and set(core) == {"?"}:
        return "?"
    return core or text


def _compile_phrases(words: tuple[str, ...], suffix: str, prefix: str = "") -> re.Pattern[str]:
    longest_first = sorted(words, key=len, reverse=True)
    one_of = "|".join(r"\s+".join(re.escape(part) for part in word.split()) for word in longest_first)
    one_of = one_of.replace("'", "['’]")
    return re.compile(f"{prefix}(?P<phrase>{one_of}){suffix}", re.IGNORECASE)
