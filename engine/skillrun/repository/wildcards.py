"""Matches paths against `.gitignore` patterns, which consist of `*`, `?`, `[…]`, `**`, `\\`, and `/` between the parts.

Matching takes at most time proportional to the pattern's length times the path's length. This module does not access
files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

NameMatcher = Callable[[str], object]
"""Tells whether the name of a file or folder matches one part of a pattern."""

_STAR: Final = "*"
_ESCAPED: Final = r"\*"
_INNER_DOUBLE_STAR: Final = re.compile(r"([^*?\[\\]*[^*?\[\\/])\*{2,}((?:/.*)?)", re.DOTALL)
"""Matches a pattern such as `a**/b`. Git compares the text before the first wildcard separately, and then matches the
rest, `**/b`, in any folder. So the pattern matches `ab`, and a `b` anywhere below `a*`."""
_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "cntrl": "\0-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": " \t\n\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class InvalidPattern(ValueError):
    """A pattern that cannot match anything, such as one with an unclosed bracket or a final backslash."""


@dataclass(frozen=True)
class Wildcard:
    """A pattern for whole paths. Each of the `alternatives` is a list of parts, in which None matches any number of
    folders."""

    alternatives: tuple[tuple[NameMatcher | None, ...], ...]

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether the pattern matches the path that consists of `parts`."""
        for way in self.alternatives:
            last = way[-1]
            if (last is None or last(parts[-1])) and len(way) in _positions_after(way, parts):
                return True
        return False

    def may_match_below(self, parts: Sequence[str]) -> bool:
        """Whether the pattern can match a path below the folder whose path consists of `parts`."""
        return any(any(place < len(way) for place in _positions_after(way, parts)) for way in self.alternatives)


def compile_wildcard(pattern: str) -> Wildcard:
    """Compile a pattern for whole paths. A leading `/` is ignored. Raises InvalidPattern."""
    pattern = pattern.removeprefix("/")
    ways = [pattern]
    if match := _INNER_DOUBLE_STAR.fullmatch(pattern):
        start, end = match.groups()
        ways = [start + end[1:] if end else f"{start}*", f"{start}*/**{end}"]
    alternatives = []
    for way in ways:
        parts: list[NameMatcher | None] = []
        for tokens in _tokenize(way):
            if tokens != ["**"]:
                parts.append(_compile_part(tokens))
            elif not parts or parts[-1] is not None:
                parts.append(None)
        if parts[-1] is None:  # a final `**` does not match the folder itself
            parts.append(_compile_part([_STAR]))
        alternatives.append(tuple(parts))
    return Wildcard(tuple(alternatives))


def compile_name(pattern: str) -> NameMatcher:
    """Compile a pattern that matches a file's or folder's name at any depth. Raises InvalidPattern."""
    (tokens,) = _tokenize(pattern)
    return _compile_part(tokens)


def _positions_after(pattern_parts: Sequence[NameMatcher | None], parts: Iterable[str]) -> set[int]:
    """Return all possible positions in the pattern after it has matched `parts`."""
    places = _skip_folders(pattern_parts, {0})
    for part in parts:
        known = {place: pattern_parts[place] for place in places if place < len(pattern_parts)}
        reached = {place for place, fits in known.items() if fits is None}
        reached |= {place + 1 for place, fits in known.items() if fits is not None and fits(part)}
        places = _skip_folders(pattern_parts, reached)
        if not places:
            break
    return places


def _skip_folders(pattern_parts: Sequence[NameMatcher | None], places: set[int]) -> set[int]:
    return places | {place + 1 for place in places if place < len(pattern_parts) and pattern_parts[place] is None}


def _tokenize(pattern: str) -> list[list[str]]:
    """Split a pattern into parts, and each part into tokens. A token is a character, `*`, `**` (if it is the whole
    part), or a regular expression for one character."""
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "\\":
            if at == len(pattern):
                raise InvalidPattern(pattern)
            character = pattern[at]
            at += 1
            if character == "/":
                parts.append([])
            else:
                parts[-1].append(character if character != _STAR else _ESCAPED)
        elif character == "/":
            parts.append([])
        elif character == _STAR:
            start = at
            while pattern.startswith(_STAR, at):
                at += 1
            alone = not parts[-1] and (pattern[at : at + 1] in ("", "/") or pattern.startswith("\\/", at))
            parts[-1].append("**" if alone and at > start else _STAR)
        elif character == "?":
            parts[-1].append("(?:.)")
        elif character == "[":
            bracket, at = _parse_bracket(pattern, at)
            parts[-1].append(bracket)
        else:
            parts[-1].append(character)
    return parts


def _parse_bracket(pattern: str, at: int) -> tuple[str, int]:
    """Return the regular expression for a bracket, and the offset after the bracket. Raises InvalidPattern."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    pieces: list[str] = []
    before, first = "", True
    while first or pattern[at : at + 1] != "]":
        first = False
        character, at = _next_character(pattern, at)
        if character == "-" and before and pattern[at : at + 1] not in ("", "]"):
            last, at = _next_character(pattern, at, escaped=True)
            pieces.append(f"{re.escape(before)}-{re.escape(last)}" if before <= last else "")
            before = ""
        elif character == "[" and pattern[at : at + 1] == ":":
            end = pattern.find("]", at)
            if end < 0:
                raise InvalidPattern(pattern)
            if end > at + 1 and pattern[end - 1] == ":":
                if pattern[at + 1 : end - 1] not in _CLASSES:
                    raise InvalidPattern(pattern)
                pieces.append(_CLASSES[pattern[at + 1 : end - 1]])
                at, before = end + 1, ""
            else:
                pieces.append(r"\[")
                before = "["
        else:
            if character == "\\":
                character, at = _next_character(pattern, at)
            pieces.append(re.escape(character))
            before = character
    inside = "".join(pieces)
    if not inside:
        return ("(?:.)" if negated else "(?!)"), at + 1
    return f"[{'^' if negated else ''}{inside}]", at + 1


def _next_character(pattern: str, at: int, *, escaped: bool = False) -> tuple[str, int]:
    if escaped and pattern[at : at + 1] == "\\":
        at += 1
    if at >= len(pattern):
        raise InvalidPattern(pattern)
    return pattern[at], at + 1


def _compile_part(tokens: list[str]) -> NameMatcher:
    """Compile the tokens of one part. The text between two stars is matched at its first occurrence. This leaves the
    most text for the rest, so no backtracking is needed."""
    fixed: list[list[str]] = [[]]
    for token in tokens:
        if token in (_STAR, "**"):
            fixed.append([])
        else:
            fixed[-1].append(token)
    if all(token in (token[-1], _ESCAPED) for piece in fixed for token in piece):
        literal = ["".join(token[-1] for token in piece) for piece in fixed]
        if len(literal) == 1:
            return literal[0].__eq__
        if len(literal) == 2 and not literal[0]:
            return lambda name: name.endswith(literal[1])
    begin, *middle = ("".join(re.escape(t) if len(t) == 1 else t for t in piece) for piece in fixed)
    if not middle:
        return re.compile(begin, re.DOTALL).fullmatch
    inner = "".join(f"(?>.*?{piece})" for piece in middle[:-1] if piece)
    return re.compile(f"{begin}{inner}.*{middle[-1]}", re.DOTALL).fullmatch
