"""Formatting of numbers, values, tables and events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.cli.formatting import (
    count_noun,
    format_columns,
    format_duration,
    format_event,
    format_price,
    format_table,
    format_usage,
    yaml_line,
)


@pytest.mark.parametrize(
    ("price", "shown"),
    [
        (None, "price unknown"),
        (0.0, "$0.00"),
        (0.0042, "$0.0042"),
        (0.42, "$0.4200"),
        (1.0, "$1.00"),
        (12.345, "$12.35"),
    ],
)
def test_a_price_is_shown_in_dollars_and_an_unknown_one_as_unknown(price: float | None, shown: str) -> None:
    assert format_price(price) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (61, "1 min 01 s"), (3599.9, "1 h 00 min"), (7260, "2 h 01 min")],
)
def test_a_duration_is_shown_in_a_suitable_unit(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


def test_usage_is_one_line_with_the_cached_share_of_the_input() -> None:
    usage = {"calls": 1, "input": 10, "output": 5, "cache_read": 0, "price": None}
    assert format_usage(usage) == "1 call, 10 tokens in, 5 out, price unknown"
    cached = {"calls": 2, "input": 2000, "output": 300, "cache_read": 1500, "price": 1.0}
    assert format_usage(cached) == "2 calls, 2,000 tokens in (75 % cached), 300 out, $1.00"
    assert count_noun(2, "error") == "2 errors"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (False, "false"),
        (None, "null"),
        (1.5, "1.5"),
        ("a: b", "a: b"),
        (["a", True], "[a, true]"),
        ({"a": ["b"]}, "{a: [b]}"),
        ([], "[]"),
    ],
)
def test_a_value_is_shown_as_yaml(value: object, text: str) -> None:
    assert yaml_line(value) == text


def test_names_and_descriptions_fit_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = format_columns(
        [("test-strategy", "after spec, design; reads " + "architecture, " * 9), ("b", "c")]
    ).splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[-1].split() == ["b", "c"]


@pytest.mark.slow
@given(st.lists(st.lists(st.text(st.characters(categories=["L", "N"])), min_size=3, max_size=3), max_size=5))
def test_the_columns_of_a_table_are_aligned(rows: list[list[str]]) -> None:
    lines = format_table(["a", "b", "c"], rows, right=(1,))
    assert len(lines) == len(rows) + 1
    widths = {len(line) for line in format_table(["a", "b", "c"], [[*row[:2], "x"] for row in rows], right=(1,))}
    assert len(widths) == 1


LINES = st.text(alphabet=st.sampled_from("ab\n\r\u2028\u2029\x85\x0b\x0c\x1b[m \u202e") | st.characters())
EVENTS = st.sampled_from(["Notice", "Said", "Asked", "Answered", "Pruned", "PhaseEnded", "CallEnded", "RunEnded"])


@pytest.mark.row("Z4")
@pytest.mark.finding("FZ13")
@given(EVENTS, LINES)
def test_all_lines_of_an_event_after_the_first_are_indented(name: str, text: str) -> None:
    question = {"id": "q", "text": text, "answer": text}
    event = {
        "event": name, "phase": "p", "address": "run/p/q", "text": text, "level": "warn", "questions": [question],
        "answers": [question], "replayed": False, "status": "failed", "seconds": 0, "final": False, "reason": text,
        "member": "m",
        "error": text, "computed": True,
    }  # fmt: skip
    first, *rest = format_event(event).splitlines() or [""]
    assert name == "Notice" or first.startswith(("p: ", "failed")) or not first
    assert all(line.startswith("    ") for line in rest)
