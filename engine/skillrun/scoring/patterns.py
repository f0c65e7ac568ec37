"""Validates regular expressions from files and models, and searches texts with them.

Uses RE2, whose search time is linear in the text for any pattern and whose memory is bounded. Unsupported syntax is
rejected with a reason. For the rationale and measurements, see docs/decisions/019-patterns.md.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

Hit = tuple[int, str]
TEXT_CAP: Final = 200_000
"""Characters of a text that are searched; the rest is ignored."""

MAX_PATTERN: Final = 500  # characters
MAX_STATES: Final = 600  # of the automaton over bytes: one for each character, class and round of a repetition
MEMORY: Final = 8 << 20  # bytes for an automaton over all characters
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_WIDE: Final = re.compile(r"[^\x00-\xff]|\\x\{[0-9a-fA-F]{3,}\}")
_UNSUPPORTED: Final = "look-around, back references, atomic groups and possessive repeats are not supported"
_REASONS: Final = {  # the beginning of RE2's message, and an explanation
    "invalid perl operator": _UNSUPPORTED,
    "invalid escape sequence": r"there are no back references, the end of the text is `\z`, and é is `\x{e9}`",
    "bad repetition operator": _UNSUPPORTED,
    "invalid repetition size": "a part may repeat at most 1,000 times, with nested repetitions multiplied",
    "pattern too large": "it repeats too much, or has too many classes of letters",
}


def find_hits(pattern: str, text: str, seconds: float, *, ignore_case: bool = True) -> list[Hit]:
    """Return offset and text of each non-empty match in the first TEXT_CAP characters.

    Raises ValueError for an invalid pattern, and TimeoutError if the search takes longer than `seconds` of this
    thread's CPU time.
    """
    until = time.thread_time() + seconds
    occurrences = []
    for hit in _compile(pattern, ignore_case).finditer(_replace_surrogates(text[:TEXT_CAP])):
        if hit.group():
            occurrences.append((hit.start(), hit.group()))
        if time.thread_time() > until:
            raise TimeoutError
    return occurrences


def find_lines(pattern: str, lines: Iterable[str], seconds: float) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line whose first TEXT_CAP characters match the pattern; case matters.

    Raises ValueError for an invalid pattern, and TimeoutError when `seconds` have passed.
    """
    compiled, until = _compile(pattern, False), time.monotonic() + seconds
    for number, line in enumerate(lines, 1):
        if time.monotonic() > until:
            raise TimeoutError
        if compiled.search(_replace_surrogates(line[:TEXT_CAP])):
            yield number, line


def occurs(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text; case matters. Raises ValueError for an invalid pattern."""
    return bool(_compile(pattern, False).search(_replace_surrogates(text)))


def distinct_words(hits: Iterable[Hit]) -> list[str]:
    """Return the distinct texts of hits by position; of those that differ only in case, the first."""
    words: dict[str, str] = {}
    for _, hit in sorted(hits):
        words.setdefault(hit.casefold(), hit)
    return list(words.values())


def rejection_reason(pattern: str) -> str | None:
    """Return why a regular expression is rejected; None if it is valid."""
    try:
        _compile(pattern, True)
    except ValueError as error:
        return str(error)
    return None


@lru_cache(maxsize=512)
def _compile(pattern: str, ignore_case: bool) -> Any:
    """Return the compiled RE2 pattern. Raises ValueError with the reason if it is rejected."""
    quoted = _replace_surrogates(pattern if len(pattern) <= 60 else f"{pattern[:60]}…")
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern `{quoted}` is longer than {MAX_PATTERN} characters")
    import re2

    re2_pattern = _translate_pattern(_replace_surrogates(pattern))
    try:
        compiled = re2.compile(re2_pattern, _options(re2, ignore_case))
    except re2.error as error:
        reason = error.args[0]
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        reason = reason.removesuffix(f": {re2_pattern}")
        explanation = next((explanation for words, explanation in _REASONS.items() if reason.startswith(words)), "")
        raise ValueError(
            f"`{quoted}` is not a regular expression: {reason}{f'; {explanation}' if explanation else ''}"
        ) from None
    # without counted repeats the length limit is sufficient
    if "{" in pattern and _states(re2, pattern, compiled.programsize) > MAX_STATES:
        message = f"`{quoted}` expands to more than {MAX_STATES} characters, classes and rounds of repetitions"
        raise ValueError(f"{message}; repeat less, or split it into two patterns")
    return compiled


def _states(re2: Any, pattern: str, otherwise: int) -> int:
    """Return the size of the automaton over bytes, in which a class of letters counts once."""
    narrow = _WIDE.sub("\xff", pattern).encode("latin-1")
    try:
        return int(re2.compile(narrow, _options(re2, True, latin=True)).programsize)
    except re2.error:  # a range that is invalid in bytes
        return otherwise


def _options(re2: Any, ignore_case: bool, *, latin: bool = False) -> Any:
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.never_capture = True  # only the whole match is used, and groups are slower
    options.log_errors = False
    options.max_mem = MEMORY
    if latin:
        options.encoding = re2.Options.Encoding.LATIN1
    return options


def _replace_surrogates(text: str) -> str:
    """Replace surrogates, which RE2 cannot search; the length stays the same."""
    return text if text.isascii() else _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def _translate_pattern(pattern: str) -> str:
    """Translate `\\w`, which is ASCII only in RE2, to the letters and digits of every script.

    Raises ValueError for what cannot be translated: `\\b` next to a letter outside ASCII, `\\W` inside brackets.
    """
    parts: list[str] = []
    in_brackets = False
    at = 0
    while at < len(pattern):
        piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        if piece == "\\Q":  # literal up to `\E`
            end = pattern.find("\\E", at)
            piece = pattern[at : end + 2 if end >= 0 else None]
        elif piece == "\\b" and not in_brackets and (letter := _adjacent_non_ascii(pattern, at)):
            message = f"`\\b` next to `{letter}` is not supported: it only knows the letters a to z, digits and `_`"
            raise ValueError(f"`{pattern}`: {message}; write `(?:^|\\W)` before, `(?:\\W|$)` after")
        elif piece == "\\W" and in_brackets:
            raise ValueError(f"`{pattern}`: `\\W` is not supported inside brackets")
        parts.append(_WORDS.get((piece, in_brackets), piece))
        if piece == "[" and not in_brackets:
            in_brackets = True
            if pattern[at + 1 : at + 2] == "^":
                piece = "[^"
                parts[-1] = piece
            if pattern[at + len(piece) : at + len(piece) + 1] == "]":  # a first `]` is a member of the class
                parts.append("]")
                at += 1
        elif piece == "]":
            in_brackets = False
        at += len(piece)
    return "".join(parts)


_WORDS: Final = {
    ("\\w", False): r"[\pL\pM\pN_]",
    ("\\w", True): r"\pL\pM\pN_",
    ("\\W", False): r"[^\pL\pM\pN_]",
}


def _adjacent_non_ascii(pattern: str, at: int) -> str:
    """Return the letter outside ASCII before or after the `\\b` at an offset, if there is one."""
    beside = (pattern[at - 1 : at], pattern[at + 2 : at + 3])
    return next((sign for sign in beside if sign and not sign.isascii() and sign.isalnum()), "")
