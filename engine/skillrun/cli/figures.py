"""How numbers and tables are written: tokens, prices, durations, columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any


def money(price: float | None) -> str:
    """Dollars; an unknown price is said to be unknown."""
    if price is None:
        return "price unknown"
    return f"${price:.2f}" if price >= 0.995 or price == 0 else f"${price:.4f}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def tokens(usage: Mapping[str, Any]) -> str:
    """Tokens in and out, with the share that came from a cache."""
    given = int(usage.get("input", 0))
    cached = round(100 * int(usage.get("cache_read", 0)) / given) if given else 0
    share = f" ({cached} % cached)" if cached else ""
    return f"{given:,} tokens in{share}, {int(usage.get('output', 0)):,} out"


def counted(number: int, what: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def spent(usage: Mapping[str, Any]) -> str:
    """`12 calls, 34,000 tokens in (60 % cached), 5,600 out, $0.42`."""
    calls = counted(int(usage.get("calls", 0)), "call")
    return f"{calls}, {tokens(usage)}, {money(usage.get('price', 0.0))}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines of a table; the columns in `right` are set flush right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return [
        "  ".join(
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
