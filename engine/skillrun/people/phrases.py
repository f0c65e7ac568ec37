"""How people write answers, as `answers` in `config/skillrun.yaml` lists it. Owns no words itself.

What leaves a question open, what may stand in front of a choice, and between a choice and words about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_AROUND: Final = " .!,;:*_`\"'()[]…“”„‘‚«»"
_DASHES: Final = frozenset("-–—")
_BULLET: Final = re.compile(r"[-*+•–]\s+")


@dataclass(frozen=True)
class Phrases:
    """The lists, each word in the form that `bare` gives."""

    open: frozenset[str] = frozenset()
    choose: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    either: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None) -> Phrases:
        """The phrases of `config/skillrun.yaml`, read as plain data."""
        lists = (settings or {}).get("answers") or {}
        found = {name: [bare(str(one)) for one in lists.get(name) or []] for name in cls.__dataclass_fields__}
        return cls(frozenset(found["open"]), *(tuple(found[name]) for name in ("choose", "because", "either")))

    def leaves_open(self, words: str) -> bool:
        """Whether the words are no answer, and say so: `TBD`, `?`, `don't know`."""
        forms = {bare(words), bare(_BULLET.sub("", words.strip(), count=1)), bare(words.rstrip("? "))}
        return bool(words.strip()) and bool(self.open & forms)

    def chosen(self, words: str) -> str:
        """The words behind `I choose` and the like; all of them where they begin otherwise."""
        found = _pattern(self.choose, r"[\s:]+").match(words) if self.choose else None
        return words[found.end() :] if found else words

    def doubts(self, words: str) -> bool:
        """Whether words behind a choice take it back: they begin with `or` and the like."""
        return bool(self.either) and _pattern(self.either, r"(?!\w)").match(words.lstrip(" (,;")) is not None

    def parted(self, words: str) -> str:
        """Words such as `A or B?` with commas where a doubt is; the same words where there is none."""
        plain = words.rstrip("? ")
        return re.sub(_pattern(self.either, r"(?!\w)", r"(?<!\w)"), ",", plain) if self.either else plain

    def reasons(self, words: str) -> list[int]:
        """Where words such as `because` begin."""
        if not self.because:
            return []
        return [found.start() for found in re.finditer(_pattern(self.because, r"(?!\w)", r"(?<!\w)"), words)]


def bare(words: str) -> str:
    """A text without case, marks and brackets around it, and of several dashes or question marks one."""
    text = " ".join(words.casefold().replace("’", "'").split())
    core = text.strip(_AROUND)
    if core and set(core) <= _DASHES:
        return "-"
    if core and set(core) == {"?"}:
        return "?"
    return core or text


def _pattern(words: tuple[str, ...], behind: str, before: str = "") -> re.Pattern[str]:
    one_of = "|".join(r"\s+".join(re.escape(part) for part in word.split()) for word in words)
    return re.compile(f"{before}(?:{one_of}){behind}".replace("'", "['’]"), re.IGNORECASE)
