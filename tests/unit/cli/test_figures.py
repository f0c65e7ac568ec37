"""Numbers and tables as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.cli.figures import counted, duration, money, spent, table, tokens


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
    assert money(price) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (61, "1 min 01 s"), (3599.9, "1 h 00 min"), (7260, "2 h 01 min")],
)
def test_a_duration_is_shown_in_the_unit_that_fits(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_the_cached_share_is_that_of_the_input_tokens() -> None:
    assert tokens({"input": 2000, "output": 300, "cache_read": 1500}) == "2,000 tokens in (75 % cached), 300 out"
    assert tokens({}) == "0 tokens in, 0 out"


def test_what_was_spent_is_one_line() -> None:
    usage = {"calls": 1, "input": 10, "output": 5, "cache_read": 0, "price": None}
    assert spent(usage) == "1 call, 10 tokens in, 5 out, price unknown"
    assert counted(2, "error") == "2 errors"


@given(st.lists(st.lists(st.text(st.characters(categories=["L", "N"])), min_size=3, max_size=3), max_size=5))
def test_the_columns_of_a_table_stand_under_each_other(rows: list[list[str]]) -> None:
    lines = table(["a", "b", "c"], rows, right=(1,))
    assert len(lines) == len(rows) + 1
    ends = {len(line) for line in table(["a", "b", "c"], [[*row[:2], "x"] for row in rows], right=(1,))}
    assert len(ends) == 1
