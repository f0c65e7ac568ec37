"""Shapes as authors write them: their JSON Schema and the problems that are reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problems, SkillrunError
from skillrun.syntax.source import Source
from skillrun.syntax.yaml import parse_yaml
from skillrun.types.picoschema import ShapeSpec, parse_shape


def read(text: str) -> tuple[ShapeSpec | None, list[tuple[int, int, str, str]]]:
    problems = Problems()
    source = Source.of(text, "shape.yaml")
    node = parse_yaml(source, 0, len(source.text), problems)
    assert node is not None
    spec = parse_shape(node, problems)
    return spec, [(problem.line, problem.column, problem.message, problem.hint) for problem in problems]


def schema(text: str) -> dict[str, Any]:
    spec, problems = read(text)
    assert spec is not None, problems
    return spec.static_schema


def closed_object(required: list[str], **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("string", {"type": "string"}),
        ("integer", {"type": "integer"}),
        ("boolean", {"type": "boolean"}),
        ("any", {}),
        ("integer 0..100", {"type": "integer", "minimum": 0, "maximum": 100}),
        ("integer -5..5", {"type": "integer", "minimum": -5, "maximum": 5}),
        ("integer 3..3", {"type": "integer", "minimum": 3, "maximum": 3}),
        ("number 0..1", {"type": "number", "minimum": 0, "maximum": 1}),
        ("number 0.5 .. 1.5", {"type": "number", "minimum": 0.5, "maximum": 1.5}),
        ("string, what it is", {"type": "string", "description": "what it is"}),
        (
            "integer 0..4, how sure, in steps",
            {"type": "integer", "minimum": 0, "maximum": 4, "description": "how sure, in steps"},
        ),
        ("any, whatever", {"description": "whatever"}),
        ("{a: string}", closed_object(["a"], a={"type": "string"})),
    ],
)
def test_a_type_is_converted_to_json_schema(source: str, expected: dict[str, Any]) -> None:
    assert schema(f"x: {source}") == closed_object(["x"], x=expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x(array): string", {"type": "array", "items": {"type": "string"}}),
        ("x(array): string, a word", {"type": "array", "items": {"type": "string", "description": "a word"}}),
        ("x(array, all of them): string", {"type": "array", "items": {"type": "string"}, "description": "all of them"}),
        ("x(array): {y: any}", {"type": "array", "items": closed_object(["y"], y={})}),
        ("x(enum): [A, B c, '1']", {"type": "string", "enum": ["A", "B c", "1"]}),
        ("x(enum, how bad): [A]", {"type": "string", "enum": ["A"], "description": "how bad"}),
        ("x(enum): [1, 2]", {"enum": [1, 2]}),
        ("x(enum): [on, no]", {"type": "string", "enum": ["on", "no"]}),
        ("x(object): {y: any}", closed_object(["y"], y={})),
        ("x(object, what): {y: any}", {**closed_object(["y"], y={}), "description": "what"}),
    ],
)  # fmt: skip
def test_a_form_is_converted_to_json_schema(source: str, expected: dict[str, Any]) -> None:
    assert schema(source) == closed_object(["x"], x=expected)


def test_optional_fields_are_not_required_and_names_stay_as_written() -> None:
    assert schema("{a-b?: string, c?(array): string, d: any}")["required"] == ["d"]
    assert list(schema("{a-b?: string, c?(array): string, d: any}")["properties"]) == ["a-b", "c", "d"]


def test_records_can_be_nested() -> None:
    text = "findings(array):\n  title: string\n  parties(array): {member(enum): [x, y], notes?: {by: string}}\n"
    party = closed_object(
        ["member"], member={"type": "string", "enum": ["x", "y"]}, notes=closed_object(["by"], by={"type": "string"})
    )
    finding = closed_object(["title", "parties"], title={"type": "string"}, parties={"type": "array", "items": party})
    assert schema(text) == closed_object(["findings"], findings={"type": "array", "items": finding})


def test_the_callers_shape_is_named_task() -> None:
    spec, problems = read("task")
    assert spec is not None
    assert spec.is_task
    assert not problems


TEMPLATED = (
    'severity(enum): "{{ inputs.severities }}"\nwho(enum): [me, "{{ other }}"]\nwhy: "string, for {{ reader }}"\n'
)


def test_templates_keep_their_places_and_are_rendered_later() -> None:
    spec, problems = read(TEMPLATED)
    assert spec is not None
    assert not problems
    texts = [template.text for template in spec.templates]
    assert [text.value for text in texts] == ["{{ inputs.severities }}", "{{ other }}", "for {{ reader }}"]
    assert [(text.at(0).line, text.at(0).column) for text in texts] == [(1, 18), (2, 18), (3, 15)]
    assert spec.static_schema["properties"]["severity"] == {"type": "string"}
    names = {"inputs": {"severities": ["HIGH", "LOW", "HIGH"]}, "other": "you", "reader": "all"}
    fields = spec.resolve(names).schema["properties"]
    assert fields["severity"] == {"type": "string", "enum": ["HIGH", "LOW"]}
    assert fields["who"]["enum"] == ["me", "you"]
    assert fields["why"]["description"] == "for all"


def test_the_keys_of_a_mapping_can_be_the_enum_values() -> None:
    spec, _ = read('team(enum): "{{ teams }}"')
    assert spec is not None
    assert spec.resolve({"teams": {"a": 1, "b": 2}}).schema["properties"]["team"]["enum"] == ["a", "b"]


@pytest.mark.parametrize("yielded", [[], "text", None, [None], [["a"]]])
def test_a_template_without_values_is_an_error_at_its_place(yielded: Any) -> None:
    spec, _ = read('a: string\nteam(enum): "{{ teams }}"')
    assert spec is not None
    with pytest.raises(SkillrunError, match=r"^shape.yaml:2:14: the template yields no values"):
        spec.resolve({"teams": yielded})


@pytest.mark.parametrize(
    ("source", "place", "message", "hint"),
    [
        ("a: strng", (1, 4), "unknown type `strng`", "did you mean `string`?"),
        ("a: int", (1, 4), "unknown type `int`", "did you mean `integer`?"),
        ("a: path", (1, 4), "unknown type `path`", "allowed: string, integer, number, boolean, any"),
        ('a: "  strng, x"', (1, 7), "unknown type `strng`", "did you mean `string`?"),
        ('a: ", x"', (1, 5), "unknown type ``", "allowed: string, integer, number, boolean, any"),
        ("a: array", (1, 4), "unknown type `array`", "write `a(array): …`"),
        ('a: "{{ b }}"', (1, 5), "unknown type `{{`", "allowed: string"),
        ("a: integer 5..1", (1, 12), "the range `5..1` is empty", "did you mean `1..5`?"),
        ("a: integer 0-5", (1, 12), "`0-5` is not a valid range of `integer`", "write `integer 0..100`"),
        ("a: integer 1..", (1, 12), "`1..` is not a valid range of `integer`", "write `integer 0..100`"),
        ("a: integer 0.5..1", (1, 12), "`0.5..1` is not a valid range of `integer`", "`number 0..0.5`"),
        ("a: string 2..1", (1, 11), "the length `2..1` is empty, or exceeds 100,000", "as `0..8`"),
        ("a: string 0..0.5", (1, 11), "`0..0.5` is not a valid length of `string`", "as `0..8`"),
        ("a: boolean 0..1", (1, 12), "`0..1` is not a valid range of `boolean`", "put a description after a comma"),
        ("a(array 0..9999): string", (1, 3), "the length `0..9999` is empty, or exceeds 1,000", "as `0..8`"),
        ("a(array many): string", (1, 3), "`many` is not a valid length of `array`", "as `0..8`"),
        ("a(enum 0..8): [x]", (1, 3), "`0..8` is not a valid length of `enum`", "as `0..8`"),
        ("a: string text", (1, 11), "`text` is not a valid range of `string`", "put a description"),
        ("a(list): string", (1, 3), "unknown form `(list)`", "allowed: (array), (enum), (object)"),
        ("a(aray): string", (1, 3), "unknown form `(aray)`", "did you mean `array`?"),
        ("a(array)?: string", (1, 1), "`a(array)?` is not a valid field", "write `name`, `name?`"),
        ("a b: string", (1, 1), "`a b` is not a valid field", "write `name`, `name?`"),
        ("9a: string", (1, 1), "`9a` is not a valid field", "write `name`, `name?`"),
        ("a(enum): []", (1, 10), "the values of an enum must be a list", "write `[A, B]`"),
        ("a(enum): high", (1, 10), "the values of an enum must be a list", "write `[A, B]`"),
        ("a(enum): [A, true]", (1, 14), "this is not a valid enum value", "quote words"),
        ("a(enum): [A, [B]]", (1, 14), "this is not a valid enum value", ""),
        ("a: [A, B]", (1, 4), "this is not a valid type for `a`", "`name(enum): [A, B]`"),
        ("a: 5", (1, 4), "this is not a valid type for `a`", "write `name: string`"),
        ("a:\nb: string", (1, 1), "`a` has no type", ""),
        ("a: {b: string, what it is}", (1, 16), "`what it is` has no type", "needs quotes"),
        ("a(object): string", (1, 12), "this is not a valid type for `a`", ""),
        ("a: {}", (1, 4), "the shape has no fields", ""),
        ("a-b: string\na_b: string", (2, 1), "`a_b` already exists", ""),
        ("string", (1, 1), "a shape must be a mapping of names to types", "write `{answer: string}`"),
        ("[a]", (1, 1), "a shape must be a mapping of names to types", ""),
        ("x(array):\n  - a: string", (2, 3), "this is not a valid type for `x`", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_at_its_place(source: str, place: tuple[int, int], message: str, hint: str) -> None:
    spec, problems = read(source)
    assert spec is None
    assert [(line, column, text) for line, column, text, _ in problems] == [(*place, message)]
    if hint:
        assert hint in problems[0][3].replace("write `name(array)", "write `a(array)")


def test_every_mistake_in_a_shape_is_reported() -> None:
    _, problems = read("a: strng\nb: {c: 5, d: integer 2..1}\ne: string\nf(enum): []\n")
    assert [(line, column) for line, column, _, _ in problems] == [(1, 4), (2, 8), (2, 22), (4, 10)]


def flow_mapping(entries: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name!r}: {value}" for name, value in entries.items()) + "}"


KEYS = st.sampled_from(
    ["a", "b?", "c(array)", "d(enum)", "e?(object, x)", "f(list)", "g-h", "9", "i(", "?", "j(array, {{ x }})"]
)
VALUES = st.recursive(
    st.sampled_from(
        ["string", "integer 0..2", "number 1..0", "strng", "string, {{ x }}", "{{ x }}", ",", "", "task"]
    ).map(repr)
    | st.sampled_from(["1", "null", "true", "[]", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(KEYS, inner, max_size=3).map(flow_mapping)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_any_text_is_either_a_shape_or_a_problem(source: str) -> None:
    spec, problems = read(source)
    assert (spec is None) == bool(problems)
    if spec is not None:
        assert len(spec.templates) == str(spec.type).count("{{")


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("problems(array): {type: string}", "problems(array): string"),
        ("score: {type: integer}", "score: integer"),
    ],
)
def test_a_record_whose_only_field_is_named_type_is_reported(text: str, suggestion: str) -> None:
    ((_, _, message, hint),) = read(text)[1]
    assert "is a record with a field `type`" in message
    assert f"write `{suggestion}`" in hint


@pytest.mark.parametrize("text", ["it: {type: 'string, its kind'}", "it: {type: string, name: string}", "type: string"])
def test_a_field_can_be_named_type(text: str) -> None:
    assert read(text)[1] == []
