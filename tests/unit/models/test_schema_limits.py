"""Limited schemas accept a subset of what the original accepts, and their longest reply fits."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.models.embedded import limit_schema, max_reply_length
from skillrun.types.samples import sample

STRING: dict[str, Any] = {"type": "string"}


def object_schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


leaves = st.sampled_from([STRING, {"type": "integer"}, {"enum": ["a", "b"]}, {"type": "boolean"}])
schemas = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.dictionaries(st.sampled_from("abcd"), inner, min_size=1).map(lambda found: object_schema(**found))
    ),
    max_leaves=6,
).map(lambda schema: object_schema(value=schema))


def test_lists_and_texts_without_limits_get_limits() -> None:
    schema = limit_schema(object_schema(title=STRING, tags={"type": "array", "items": STRING}), 4000)
    assert schema["properties"]["title"]["maxLength"] == 400
    assert schema["properties"]["tags"]["maxItems"] == 4
    assert schema["properties"]["tags"]["items"]["maxLength"] == 400


def test_limits_in_the_schema_are_kept() -> None:
    limited = {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 1000}}
    assert limit_schema(object_schema(own=limited), 100) == object_schema(own=limited)


def test_the_minimum_in_the_schema_is_allowed() -> None:
    schema = limit_schema(object_schema(tags={"type": "array", "minItems": 6, "items": {"type": "boolean"}}), 1000)
    assert schema["properties"]["tags"]["maxItems"] == 6


def test_a_property_named_like_a_keyword_is_a_property() -> None:
    schema = limit_schema(object_schema(items=STRING, enum=STRING, type=STRING), 1000)
    assert set(schema["properties"]) == {"items", "enum", "type"}
    assert schema["properties"]["enum"]["maxLength"]


@pytest.mark.parametrize("max_tokens", [300, 1024])
def test_the_longest_reply_fits(max_tokens: int) -> None:
    finding = object_schema(title=STRING, evidence=STRING, fix=STRING)
    schema = limit_schema(object_schema(summary=STRING, findings={"type": "array", "items": finding}), max_tokens)
    assert max_reply_length(schema) <= max_tokens


@pytest.mark.slow
@given(schemas, st.integers(100, 4000), st.text("0123456789abcdef", min_size=64, max_size=64))
def test_a_value_of_the_limited_schema_is_valid_in_the_original(schema: dict[str, Any], tokens: int, seed: str) -> None:
    value = sample(limit_schema(schema, tokens), seed)
    jsonschema.validate(value, schema)
