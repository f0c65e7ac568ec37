"""Salvaging the valid items of malformed replies: examples and properties."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillrun.structured_output.salvaging import find_list_field, salvage_items
from skillrun.structured_output.values import MAX_DEPTH, MAX_REPLY

QUESTION = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1},
        "priority": {"type": "integer", "minimum": 1, "maximum": 5},
        "note": {"type": "string"},
    },
    "required": ["text", "priority"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": QUESTION, "maxItems": 20}},
    "required": ["questions"],
    "additionalProperties": False,
}
TEXTS: dict[str, Any] = {**SCHEMA, "properties": {"questions": {"type": "array", "items": {"type": "string"}}}}
A, B, C = ({"text": f"Who pays for {item}? [x] {{y}} ```", "priority": at} for at, item in enumerate("abc", 1))
JA, JB, JC = map(json.dumps, (A, B, C))
ALL = f'{{"questions": [{JA}, {JB}, {JC}]}}'

pytestmark = pytest.mark.row("B4", "B3")


def salvaged_texts(reply: str, schema: dict[str, Any] = SCHEMA) -> list[Any]:
    value = salvage_items(reply, schema).value
    return [] if value is None else [item["text"] if isinstance(item, dict) else item for item in value["questions"]]


@pytest.mark.parametrize(
    "reply",
    [
        ALL,
        f"```json\n{ALL}\n```",
        f"````markdown\n```json\n{ALL}\n```\n````",
        f"I have read [1], {{this}}, arr[0] and [x](y.md). Here:\n{ALL}\nAnything else? :-}}",
        f"My questions are {ALL}, as you see.",
        f"[{JA}, {JB}, {JC}]",
        f"{JA}\n{JB}\n{JC}",
        f'First part:\n{{"questions": [{JA}]}}\nand more:\n{{"questions": [{JB}, {JC}]}}',
        f'{{"questions": [{JA}], "questions": [{JB}, {JC}]}}',
        f'{{"questions": [{JA},, {JB}, {JC},],}}',
        f"{{questions: [{JA}, // the first\n {JB}, /* and */ {JC} # the last\n]}}",
        "{'questions': ["
        + ", ".join(f"{{'text': {json.dumps(x['text'])}, priority: {x['priority']}}}" for x in (A, B, C))
        + "]}",
        ALL[:-2],
        ALL[:-1],
        ALL + ']}, {"text": "half a quest',
        f'{{"Questions": [{JA}, {JB}, {JC}]}}',
        f'{{"result": {{"items": [{ALL}]}}}}',
        f"{ALL}\nOnce more:\n{ALL}",
        ALL.replace('"priority": 1', '"priority": "1"').replace('"priority": 2', '"priority": 2.0'),
        f'{{"questions": [{JA}, {{"text": "", "priority": 9}}, {JB}, oops, {{"text": broken}}, {JC}]}}',
        ALL.replace(', "priority"', ' "priority"'),
        f'{{"questions": [{JA}, {JB[:-1]}, "sort": true}}, {JC}]}}',
        ALL.replace("[x]", "[\\x]"),
        f"The 'usual' [of the '90s, 'tis said] is not wanted:\n{ALL}",
    ],
)
def test_every_valid_item_is_found_anywhere_in_the_reply(reply: str) -> None:
    assert salvaged_texts(reply) == [item["text"] for item in (A, B, C)]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"questions": ["a", "b", 3, "a"]}', ["a", "b"]),
        ('So: ["a", "b"] and ["c"]', ["a", "b", "c"]),
        ('["a", b, "c"', ["a", "c"]),
    ],
)
def test_items_can_be_texts(reply: str, expected: list[str]) -> None:
    assert salvaged_texts(reply, TEXTS) == expected


DUPLICATE_KEY = '{"text": "x", "text": "y", "priority": 1}'


@pytest.mark.parametrize(
    ("reply", "path", "text"),
    [
        (f'{{"questions": [{JA}, {{"text": "", "priority": 9}}]}}', "questions[1]", '{"priority": 9, "text": ""}'),
        (f'{{"questions": [{JA[:-1]}, "more": 1}}]}}', "questions[0].more", "1"),
        (f'{{"why": "so", "questions": [{JA}]}}', "why", '"so"'),
        (f'{{"questions": [{JA}, {DUPLICATE_KEY}]}}', "questions[1]", '{"priority": 1, "text": "y"}'),
        (f'[{JA}, {{"text": "half', "line 1", '"half'),
    ],
)
@pytest.mark.row("Z4")
def test_dropped_items_are_reported(reply: str, path: str, text: str) -> None:
    found = salvage_items(reply, SCHEMA)
    assert salvaged_texts(reply) == [A["text"]]
    assert any(item.path == path and item.text.endswith(text) and item.reason for item in found.dropped), found.dropped


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "the reply contains no JSON"),
        ("I would rather not.", "the reply contains no JSON"),
        ("{questions: [}", "found `}`"),
        ('{"questions": [{"text": "", "priority": 9}]}', "allowed: 1 to 5"),
        ("- [ ] Who pays?\n- [ ] When?\nSee [](x.md), or arr[] below; and [", "contains no JSON"),
        (f'["{"x" * 10_000_000}"]', f"longer than {MAX_REPLY:,}"),
        ("[" * 50_000, "nested more than"),
        ('{"a":' * 30_000, "nested more than"),
        ('{"' * 100_000, ""),
        ("/*" * 100_000 + "[{", ""),
        ("[1" * 60_000, "too many"),
    ],
)
def test_a_reply_without_items_has_reasons(reply: str, reason: str) -> None:
    found = salvage_items(reply, SCHEMA)
    assert found.value is None
    assert any(reason in error.message for error in found.errors)


def test_an_empty_list_is_valid_and_a_long_list_is_cut_to_its_maximum() -> None:
    for reply in ('{"questions": []}', "[]", "```\n[ ]\n```", "Nothing is open: `[]`."):
        assert salvage_items(reply, SCHEMA).value == {"questions": []}
    found = salvage_items(json.dumps([{"text": f"t{n}", "priority": 1} for n in range(23)]), SCHEMA)
    assert found.value is not None
    assert len(found.value["questions"]) == 20
    assert [item.reason for item in found.dropped] == ["at most 20 items are allowed"] * 3


def test_a_lone_surrogate_becomes_valid_text() -> None:
    assert salvaged_texts('{"text": "a\\ud800b", "priority": 1}') == ["a\ufffdb"]


def test_the_list_field_is_the_only_field_of_the_shape() -> None:
    assert find_list_field(SCHEMA) == "questions"
    assert find_list_field({**SCHEMA, "properties": {**SCHEMA["properties"], "why": {"type": "string"}}}) == ""
    assert find_list_field({}) == ""


FIELDS = st.fixed_dictionaries({"text": st.text(min_size=1), "priority": st.integers(1, 5)})
PROSE = st.text(alphabet=st.characters(exclude_characters="{}[]\"'/#"))


@given(st.lists(st.tuples(PROSE, st.lists(FIELDS, max_size=3), st.sampled_from(["{}", "[]", "one"])), max_size=4))
def test_no_valid_item_is_lost_among_prose(parts: list[tuple[str, list[dict[str, Any]], str]]) -> None:
    def serialize(items: list[dict[str, Any]], style: str) -> str:
        if style == "one":
            return "\n".join(map(json.dumps, items))
        return json.dumps({"questions": items} if style == "{}" else items)

    reply = "\n".join(f"{prose}\n{serialize(items, style)}" for prose, items, style in parts)
    expected = [item for _, items, _ in parts for item in items]
    found = salvage_items(reply, SCHEMA).value
    kept = [json.dumps(item, sort_keys=True) for item in (found or {"questions": []})["questions"]]
    valid = [json.dumps(item, sort_keys=True) for item in _valid(expected)]
    assert set(kept) == set(valid)


def _valid(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from skillrun.syntax.diagnostics import sanitize

    return [item for item in sanitize(items) if item["text"].strip()]


@given(st.lists(FIELDS, min_size=1, max_size=4), st.integers(0, 400))
def test_a_cut_off_reply_only_loses_the_items_after_the_cut(items: list[dict[str, Any]], length: int) -> None:
    texts = [json.dumps(item) for item in items]
    reply = f'{{"questions": [{", ".join(texts)}]}}'[:length]
    whole = sum(len(", ".join(texts[: n + 1])) + len('{"questions": [') <= length for n in range(len(texts)))
    found = salvage_items(reply, SCHEMA).value
    kept = {json.dumps(item, sort_keys=True) for item in (found or {"questions": []})["questions"]}
    assert kept == {json.dumps(item, sort_keys=True) for item in _valid(items[:whole])}


JUNK = st.text(alphabet=st.sampled_from(list("{}[]:,\"'\\/*#-0159.eE truefalsn`\n\ud800")), max_size=60)


@given(st.one_of(st.text(max_size=80), JUNK))
@example("[" * (MAX_DEPTH + 2))
@example("{'a': -}")
def test_no_reply_raises_an_error(reply: str) -> None:
    for schema in (SCHEMA, TEXTS):
        value, dropped, errors = salvage_items(reply, schema)
        assert (value is None) == bool(errors)
        assert json.dumps([value, [vars(item) for item in dropped]]) is not None


def test_an_item_can_be_defined_by_reference() -> None:
    question = {"$ref": "#/$defs/question"}
    fields = {"questions": {"type": "array", "items": question}}
    schema = {"type": "object", "properties": fields, "$defs": {"question": QUESTION}, "required": ["questions"]}
    assert salvage_items(f"{JA} and {JB}", schema).value == {"questions": [A, B]}
    assert salvage_items('[{"text": 1}]', schema).value is None
    recursive = {**schema, "$defs": {"question": {"$ref": "#/properties/questions"}}}
    assert find_list_field(recursive) == "", "a recursive schema has no list field"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('["What does "done" mean?", "b"]', ['What does "done" mean?', "b"]),
        ('["Say "hi", and go", "He said "no""]', ['Say "hi", and go', 'He said "no"']),
        ("['it's here', 'b']", ["it's here", "b"]),
        ('["a" "b", "He said, "no" twice"]', ["a", "b", 'He said, "no" twice']),
    ],
)
def test_a_text_is_not_cut_at_its_inner_quotes(reply: str, expected: list[str]) -> None:
    assert salvaged_texts(reply, TEXTS) == expected


def test_many_unknown_fields_are_not_all_compared_for_suggestions(monkeypatch: pytest.MonkeyPatch) -> None:
    from skillrun.types import schemas

    compared: list[str] = []

    def suggest(name: str, _: object) -> str:
        compared.append(name)
        return ""

    monkeypatch.setattr(schemas, "did_you_mean", suggest)
    extra = ", ".join(f'"x{index}": 1' for index in range(200))
    value, dropped, _ = salvage_items(f"{JA[:-1]}, {extra}}}", SCHEMA)
    assert value == {"questions": [A]}
    assert {item.path for item in dropped} == {f"questions[0].x{index}" for index in range(200)}
    assert len(compared) < 1_000, "a quadratic comparison would need 40,000"


@pytest.mark.row("B4")
@pytest.mark.finding("FR47")
@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u3000"])
def test_a_text_of_white_space_alone_has_no_characters(blank: str) -> None:
    found = salvage_items(json.dumps({"questions": [{"text": blank, "priority": 1}, A]}), SCHEMA)
    assert found.value == {"questions": [A]}
    assert [(item.path, "has 0 characters" in item.reason) for item in found.dropped] == [("questions[0]", True)]


@pytest.mark.row("B4")
@pytest.mark.finding("FR51")
def test_a_dropped_item_is_named_by_its_position_in_the_reply() -> None:
    bad = {"text": "x", "priority": "high"}
    found = salvage_items(json.dumps({"questions": [A, A, bad, {"priority": 1}, A, 7]}), SCHEMA)
    assert [item.path for item in found.dropped] == ["questions[2]", "questions[3]", "questions[5]"]


@pytest.mark.finding("FR51")
@pytest.mark.parametrize(
    "reply", ["{}", '["Who pays?"]', '{"questions": null}', '{"questions": 3}', "```json\n{}\n```"]
)
def test_json_without_the_list_is_not_called_a_reply_without_json(reply: str) -> None:
    assert [error.message for error in salvage_items(reply, SCHEMA).errors] == [
        "the JSON of the reply contains no valid `questions`"
    ]
