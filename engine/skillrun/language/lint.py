"""Token lint: files that have grown too large to be good prompts. Thresholds come from `config/skillrun.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from skillrun.collaboration.compaction import estimate_tokens
from skillrun.language.diagnostics import Problems, Severity
from skillrun.language.library import Library
from skillrun.language.source import Span

SEVERITIES: Final[Mapping[str, Severity]] = {"error": "error", "warn": "warning"}


def check_sizes(library: Library, limits: Mapping[str, Any], problems: Problems) -> None:
    """Report each loaded file whose estimated tokens pass the `warn` or `error` of its folder."""
    for (_, path), source in library.files.items():
        folder = path.partition("/")[0]
        limit = limits.get(folder)
        given = ((name, limit.get(name)) for name in SEVERITIES) if isinstance(limit, dict) else ()
        known = {name: most for name, most in given if isinstance(most, int)}
        if not known or len(source.text) < min(known.values()):  # no token is shorter than a character
            continue
        tokens = estimate_tokens(source.text)
        passed = next((name for name, most in known.items() if tokens > most), None)
        if passed is not None:
            message = f"about {tokens} tokens; one of the {folder} has at most {known[passed]}"
            problems.report(Span(source, 0), "tokens", message, "split it, or raise `token_lint`", SEVERITIES[passed])
