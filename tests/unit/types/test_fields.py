"""Values for declared fields: from the command line, from YAML, from templates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Source
from skillrun.syntax.yaml import parse_yaml
from skillrun.types.fields import MEMBER, CoercedValue, Field, coerce, parse_fields
from skillrun.types.slugs import ASCII_SLUG


def field(text: str) -> Field:
    problems = Problems()
    source = Source.of(text)
    node = parse_yaml(source, 0, len(source.text), problems)
    assert node is not None
    (parsed,) = parse_fields(node, problems)
    assert not problems.has_errors
    return parsed


@pytest.mark.parametrize(
    ("declaration", "value", "expected"),
    [
        ("a: string", "5", "5"),
        ("a: integer 1..10", "7", 7),
        ("a: integer", "-7", -7),
        ("a: integer", 7, 7),
        ("a: number", "0.5", 0.5),
        ("a: number", "1e3", 1000.0),
        ("a: number", "3", 3),
        ("a: boolean", "true", True),
        ("a: boolean", "No", False),
        ("a: boolean", True, True),
        ("a(enum): [rapid, '2', 3]", "rapid", "rapid"),
        ("a(enum): [rapid, 3]", "3", 3),
        ("a: path", "./x y.md", "./x y.md"),
        ("a: slug", "my-feature", "my-feature"),
        ("a: model", "latest Claude Opus", "latest Claude Opus"),
        ("a: member", "architect:clean@openai:gpt-5", "architect:clean@openai:gpt-5"),
        ("a(array): string", "x, y,z", ["x", "y", "z"]),
        ("a(array): string", "", []),
        ("a(array): integer", ["1", 2], [1, 2]),
        ("a(array): integer", (), []),
        ("a(array): {shape: {b: integer}}", '[{"b": 1}]', [{"b": 1}]),
        ("a: {shape: {b: integer}}", {"b": 1}, {"b": 1}),
    ],
)
def test_a_value_is_coerced_to_the_type_of_its_field(declaration: str, value: Any, expected: Any) -> None:
    got = coerce(field(declaration), value)
    assert got == CoercedValue(expected)
    assert type(got.value) is type(expected)


@pytest.mark.row("B1")
@pytest.mark.parametrize(
    ("declaration", "value", "error"),
    [
        ("rounds: integer 1..10", "12", "`rounds` is `12`; expected a whole number from 1 to 10"),
        ("rounds: integer 1..10", "0", "`rounds` is `0`; expected a whole number from 1 to 10"),
        ("rounds: integer 1..10", "two", "`rounds` is `two`; expected a whole number from 1 to 10"),
        ("n: integer", "1.5", "`n` is `1.5`; expected a whole number"),
        ("n: integer", True, "`n` is `true`; expected a whole number"),
        ("n: number", "nan", "`n` is `nan`; expected a number"),
        ("n: number", "1e999", "`n` is `1e999`; expected a number"),
        ("a: boolean", "maybe", "`a` is `maybe`; allowed: true, false"),
        ("a: boolean", 1, "`a` is `1`; allowed: true, false"),
        ("a(enum): [rapid, complete]", "rapit", "`a` is `rapit`; did you mean `rapid`? allowed: rapid, complete"),
        ("a(enum): [rapid]", "zzz", "`a` is `zzz`; allowed: rapid"),
        ("a: string", 5, "`a` is `5`; expected text"),
        ("a: string", None, "`a` is `null`; expected text"),
        ("a: path", "", "`a` is ``; expected a path"),
        ("a: path", "x\0y", "expected a path"),
        ("a: member", ":x", "expected a member: role, role:variant, role@model or role:variant@model"),
        ("a(array): integer", ["1", "x", "y"], "`a[1]` is `x`; expected a whole number; `a[2]` is `y`"),
        ("a(array): integer", 5, "`a` is `5`; expected a list"),
        ("a(array): {shape: {b: integer}}", "[{", "`a` is `[{`; expected JSON"),
        (
            "a(array): {shape: {b: integer}}",
            [{"b": 1}, {"b": "x"}],
            '`a[1]` is `{"b": "x"}`; b: `b` is `x`; expected a whole number',
        ),
        ("a: {shape: {b: integer}}", "[1]", "`a` is `[1]`; the value is `[1]`; expected an object"),
    ],
)
def test_an_error_names_the_value_and_the_allowed_values(declaration: str, value: Any, error: str) -> None:
    got = coerce(field(declaration), value)
    assert got.value is None
    assert error in got.error


@pytest.mark.row("P8")
def test_an_unknown_value_is_replaced_by_the_fallback_with_a_warning() -> None:
    preset = field('preset: {type: enum, values: "{{ presets }}", default: balanced, fallback: balanced}')
    names: dict[str, Any] = {"presets": {"balanced": {}, "rapid_prototype": {}}}
    assert coerce(preset, "rapid_prototype", names) == CoercedValue("rapid_prototype")
    got = coerce(preset, "large", names)
    assert got.value == "balanced"
    assert got.warnings == ("`preset` is `large`; allowed: balanced, rapid_prototype; `balanced` is used",)


def test_an_item_of_a_list_is_replaced_by_the_fallback() -> None:
    got = coerce(field("a(array): {type: enum, values: [x, y], fallback: y}"), ["x", "z"])
    assert got.value == ["x", "y"]
    assert len(got.warnings) == 1


def test_a_fallback_that_is_itself_unknown_is_an_error() -> None:
    preset = field('preset: {type: enum, values: "{{ presets }}", fallback: balanced}')
    assert coerce(preset, "balanced", {"presets": ["a"]}).error == "`preset` is `balanced`; allowed: a"


def test_values_from_a_template_are_not_checked_without_its_names() -> None:
    assert coerce(field('a: {type: enum, values: "{{ x }}"}'), "anything") == CoercedValue("anything")


@pytest.mark.row("B12")
@given(st.text(alphabet="abz09-_A ./\n\0é", max_size=70))
def test_slugs_follow_the_documented_rule(text: str) -> None:
    lower = "abcdefghijklmnopqrstuvwxyz0123456789"
    is_slug = 1 <= len(text) <= 64 and text[0] in lower and all(character in lower + "-" for character in text)
    assert bool(ASCII_SLUG.fullmatch(text)) == is_slug
    assert (coerce(field("a: slug"), text).error == "") == is_slug


@pytest.mark.parametrize("name", ["judge", "judge:risk", "judge@fast", "a:b@openai:gpt-5", "a@latest Claude Opus"])
def test_valid_members_match(name: str) -> None:
    assert MEMBER.fullmatch(name)


@pytest.mark.parametrize("name", ["", ":", "a:", "a@", "@x", "a b", "a:b:c", "a@ x", "a/b"])
def test_invalid_members_do_not_match(name: str) -> None:
    assert not MEMBER.fullmatch(name)


DECLARATIONS = [
    "a: string",
    "a: integer 0..5",
    "a: number",
    "a: boolean",
    "a: slug",
    "a: member",
    "a(enum): [x, 1]",
    "a(array): integer",
    "a(array): path",
    "a: {shape: {b?: integer}}",
    "a(array): {shape: {b: string}}",
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(DECLARATIONS), ANYTHING)
def test_any_value_is_coerced_or_rejected_and_coercion_is_idempotent(declaration: str, value: Any) -> None:
    got = coerce(field(declaration), value)
    if got.error:
        assert got.value is None
    else:
        assert coerce(field(declaration), got.value) == got
