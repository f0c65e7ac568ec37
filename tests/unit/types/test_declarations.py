"""Declarations of inputs and state."""

from __future__ import annotations

from typing import Any

import pytest

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Source
from skillrun.syntax.yaml import parse_yaml
from skillrun.templates.expressions import Template
from skillrun.types.fields import Field, parse_fields
from skillrun.types.json_schema import to_json_schema


def read(text: str) -> tuple[tuple[Field, ...], list[tuple[int, int, str, str]]]:
    problems = Problems()
    source = Source.of(text, "workflow.md")
    node = parse_yaml(source, 0, len(source.text), problems)
    assert node is not None
    fields = parse_fields(node, problems)
    return fields, [(problem.line, problem.column, problem.message, problem.hint) for problem in problems]


def parse_one(text: str) -> Field:
    (field,), problems = read(text)
    assert not problems
    return field


def facts(field: Field) -> dict[str, Any]:
    values = {name: getattr(field, name) for name in ("name", "required", "is_list", "fallback", "description")}
    values |= {name: getattr(field.item, name) for name in ("values", "bounds")} | {"type": field.item.word}
    empty = {"is_list": False, "values": None, "bounds": None, "fallback": None, "description": ""}
    return {name: value for name, value in values.items() if value != empty.get(name, ...)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "request: string, the feature; kept word for word",
            {"name": "request", "required": True, "type": "string", "description": "the feature; kept word for word"},
        ),
        ("repo?: path", {"name": "repo", "required": False, "type": "path"}),
        ("from-brainstorm?: slug", {"name": "from-brainstorm", "required": False, "type": "slug"}),
        ("n: integer 1..10", {"name": "n", "required": True, "type": "integer", "bounds": (1, 10)}),
        (
            "n: {type: integer 1..10, default: 2, description: rounds}",
            {"name": "n", "required": False, "type": "integer", "bounds": (1, 10), "description": "rounds"},
        ),
        (
            "mode: {type: enum, values: [rapid, standard], default: rapid, fallback: standard}",
            {
                "name": "mode",
                "required": False,
                "type": "enum",
                "values": ("rapid", "standard"),
                "fallback": "standard",
            },
        ),
        ("m(enum): [a, b]", {"name": "m", "required": True, "type": "enum", "values": ("a", "b")}),
        (
            "models(array): {type: model, default: [latest GPT], fallback: strong}",
            {"name": "models", "required": False, "type": "model", "is_list": True, "fallback": "strong"},
        ),
        ("names(array): string", {"name": "names", "required": True, "type": "string", "is_list": True}),
        ("a: {shape: {b: string}}", {"name": "a", "required": True, "type": "object"}),
        ("a: {b: string, c?: any}", {"name": "a", "required": True, "type": "object"}),
        ("a(object): {b: string}", {"name": "a", "required": True, "type": "object"}),
        (
            "a(array, ones): {b: string}",
            {"name": "a", "required": True, "type": "object", "is_list": True, "description": "ones"},
        ),
        (
            "a(array): {shape: {b: string}, default: []}",
            {"name": "a", "required": False, "type": "object", "is_list": True},
        ),
    ],
)
def test_a_declaration_is_parsed(source: str, expected: dict[str, Any]) -> None:
    assert facts(parse_one(source)) == expected


def test_a_default_can_contain_templates() -> None:
    field = parse_one('mode: {type: enum, values: "{{ config.modes }}", default: "{{ inputs.mode }}"}')
    assert field.default is not None
    assert field.default.evaluate({"inputs": {"mode": "deep"}}) == "deep"
    assert isinstance(field.item.choices, Template)
    assert field.item.choices.text.at(0).column == 29


def test_a_shape_is_converted_to_json_schema() -> None:
    field = parse_one("gaps(array): {shape: {id: string, round?: integer}, default: []}")
    assert to_json_schema(field.item, None)["required"] == ["id"]


@pytest.mark.row("A4")
@pytest.mark.parametrize("form", ["", "(array 0..3)"])
def test_a_record_can_be_written_without_the_shape_key(form: str) -> None:
    assert (
        parse_one(f"gaps{form}: {{id: string, round?: integer}}").type
        == parse_one(f"gaps{form}: {{shape: {{id: string, round?: integer}}}}").type
    )


def test_fields_keep_the_order_of_the_file_and_invalid_ones_are_left_out() -> None:
    fields, problems = read("b: string\nx: strng\na?: integer\n")
    assert [field.name for field in fields] == ["b", "a"]
    assert [(line, column) for line, column, _, _ in problems] == [(2, 4)]


@pytest.mark.parametrize(
    ("source", "place", "message", "hint"),
    [
        ("a: strng", (1, 4), "unknown type `strng`", "did you mean `string`?"),
        ("a: {type: modell}", (1, 11), "unknown type `modell`", "did you mean `model`?"),
        ("a: {type: integer 9..1}", (1, 19), "the range `9..1` is empty", "`1..9`"),
        ("a: enum", (1, 4), "`type: enum` and `values:` require each other", "{type: enum, values: [a, b]}"),
        ("a: {type: enum}", (1, 11), "`type: enum` and `values:` require each other", "values: [a, b]"),
        ("a: {type: enum, values: []}", (1, 25), "the values of an enum must be a list", ""),
        ("a: {type: string, values: [b]}", (1, 27), "`type: enum` and `values:` require each other", ""),
        ("a: {values: [b]}", (1, 1), "`a` has no `type`", "allowed: string, integer"),
        ("a: {type: string, defualt: x}", (1, 19), "unknown key `defualt`", "did you mean `default`?"),
        ("a: {text: string, default: x}", (1, 5), "unknown key `text`", "a record with this field goes under"),
        ("a: {text: strng}", (1, 11), "unknown type `strng`", "did you mean `string`?"),
        ("a(array): any", (1, 11), "unknown type `any`", "; write a record as `{field: type}`"),
        ("a: {type: string, shape: {b: string}}", (1, 1), "`a` declares its type twice", ""),
        ("a: {type: {b: string}}", (1, 11), "`a` has no type", "or a record `name: {id: string}`"),
        ("a: {shape: string}", (1, 12), "a shape must be a mapping of names to types", ""),
        ("a: {shape: task}", (1, 12), "only a step of a protocol can use `task`", ""),
        ("a: {shape: {b: strng}}", (1, 16), "unknown type `strng`", "`string`"),
        ("a(enum): {type: enum, values: [b]}", (1, 1), "`a` declares its type twice", ""),
        ("a:", (1, 3), "`a` has no type", "write `name: string, what it is`"),
        ("a: [b]", (1, 4), "`a` has no type", ""),
        ("a-b: string\na_b: string", (2, 1), "`a_b` already exists", ""),
        ("text", (1, 1), "expected a mapping of names to types", ""),
        ("a: {type: string, description: [x]}", (1, 32), "`description` must be text", ""),
        ("a: {type: string, default: 5}", (1, 28), "`default` is `5`; expected text", ""),
        ("a: {type: string, default: }", (1, 28), "`default` is `null`; expected text", ""),
        ("a: {type: integer 1..2, default: 3}", (1, 34), "`default` is `3`; expected a whole number from 1 to 2", ""),
        ("a: {type: number, default: true}", (1, 28), "`default` is `true`; expected a number", ""),
        ("a: {type: boolean, default: maybe}", (1, 29), "`default` is `maybe`; allowed: true, false", ""),
        ("a: {type: slug, default: A_b}", (1, 26), "`default` is `A_b`; expected at most 64 lowercase", ""),
        (
            "a: {type: enum, values: [rapid], default: rapit}",
            (1, 43),
            "`default` is `rapit`; did you mean `rapid`? allowed: rapid",
            "",
        ),
        (
            "a: {type: enum, values: [rapid], fallback: x}",
            (1, 44),
            "`fallback` is `x`; allowed: rapid",
            "",
        ),
        ("a(array): {type: integer, default: 3}", (1, 36), "`default` is `3`; expected a list", ""),
        (
            "a(array): {type: integer, default: [1, x, 3]}",
            (1, 40),
            "`default` is `x`; expected a whole number",
            "",
        ),
        (
            "a(array): {shape: {b: string}, default: [{b: 1}]}",
            (1, 42),
            '`default` is `{"b": 1}`; b: `b` is `1`; expected text',
            "",
        ),
        ("a: {shape: {b: string}, default: x}", (1, 34), "`default` is `x`; expected JSON", ""),
    ],
)
def test_a_mistake_is_reported_at_its_place(source: str, place: tuple[int, int], message: str, hint: str) -> None:
    _, problems = read(source)
    assert [(line, column) for line, column, _, _ in problems] == [place]
    assert problems[0][2].startswith(message), problems
    assert hint in problems[0][3]


def test_all_unknown_keys_are_reported_and_no_missing_key() -> None:
    _, problems = read("a: {tpye: string, defualt: 1}")
    assert [(column, hint) for _, column, _, hint in problems] == [
        (5, "did you mean `type`?"),
        (19, "did you mean `default`?"),
    ]
