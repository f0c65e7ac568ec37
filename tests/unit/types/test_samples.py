"""Sampled values fit their schema and depend only on the seed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.types.json_schema import parse_json_schema
from skillrun.types.samples import sample
from skillrun.types.schemas import Shape

RANGES = st.tuples(st.integers(-1000, 1000), st.integers(0, 500)).map(
    lambda r: {"minimum": r[0], "maximum": r[0] + r[1]}
)
NUMBERS = st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e3)).map(lambda r: {"minimum": r[0], "maximum": r[0] + r[1]})
SCALARS = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "boolean"}),
    st.just({}),
    st.just({"type": "integer"}) | RANGES.map(lambda bounds: {"type": "integer", **bounds}),
    st.just({"type": "number"}) | NUMBERS.map(lambda bounds: {"type": "number", **bounds}),
    st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True).map(lambda v: {"type": "string", "enum": v}),
)
NAMES = st.text(alphabet="abcé-_", min_size=1, max_size=4)


def record(fields: dict[str, Any], flags: list[bool]) -> dict[str, Any]:
    required = [name for name, flag in zip(fields, flags, strict=False) if flag]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    SCALARS,
    lambda inner: (
        inner.map(lambda items: {"type": "array", "items": items})
        | st.builds(record, st.dictionaries(NAMES, inner, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
    ),
    max_leaves=8,
)


@given(SCHEMAS, st.text(max_size=8))
def test_a_sample_fits_its_schema(schema: dict[str, Any], seed: str) -> None:
    assert Shape(schema).check(sample(schema, seed)) == []


@given(SCHEMAS, st.text(max_size=8))
def test_the_same_seed_gives_the_same_sample(schema: dict[str, Any], seed: str) -> None:
    assert sample(schema, seed) == sample(schema, seed)


def test_samples_are_the_same_on_every_machine() -> None:
    schema = record({"n": {"type": "integer", "minimum": 0, "maximum": 100}, "t": {"type": "string"}}, [True, True])
    assert sample(schema, "seed") == {"n": 28, "t": "This design repeats the old limit."}


def test_seeds_cover_every_value_and_length_and_sometimes_omit_optional_fields() -> None:
    schema = record(
        {"level": {"enum": ["A", "B", "C"]}, "list": {"type": "array", "items": {"type": "boolean"}}, "maybe": {}},
        [True, True, False],
    )
    samples = [sample(schema, str(seed)) for seed in range(60)]
    assert {value["level"] for value in samples} == {"A", "B", "C"}
    assert {len(value["list"]) for value in samples} == {1, 2, 3}
    assert {"maybe" in value for value in samples} == {True, False}


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"n": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 5},
        {"anyOf": [{"type": "null"}, {"type": "string", "minLength": 80, "maxLength": 90}]},
        {"oneOf": [{"const": 7}, {"type": "integer", "exclusiveMinimum": 8, "exclusiveMaximum": 10}]},
        {"type": ["string", "null"]},
        {"type": "integer", "maximum": -5},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {
            "$defs": {"tree": {"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}},
            "$ref": "#/$defs/tree",
        },
    ],
)  # fmt: skip
def test_an_authors_json_schema_is_sampled_too(schema: dict[str, Any]) -> None:
    shape = parse_json_schema(schema)
    for seed in range(20):
        assert shape.check(sample(schema, str(seed))) == []
