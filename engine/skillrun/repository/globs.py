"""The patterns by which tools choose files: as in `.gitignore`, and `{a,b}` for either."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from skillrun.repository.gitignore import Rules
from skillrun.repository.readable_folder import Readable, parts_of
from skillrun.repository.results import Failed
from skillrun.repository.wildcards import NoPattern
from skillrun.scoring.patterns import MAX_PATTERN
from skillrun.types.schemas import quoted

MAX_CHOICES: Final = 100  # patterns that one with `{a,b}` may stand for


def chosen(folder: Readable, names: Iterator[str], pattern: str | None) -> Iterator[str]:
    """Those of the names that the pattern stands for; all of them without one. Raises Failed, and TimeoutError."""
    rules = glob_rules(pattern) if pattern else None
    for name in names:
        if rules is None or rules.covers(parts_of(name), False, folder.check):
            yield name


def glob_rules(pattern: str) -> Rules:
    """What a pattern stands for. Raises Failed for what is none."""
    if len(pattern) > MAX_PATTERN:
        raise Failed(f"the pattern is longer than {MAX_PATTERN} characters")
    patterns = [pattern.removeprefix("./")]
    while match := re.search(r"\{([^{}]*)\}", patterns[0]):
        choices = match[1].split(",")
        if len(patterns) * len(choices) > MAX_CHOICES:
            raise Failed(f"{quoted(pattern)} stands for more than {MAX_CHOICES} patterns")
        patterns = [pattern.replace(match[0], choice, 1) for pattern in patterns for choice in choices]
    try:
        return Rules(patterns, strict=True)
    except NoPattern:
        raise Failed(f"{quoted(pattern)} is no pattern") from None
