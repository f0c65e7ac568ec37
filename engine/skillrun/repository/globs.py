"""The patterns by which tools choose files: as in `.gitignore`, and `{a,b}` for either."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from skillrun.repository.gitignore import IgnoreRules
from skillrun.repository.readable_folder import ReadableFolder, split_path
from skillrun.repository.results import ToolError
from skillrun.repository.wildcards import InvalidPattern
from skillrun.scoring.patterns import MAX_PATTERN
from skillrun.types.schemas import quote_value

MAX_CHOICES: Final = 100  # patterns that one with `{a,b}` may stand for


def filter_names(folder: ReadableFolder, names: Iterator[str], pattern: str | None) -> Iterator[str]:
    """Those of the names that the pattern stands for; all of them without one. Raises Failed, and TimeoutError."""
    rules = parse_glob(pattern) if pattern else None
    for name in names:
        if rules is None or rules.matches(split_path(name), False, folder.check_deadline):
            yield name


def parse_glob(pattern: str) -> IgnoreRules:
    """What a pattern stands for. Raises Failed for what is none."""
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"the pattern is longer than {MAX_PATTERN} characters")
    patterns = [pattern.removeprefix("./")]
    while match := re.search(r"\{([^{}]*)\}", patterns[0]):
        choices = match[1].split(",")
        if len(patterns) * len(choices) > MAX_CHOICES:
            raise ToolError(f"{quote_value(pattern)} stands for more than {MAX_CHOICES} patterns")
        patterns = [pattern.replace(match[0], choice, 1) for pattern in patterns for choice in choices]
    try:
        return IgnoreRules(patterns, strict=True)
    except InvalidPattern:
        raise ToolError(f"{quote_value(pattern)} is no pattern") from None
