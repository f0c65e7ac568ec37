"""The glob patterns of the tools: `.gitignore` syntax with `{a,b}` alternatives."""

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

MAX_CHOICES: Final = 100  # patterns that one with `{a,b}` may expand to


def filter_names(folder: ReadableFolder, names: Iterator[str], pattern: str | None) -> Iterator[str]:
    """Yield the names that match the pattern; without a pattern, all. Raises ToolError and TimeoutError."""
    rules = parse_glob(pattern) if pattern else None
    for name in names:
        if rules is None or rules.matches(split_path(name), False, folder.check_deadline):
            yield name


def parse_glob(pattern: str) -> IgnoreRules:
    """Parse a glob pattern. Raises ToolError if it is invalid."""
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"the pattern is longer than {MAX_PATTERN} characters")
    patterns = [pattern.removeprefix("./")]
    while match := re.search(r"\{([^{}]*)\}", patterns[0]):
        choices = match[1].split(",")
        if len(patterns) * len(choices) > MAX_CHOICES:
            raise ToolError(f"{quote_value(pattern)} expands to more than {MAX_CHOICES} patterns")
        patterns = [pattern.replace(match[0], choice, 1) for pattern in patterns for choice in choices]
    try:
        return IgnoreRules(patterns, strict=True)
    except InvalidPattern:
        raise ToolError(f"{quote_value(pattern)} is not a valid pattern") from None
