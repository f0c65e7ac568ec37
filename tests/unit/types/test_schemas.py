"""Checking values against JSON Schema, and dropping the items that do not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.authored_schemas import parse_json_schema
from skillrun.types.schemas import Shape, ShapeError


def closed(required: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    names = list(fields) if required is None else required
    return {"type": "object", "properties": fields, "required": names, "additionalProperties": False}


FINDING = closed(
    title={"type": "string"},
    severity={"type": "string", "enum": ["CRITICAL", "MAJOR", "MINOR"]},
    confidence={"type": "integer", "minimum": 0, "maximum": 100},
    tags={"type": "array", "items": {"type": "string"}},
)
SHAPE = Shape(closed(findings={"type": "array", "items": FINDING}, score={"type": "number"}))


def finding(**changes: Any) -> dict[str, Any]:
    return {"title": "t", "severity": "MAJOR", "confidence": 80, "tags": ["a"], **changes}


def reply(*findings: Any) -> dict[str, Any]:
    return {"findings": list(findings), "score": 1.5}


def test_a_value_that_fits_has_no_errors() -> None:
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
def test_an_error_names_the_place_the_value_and_what_is_allowed(value: Any, path: str, message: str) -> None:
    assert SHAPE.check(value) == [ShapeError(path, message)]


def test_everything_wrong_is_told_once() -> None:
    bad = finding(severity="HUGE", more=1)
    del bad["title"], bad["tags"]
    paths = [error.path for error in SHAPE.check(reply(bad))]
    assert sorted(paths) == [f"findings[0].{name}" for name in ("more", "severity", "tags", "title")]


def test_a_long_value_is_shortened_in_the_message() -> None:
    (error,) = SHAPE.check(reply(finding(severity="x" * 500)))
    assert len(error.message) < 150


@pytest.mark.row("B4")
@pytest.mark.finding("FP1")
def test_the_items_that_do_not_fit_are_dropped_and_named_each_with_its_reason_and_text() -> None:
    good = finding()
    value, dropped = SHAPE.drop_invalid(reply(finding(severity="HUGE"), good, "text", finding(tags=["a", 7, "b"])))
    assert value == reply(good, finding(tags=["a", "b"]))
    assert SHAPE.check(value) == []
    assert [(one.path, one.text) for one in dropped] == [
        ("findings[0]", json.dumps(finding(severity="HUGE"))),
        ("findings[2]", '"text"'),
        ("findings[3].tags[1]", "7"),
    ]
    assert dropped[0].reason == "`severity` is `HUGE`; allowed: CRITICAL, MAJOR, MINOR"


@pytest.mark.finding("FP1")
def test_a_field_too_many_and_an_optional_one_that_does_not_fit_are_dropped_without_their_item() -> None:
    item = closed(["title"], title={"type": "string"}, confidence={"type": "integer", "maximum": 100})
    shape = Shape(closed(["findings"], findings={"type": "array", "items": {"$ref": "#/$defs/item"}}))
    shape.schema["$defs"] = {"item": item}
    value, dropped = shape.drop_invalid(
        {"findings": [{"title": "a", "file": "x.py", "line": 3, "confidence": 101}], "z": 1}
    )
    assert value == {"findings": [{"title": "a"}]}
    assert sorted(one.path for one in dropped) == [
        "findings[0].confidence", "findings[0].file", "findings[0].line", "z",
    ]  # fmt: skip
    assert {one.path: one.reason for one in dropped}["findings[0].line"].startswith("unknown field `line`")


@pytest.mark.finding("FP1")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (finding(severity="critical"), finding(severity="CRITICAL")),
        (finding(severity=" Major\n"), finding(severity="MAJOR")),
        (finding(confidence="99"), finding(confidence=99)),
        (finding(confidence=99.0), finding(confidence=99)),
        (finding(confidence="99.0"), finding(confidence=99)),
    ],
)
def test_what_can_only_be_meant_one_way_is_read(written: Any, meant: Any) -> None:
    value = SHAPE.normalize(reply(written))
    assert value == reply(meant)
    assert SHAPE.check(value) == []


@pytest.mark.parametrize("bad", [{"severity": "CRIT"}, {"confidence": "99 %"}, {"confidence": 99.5}, {"title": 7}])
def test_what_could_be_meant_otherwise_is_left_as_it_is(bad: dict[str, Any]) -> None:
    assert SHAPE.normalize(reply(finding(**bad))) == reply(finding(**bad))


def test_letter_case_is_left_alone_where_it_tells_two_values_apart() -> None:
    assert Shape({"enum": ["a", "A"]}).normalize("A") == "A"
    assert Shape({"enum": ["ab", "AB"]}).normalize("Ab") == "Ab"


def test_what_is_wrong_outside_lists_stays() -> None:
    value, dropped = SHAPE.drop_invalid({"findings": [1], "score": "x"})
    assert value == {"findings": [], "score": "x"}
    assert [one.path for one in dropped] == ["findings[0]"]
    assert [error.path for error in SHAPE.check(value)] == ["score"]


def test_pruning_leaves_the_value_it_was_given_alone() -> None:
    value = reply(1, finding(tags=[2]))
    SHAPE.drop_invalid(value)
    assert value == reply(1, finding(tags=[2]))


def test_a_schema_of_an_author_may_use_all_of_json_schema() -> None:
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
    ("schema", "words"),
    [
        ({"type": "sting"}, "`type`"),
        ({"properties": {"a": {"minimum": "x"}}}, "`properties.a.minimum`"),
        (["a"], "must be a mapping"),
        ({"$ref": "#/$defs/missing"}, "does not exist in this schema"),
        ({"items": {"$ref": "https://example.org/schema.json"}}, "does not exist in this schema"),
        ({"items": {"$ref": "other.json"}}, "does not exist in this schema"),
    ],
)
def test_what_is_no_schema_or_refers_elsewhere_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(SkillrunError, match=words):
        parse_json_schema(schema)


@pytest.mark.slow
def test_a_thousand_checks_take_a_moment() -> None:
    value = reply(*[finding() for _ in range(5)])
    SHAPE.check(value)
    for _ in range(1000):
        assert SHAPE.check(value) == []


@pytest.mark.finding("FZ15")
@pytest.mark.row("Z6")
def test_a_pattern_of_a_schema_takes_time_in_line_with_the_text() -> None:
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
def test_a_pattern_that_could_take_for_ever_is_refused(schema: dict[str, Any], reason: str) -> None:
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
def test_a_schema_that_no_reply_could_fit_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SkillrunError, match="this schema cannot be used"):
        parse_json_schema(schema)
