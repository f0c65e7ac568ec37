"""How people write answers, as `answers` in `config/skillrun.yaml` lists it. Owns no words itself.

What leaves a question open, what may stand in front of a choice and behind it, and between it and words about it.
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
    """The lists, each word in the form that `bare` gives."""

    open: tuple[str, ...] = ()
    alone: frozenset[str] = frozenset()
    choose: tuple[str, ...] = ()
    think: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    either: tuple[str, ...] = ()

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any] | None) -> Phrases:
        """The phrases of `config/skillrun.yaml`, read as plain data."""
        lists = (settings or {}).get("answers") or {}
        phrases = {
            name: tuple(normalize_phrase(str(phrase)) for phrase in lists.get(name) or [])
            for name in cls.__dataclass_fields__
        }
        alone = frozenset(phrases.pop("alone"))
        return cls(alone=alone, **phrases)

    def leaves_open(self, words: str) -> bool:
        """Whether the words are no answer, and say so: `TBD`, `?`, `don't know`, `TBD - ask Anna`."""
        return bool(self.find_open_phrase(words))

    def find_open_phrase(self, words: str) -> str:
        """The phrase which says that the words are no answer: all of them, or what they begin with; else empty."""
        words = words.strip()
        for text in (words, _BULLET.sub("", words, count=1), words.rstrip("? ")):
            if words and (normalize_phrase(text) in self.alone or normalize_phrase(text) in self.open):
                return normalize_phrase(text)
            phrases = [phrase for phrase in self.open if _WORD.search(phrase)]
            if phrases and (match := _compile_phrases(tuple(phrases), _PHRASE_END, _OPENING).match(text)):
                return normalize_phrase(match["phrase"])
        return ""

    def strip_choose_phrase(self, words: str) -> str:
        """The words behind `I choose` and the like; all of them where they begin otherwise."""
        match = _compile_phrases(self.choose, r"[\s:]+").match(words) if self.choose else None
        return words[match.end() :] if match else words

    def strip_think_phrase(self, words: str) -> str:
        """The words behind `I think` and the like; all of them where they begin otherwise."""
        match = _compile_phrases(self.think, r"(?:[\s:]+|,\s+)").match(words) if self.think else None
        return words[match.end() :] if match else words

    def find_trailing_phrases(self, words: str) -> list[int]:
        """Where words such as `please` or `I think` end what is said."""
        if not self.think:
            return []
        return [match.start() for match in re.finditer(_compile_phrases(self.think, r"[\s.!]*$", r"(?<=\s)"), words)]

    def starts_with_alternative(self, words: str) -> bool:
        """Whether words behind a choice take it back: they begin with `or` and the like."""
        return bool(self.either) and _compile_phrases(self.either, r"(?!\w)").match(words.lstrip(" (,;")) is not None

    def split_alternatives(self, words: str) -> str:
        """Words such as `A or B?` with commas where a doubt is; the same words where there is none."""
        plain = words.rstrip("? ")
        return re.sub(_compile_phrases(self.either, r"(?!\w)", r"(?<!\w)"), ",", plain) if self.either else plain

    def find_reasons(self, words: str) -> list[int]:
        """Where words such as `because` begin."""
        if not self.because:
            return []
        return [match.start() for match in re.finditer(_compile_phrases(self.because, r"(?!\w)", r"(?<!\w)"), words)]


def normalize_phrase(words: str) -> str:
    """A text without case, marks and brackets around it, and of several dashes or question marks one."""
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
