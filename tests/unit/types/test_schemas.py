"""Checking values against JSON Schema, and dropping invalid items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.json_schema import parse_json_schema
from skillrun.types.schemas import Shape, ShapeError


def closed_object(required: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    names = list(fields) if required is None else required
    return {"type": "object", "properties": fields, "required": names, "additionalProperties": False}


FINDING = closed_object(
    title={"type": "string"},
    severity={"type": "string", "enum": ["CRITICAL", "MAJOR", "MINOR"]},
    confidence={"type": "integer", "minimum": 0, "maximum": 100},
    tags={"type": "array", "items": {"type": "string"}},
)
SHAPE = Shape(closed_object(findings={"type": "array", "items": FINDING}, score={"type": "number"}))


def finding(**changes: Any) -> dict[str, Any]:
    return {"title": "t", "severity": "MAJOR", "confidence": 80, "tags": ["a"], **changes}


def reply(*findings: Any) -> dict[str, Any]:
    return {"findings": list(findings), "score": 1.5}


def test_a_valid_value_has_no_errors() -> None:
    assert SHAPE.check(reply(finding())) == []


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        (
            reply(finding(), finding(severity="HUGE")),
            "findings[1].severity",
            "`severity` is `HUGE`; allowed: CRITICAL, MAJOR, MINOR",
        ),
        (reply(finding(confidence=101)), "findings[0].confidence", "`confidence` is `101`; allowed: 0 to 100"),
        (
            reply(finding(confidence="high")),
            "findings[0].confidence",
            "`confidence` is `high`; expected a whole number",
        ),
        (reply(finding(confidence=True)), "findings[0].confidence", "`confidence` is `true`; expected a whole number"),
        (reply(finding(tags=["a", 1])), "findings[0].tags[1]", "`[1]` is `1`; expected text"),
        (reply(finding(tags=None)), "findings[0].tags", "`tags` is `null`; expected a list"),
        (reply("text"), "findings[0]", "`[0]` is `text`; expected an object"),
        ({"findings": []}, "score", "`score` is missing"),
        ({**reply(), "scor": 2}, "scor", "unknown field `scor`; did you mean `score`?"),
        ({**reply(), "zzz": 2}, "zzz", "unknown field `zzz`; allowed: findings, score"),
        ([], "", "the value is `[]`; expected an object"),
    ],
)
def test_an_error_names_the_path_the_value_and_the_allowed_values(value: Any, path: str, message: str) -> None:
    assert SHAPE.check(value) == [ShapeError(path, message)]


def test_every_error_is_reported_once() -> None:
    bad = finding(severity="HUGE", more=1)
    del bad["title"], bad["tags"]
    paths = [error.path for error in SHAPE.check(reply(bad))]
    assert sorted(paths) == [f"findings[0].{name}" for name in ("more", "severity", "tags", "title")]


def test_a_long_value_is_shortened_in_the_message() -> None:
    (error,) = SHAPE.check(reply(finding(severity="x" * 500)))
    assert len(error.message) < 300


@pytest.mark.row("B4")
@pytest.mark.finding("FP1")
def test_invalid_items_are_dropped_and_listed_with_reason_and_text() -> None:
    good = finding()
    value, dropped = SHAPE.drop_invalid(reply(finding(severity="HUGE"), good, "text", finding(tags=["a", 7, "b"])))
    assert value == reply(good, finding(tags=["a", "b"]))
    assert SHAPE.check(value) == []
    assert [(item.path, item.text) for item in dropped] == [
        ("findings[0]", json.dumps(finding(severity="HUGE"))),
        ("findings[2]", '"text"'),
        ("findings[3].tags[1]", "7"),
    ]
    assert dropped[0].reason == "`severity` is `HUGE`; allowed: CRITICAL, MAJOR, MINOR"


@pytest.mark.finding("FP1")
def test_unknown_and_invalid_optional_fields_are_dropped_without_their_item() -> None:
    item = closed_object(["title"], title={"type": "string"}, confidence={"type": "integer", "maximum": 100})
    shape = Shape(closed_object(["findings"], findings={"type": "array", "items": {"$ref": "#/$defs/item"}}))
    shape.schema["$defs"] = {"item": item}
    value, dropped = shape.drop_invalid(
        {"findings": [{"title": "a", "file": "x.py", "line": 3, "confidence": 101}], "z": 1}
    )
    assert value == {"findings": [{"title": "a"}]}
    assert sorted(field.path for field in dropped) == [
        "findings[0].confidence", "findings[0].file", "findings[0].line", "z",
    ]  # fmt: skip
    assert {field.path: field.reason for field in dropped}["findings[0].line"].startswith("unknown field `line`")


@pytest.mark.finding("FP1")
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (finding(severity="critical"), finding(severity="CRITICAL")),
        (finding(severity=" Major\n"), finding(severity="MAJOR")),
        (finding(confidence="99"), finding(confidence=99)),
        (finding(confidence=99.0), finding(confidence=99)),
        (finding(confidence="99.0"), finding(confidence=99)),
    ],
)
def test_unambiguous_values_are_normalized(changed: Any, expected: Any) -> None:
    value = SHAPE.normalize(reply(changed))
    assert value == reply(expected)
    assert SHAPE.check(value) == []


@pytest.mark.parametrize("bad", [{"severity": "CRIT"}, {"confidence": "99 %"}, {"confidence": 99.5}, {"title": 7}])
def test_ambiguous_values_are_unchanged(bad: dict[str, Any]) -> None:
    assert SHAPE.normalize(reply(finding(**bad))) == reply(finding(**bad))


def test_letter_case_is_kept_when_it_distinguishes_two_values() -> None:
    assert Shape({"enum": ["a", "A"]}).normalize("A") == "A"
    assert Shape({"enum": ["ab", "AB"]}).normalize("Ab") == "Ab"


def test_errors_outside_lists_remain() -> None:
    value, dropped = SHAPE.drop_invalid({"findings": [1], "score": "x"})
    assert value == {"findings": [], "score": "x"}
    assert [item.path for item in dropped] == ["findings[0]"]
    assert [error.path for error in SHAPE.check(value)] == ["score"]


def test_dropping_items_does_not_modify_the_input() -> None:
    value = reply(1, finding(tags=[2]))
    SHAPE.drop_invalid(value)
    assert value == reply(1, finding(tags=[2]))


def test_an_authors_schema_can_use_all_of_json_schema() -> None:
    shape = parse_json_schema(
        {
            "$defs": {"name": {"type": "string", "pattern": "^[A-Z]"}},
            "type": "array",
            "items": {"anyOf": [{"$ref": "#/$defs/name"}, {"type": "null"}]},
            "minItems": 1,
        }
    )
    assert shape.check(["A", None]) == []
    assert shape.check(["a"])[0].path == "[0]"
    assert shape.check([])[0].message == "the value has 0 items; allowed: 1 or more"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "sting"}, "`type`"),
        ({"properties": {"a": {"minimum": "x"}}}, "`properties.a.minimum`"),
        (["a"], "must be a mapping"),
        ({"$ref": "#/$defs/missing"}, "does not exist in this schema"),
        ({"items": {"$ref": "https://example.org/schema.json"}}, "does not exist in this schema"),
        ({"items": {"$ref": "other.json"}}, "does not exist in this schema"),
    ],
)
def test_an_invalid_schema_or_external_reference_is_rejected(schema: Any, message: str) -> None:
    with pytest.raises(SkillrunError, match=message):
        parse_json_schema(schema)


@pytest.mark.slow
def test_a_thousand_checks_are_fast() -> None:
    value = reply(*[finding() for _ in range(5)])
    SHAPE.check(value)
    for _ in range(1000):
        assert SHAPE.check(value) == []


@pytest.mark.finding("FZ15")
@pytest.mark.row("Z6")
def test_pattern_matching_takes_linear_time() -> None:
    shape = parse_json_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
    assert [error.path for error in shape.check({"a": "a" * 100_000 + "!"})] == ["a"]
    assert shape.check({"a": "a" * 100_000}) == []


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"items": {"type": "string", "pattern": "(a{1000}){1000}"}}, "repe"),
        ({"patternProperties": {"^a": {"type": "string"}}}, "`patternProperties` is not supported"),
    ],
)
def test_an_unsupported_pattern_is_rejected(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(SkillrunError) as caught:
        parse_json_schema(schema)
    assert reason in caught.value.message


@pytest.mark.finding("FZ15")
@pytest.mark.row("Z6")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"type": "object", "properties": {"c": {"$ref": "#"}}, "required": ["c"]},
        {"type": "string", "minLength": 2_000_000_000},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"$dynamicRef": "#x"},
    ],
)
def test_a_schema_that_no_reply_can_satisfy_is_rejected(schema: dict[str, Any]) -> None:
    with pytest.raises(SkillrunError, match="this schema cannot be used"):
        parse_json_schema(schema)
