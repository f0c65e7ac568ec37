"""Token lint: files that have grown too large to be good prompts. Thresholds come from `config/skillrun.yaml`."""

from collections.abc import Mapping
from typing import Any

from skillrun.collaboration.compaction import estimate_tokens
from skillrun.language.diagnostics import Problems
from skillrun.language.library import Library
from skillrun.language.source import Source, Span


def check_sizes(library: Library, engine: Mapping[str, Any], problems: Problems) -> None:
    """Report each loaded file whose estimated tokens pass `token_lint.<folder>.warn` or `.error`."""
    limits = engine.get("token_lint") or {}
    for (_, path), source in library.files.items():
        folder = path.partition("/")[0]
        if isinstance(limits.get(folder), Mapping):
            _check(source, folder, limits[folder], problems)


def _check(source: Source, folder: str, limit: Mapping[str, Any], problems: Problems) -> None:
    warn, error = limit.get("warn"), limit.get("error")
    least = min((n for n in (warn, error) if isinstance(n, int)), default=None)
    if least is None or len(source.text) < least:  # no token is shorter than a character
        return
    tokens = estimate_tokens(source.text)
    span = Span(source, 0)
    if isinstance(error, int) and tokens > error:
        message = f"about {tokens} tokens; {folder} may have {error}"
        problems.report(span, "tokens", message, "split the file, or raise `token_lint`")
    elif isinstance(warn, int) and tokens > warn:
        message = f"about {tokens} tokens; {folder} should have at most {warn}"
        problems.report(span, "tokens", message, "split the file", severity="warning")
