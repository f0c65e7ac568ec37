"""Replies that repeat the requested form instead of filling it in."""

from __future__ import annotations

from typing import Any

import pytest

from skillrun.structured_output.values import parse_reply
from skillrun.types.forms import skeleton
from skillrun.types.samples import sample
from skillrun.types.schemas import Shape

pytestmark = pytest.mark.row("N1")

TEXT: dict[str, Any] = {"type": "string"}
DECISION: dict[str, Any] = {
    "type": "object",
    "required": ["id", "decision"],
    "properties": {
        "id": TEXT,
        "decision": {"type": "string", "description": "what was decided, in one sentence"},
        "confidence": {"type": "string", "enum": ["HIGH", "LOW"]},
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["summary"],
    "properties": {
        "summary": {"type": "string", "description": "three sentences at most on what it finds"},
        "decisions": {"type": "array", "items": DECISION},
        "notes": {"type": "array", "items": {"type": "string", "description": "a risk that stays"}},
        "columns": {"type": "array", "items": {"type": "object", "properties": {"name": TEXT, "type": TEXT}}},
    },
}
SHAPE = Shape(SCHEMA)


def error_paths(**value: Any) -> list[str]:
    return [error.path for error in SHAPE.check_reply({"summary": "It works.", **value})]


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"summary": "string, three sentences at most on what it finds"}, ["summary"]),
        ({"summary": "string, three sentences at most on what,"}, ["summary"]),  # cut off at the maximum length
        ({"summary": "Three sentences at most on what it finds."}, ["summary"]),
        ({"summary": "string"}, ["summary"]),
        ({"summary": "Summary"}, ["summary"]),
        ({"notes": ["string", "the old data stays readable for a year"]}, ["notes[0]"]),
        ({"notes": ["a risk that stays"]}, ["notes[0]"]),
        ({"decisions": [{"id": "string", "decision": "string"}]}, ["decisions[0].id", "decisions[0].decision"]),
    ],
)
def test_texts_that_repeat_the_form_are_invalid(value: dict[str, Any], paths: list[str]) -> None:
    assert error_paths(**value) == paths


@pytest.mark.parametrize(
    "value",
    [
        {"summary": "The parser takes a string and gives a tree."},
        {"summary": "Three sentences were too many."},
        {"notes": ["string", "regex"]},  # words in a list, such as tags
        {"columns": [{"name": "name", "type": "string"}]},  # a field about types, and a name next to another word
        {"decisions": [{"id": "D-1", "decision": "Keep the file.", "confidence": "HIGH"}]},
    ],
)
def test_texts_that_resemble_the_form_are_valid(value: dict[str, Any]) -> None:
    assert error_paths(**value) == []


def test_a_reply_that_repeats_the_form_is_rejected_with_the_reason() -> None:
    value, errors = parse_reply(skeleton(SCHEMA).replace("?", ""), SCHEMA)
    assert value is not None
    assert "`string` repeats the form instead of filling it in" in [error.message for error in errors]


def test_only_items_that_repeat_the_form_are_dropped() -> None:
    reply = {
        "summary": "It works.",
        "decisions": [{"id": "string", "decision": "string"}, {"id": "D-1", "decision": "Keep the file."}],
        "notes": ["string"],
    }
    value, dropped = SHAPE.drop_invalid(reply)
    assert value == {"summary": "It works.", "decisions": [{"id": "D-1", "decision": "Keep the file."}], "notes": []}
    assert sorted(item.path for item in dropped) == ["decisions[0]", "notes[0]"]


def test_generated_replies_never_repeat_the_form() -> None:
    assert all(not SHAPE.check_reply(sample(SCHEMA, str(seed))) for seed in range(200))
