"""Validates regular expressions from files and models, and searches texts with them.

The engine is RE2. Its search time is linear in the length of the text for any pattern, and its memory is bounded.
Syntax that RE2 does not support is rejected with a reason. docs/decisions/019-patterns.md contains the rationale and
measurements.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

Hit = tuple[int, str]
TEXT_CAP: Final = 200_000
"""The number of characters of a text that are searched. The rest of the text is ignored."""

MAX_PATTERN: Final = 500  # characters
MAX_STATES: Final = 600  # states of the automaton over bytes: one per character, class and repetition
MEMORY: Final = 8 << 20  # bytes for the automaton over all characters
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_WIDE: Final = re.compile(r"[^\x00-\xff]|\\x\{[0-9a-fA-F]{3,}\}")
_UNSUPPORTED: Final = "look-around, back references, atomic groups and possessive repeats are not supported"
_REASONS: Final = {  # explanations, keyed by the beginning of RE2's message
    "invalid perl operator": _UNSUPPORTED,
    "invalid escape sequence": r"back references are not supported; write `\z` for the end of a text, `\x{e9}` for é",
    "bad repetition operator": _UNSUPPORTED,
    "invalid repetition size": "a part may repeat at most 1,000 times, and nested repetitions multiply",
    "pattern too large": "it has too many repetitions or classes of letters",
}


def find_hits(pattern: str, text: str, seconds: float, *, ignore_case: bool = True) -> list[Hit]:
    """Return the offset and the text of each non-empty match in the first TEXT_CAP characters.

    Raises ValueError for an invalid pattern, and TimeoutError if the search takes more than `seconds` of CPU time in
    this thread.
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
    """Yield the number and the text of each line in which the first TEXT_CAP characters contain a match. Case matters.

    Raises ValueError for an invalid pattern, and TimeoutError when `seconds` have passed.
    """
    compiled, until = _compile(pattern, False), time.monotonic() + seconds
    for number, line in enumerate(lines, 1):
        if time.monotonic() > until:
            raise TimeoutError
        if compiled.search(_replace_surrogates(line[:TEXT_CAP])):
            yield number, line


def occurs(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text. Case matters. Raises ValueError for an invalid pattern."""
    return bool(_compile(pattern, False).search(_replace_surrogates(text)))


def distinct_words(hits: Iterable[Hit]) -> list[str]:
    """Return the distinct texts of hits, ordered by position. Of texts that differ only in case, keep the first."""
    words: dict[str, str] = {}
    for _, hit in sorted(hits):
        words.setdefault(hit.casefold(), hit)
    return list(words.values())


def rejection_reason(pattern: str) -> str | None:
    """Return why a regular expression is rejected, or None if it is valid."""
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
    # in a pattern without counted repetitions, MAX_PATTERN limits the states as well
    if "{" in pattern and _states(re2, pattern, compiled.programsize) > MAX_STATES:
        message = f"`{quoted}` has more than {MAX_STATES} characters and classes after its repetitions are expanded"
        raise ValueError(f"{message}; use fewer repetitions, or split the pattern in two")
    return compiled


def _states(re2: Any, pattern: str, otherwise: int) -> int:
    """Return the number of states of the automaton over bytes, in which a class of letters counts as one state.

    If the pattern is invalid over bytes, return `otherwise`.
    """
    narrow = _WIDE.sub("\xff", pattern).encode("latin-1")
    try:
        return int(re2.compile(narrow, _options(re2, True, latin=True)).programsize)
    except re2.error:  # for example, a range of characters may be invalid over bytes
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
    """Return the text with surrogates replaced, because RE2 cannot search them. The length stays the same."""
    return text if text.isascii() else _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def _translate_pattern(pattern: str) -> str:
    """Return the pattern with `\\w` and `\\W` translated, so that they apply to the letters and digits of every script.

    In RE2, `\\w` and `\\W` apply only to ASCII. Raises ValueError for `\\b` next to a letter outside ASCII and for
    `\\W` inside brackets, which cannot be translated.
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
            message = f"`\\b` next to `{letter}` is not supported; `\\b` knows only the letters a to z, digits and `_`"
            raise ValueError(f"`{pattern}`: {message}; write `(?:^|\\W)` before a word, and `(?:\\W|$)` after it")
        elif piece == "\\W" and in_brackets:
            raise ValueError(f"`{pattern}`: `\\W` is not supported inside brackets")
        parts.append(_WORDS.get((piece, in_brackets), piece))
        if piece == "[" and not in_brackets:
            in_brackets = True
            if pattern.startswith("^", at + 1):
                piece = parts[-1] = "[^"
            if pattern.startswith("]", at + len(piece)):  # a `]` right after the opening bracket belongs to the class
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
    """Return the non-ASCII letter right before or after the `\\b` at an offset, or else ""."""
    beside = (pattern[at - 1 : at], pattern[at + 2 : at + 3])
    return next((sign for sign in beside if sign and not sign.isascii() and sign.isalnum()), "")
