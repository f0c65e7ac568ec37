"""Reading JSON out of what a model said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.language.replies import MAX_REPLY, parse_reply
from skillrun.language.samples import sample

QUESTION = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "priority": {"type": "integer", "minimum": 1, "maximum": 5},
        "note": {"type": "string"},
    },
    "required": ["text", "priority"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": QUESTION}},
    "required": ["questions"],
    "additionalProperties": False,
}
VALUE = {"questions": [{"text": "Who pays {for} it? [x] ```", "priority": 2}]}
WRITTEN = json.dumps(VALUE)

pytestmark = pytest.mark.row("B4")


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        f"\n  {WRITTEN}\n",
        f"```json\n{WRITTEN}\n```",
        f"```\n{json.dumps(VALUE, indent=2)}\n```",
        f"Here is what you asked for:\n\n~~~~ JSON\n{WRITTEN}\n~~~~\nAnything else?",
        f"I looked at [1] and {{this}}; so: {WRITTEN} — as said in [2].",
        json.dumps(VALUE["questions"]),
        f"```json\n{json.dumps(VALUE['questions'])}\n```",
        f'{{"thinking": "first"}}\n{WRITTEN}',
        f"{{broken {WRITTEN}",
        WRITTEN.replace('"priority": 2', '"note": null, "priority": 2'),
    ],
)
def test_the_value_is_found_whatever_stands_around_it(text: str) -> None:
    assert parse_reply(text, SCHEMA) == (VALUE, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no JSON in the reply"),
        ("I would rather not.", "there is no JSON in the reply"),
        (WRITTEN[:-3], "the JSON cannot be read: Expecting ',' delimiter, line 1"),
        (WRITTEN.replace('"', "'"), "the JSON cannot be read: Expecting property name"),
        ('{"questions": NaN}', "a number in it is too long"),
        ('{"questions": ' + "9" * 5000 + "}", "a number in it is too long"),
        ("[" * 100_000, "nested too deeply"),
        ("x" * (MAX_REPLY + 1), "the reply is longer than 1,000,000 characters"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_no_value(text: str, message: str) -> None:
    value, errors = parse_reply(text, SCHEMA)
    assert value is None
    assert [error.path for error in errors] == [""]
    assert message in errors[0].message


def test_a_value_that_does_not_fit_is_given_with_its_errors() -> None:
    value, errors = parse_reply('{"questions": [{"text": "a", "priority": 9}]}', SCHEMA)
    assert value == {"questions": [{"text": "a", "priority": 9}]}
    assert [(error.path, error.message) for error in errors] == [
        ("questions[0].priority", "`priority` is `9`; allowed: 1 to 5")
    ]


def test_of_several_values_that_do_not_fit_the_longest_is_told_about() -> None:
    _, errors = parse_reply('{} and {"questions": [{"text": "long enough to count"}]} and {}', SCHEMA)
    assert [error.path for error in errors] == ["questions[0].priority"]


def test_a_bare_list_is_not_guessed_at_where_there_are_two_lists() -> None:
    lists = {name: {"type": "array", "items": {}} for name in ("a", "b")}
    value, errors = parse_reply("[1]", {"type": "object", "properties": lists})
    assert value == [1]
    assert errors


def test_an_authors_schema_may_ask_for_a_single_value_or_a_list() -> None:
    assert parse_reply(" 7 ", {"type": "integer"}) == (7, [])
    assert parse_reply('"yes"', {"enum": ["yes", "no"]}) == ("yes", [])
    assert parse_reply("So: [1, 2]", {"type": "array", "items": {"type": "integer"}}) == ([1, 2], [])


def test_characters_that_cannot_be_written_are_replaced() -> None:
    value, _ = parse_reply('{"questions": [{"text": "a\\ud800b", "priority": 1}]}', SCHEMA)
    assert value["questions"][0]["text"] == "a?b"


@pytest.mark.parametrize(
    "text", ["{" * 300_000, "[{" * 200_000, '{"a":' * 100_000, "[" * 5_000 + "]" * 5_000, '"' * 300_000]
)
def test_hostile_text_is_refused_soon(text: str) -> None:
    value, errors = parse_reply(text, SCHEMA)
    assert errors
    assert value is None or isinstance(value, dict)


AROUND = st.text(alphabet=st.characters(exclude_characters="{[", exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(AROUND, AROUND, st.text(max_size=4), st.booleans())
def test_any_text_may_stand_around_a_valid_reply(before: str, after: str, seed: str, indented: bool) -> None:
    value = sample(SCHEMA, seed)
    written = json.dumps(value, indent=2 if indented else None)
    assert parse_reply(before + written + after, SCHEMA) == (value, [])


@given(st.text(max_size=60) | JSON.map(json.dumps) | st.text(alphabet='{}[]",:1 \\u', max_size=40))
def test_nothing_is_raised_and_a_value_without_errors_fits(text: str) -> None:
    value, errors = parse_reply(text, SCHEMA)
    assert errors or set(value) == {"questions"}
    json.dumps(value, ensure_ascii=False).encode("utf-8")
