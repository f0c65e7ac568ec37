"""Prompts show a JSON request in a readable form."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.store.frontmatter import format_json_text

ISSUE = {
    "number": 12,
    "title": "Login: fails",
    "body": "Steps: \r\n\r\n1. open\r\n2. type\r\n",
    "comments": [{"author": {"login": "ann"}, "body": "No.\n\nReally not."}],
    "labels": [],
}


def test_json_is_laid_out_line_by_line() -> None:
    assert format_json_text(json.dumps(ISSUE)) == (
        "number: 12\ntitle: 'Login: fails'\nbody: |-\n  Steps:\n\n  1. open\n  2. type\n"
        "comments:\n- author:\n    login: ann\n  body: |-\n    No.\n\n    Really not.\nlabels: []"
    )


def test_what_is_no_json_or_no_record_stays_as_it_is() -> None:
    for text in (
        "",
        "a",
        "12",
        '"a"',
        "{",
        "{a: b}",
        "[1, 2",
        "{} and more",
        "[" * 100_000,
        '{"a": 1' + "0" * 5000 + "}",
    ):
        assert format_json_text(text) == text


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_readable(value: object) -> None:
    text = format_json_text(json.dumps(value))
    assert text.strip() or not isinstance(value, (dict, list))


@pytest.mark.row("P4")
def test_a_hostile_run_of_blanks_takes_no_longer_than_other_text() -> None:
    blanks = "a" + " \t" * 100_000 + "b"
    assert blanks in format_json_text(json.dumps({"body": f"{blanks}  \nc \t\n"})).encode().decode("unicode_escape")


def test_a_field_that_stands_twice_is_not_left_out() -> None:
    text = '{"title": "one", "title": "two"}'
    assert format_json_text(text) == text
