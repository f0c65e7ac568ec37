"""Replies of which every valid item counts: a corpus of nasty ones, and laws that hold for any."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillrun.structured_output.lenient_json import MAX_DEPTH
from skillrun.structured_output.salvaging import find_list_field, salvage_items
from skillrun.structured_output.values import MAX_REPLY

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
A, B, C = ({"text": f"Who pays for {one}? [x] {{y}} ```", "priority": at} for at, one in enumerate("abc", 1))
JA, JB, JC = map(json.dumps, (A, B, C))
ALL = f'{{"questions": [{JA}, {JB}, {JC}]}}'

pytestmark = pytest.mark.row("B4", "B3")


def texts(reply: str, schema: dict[str, Any] = SCHEMA) -> list[Any]:
    value = salvage_items(reply, schema).value
    return [] if value is None else [one["text"] if isinstance(one, dict) else one for one in value["questions"]]


@pytest.mark.parametrize(
    "reply",
    [
        ALL,
        f"```json\n{ALL}\n```",
        f"````markdown\n```json\n{ALL}\n```\n````",
        f"I looked at [1], {{this}}, arr[0] and [x](y.md). Here:\n{ALL}\nAnything else? :-}}",
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
        f"The 'usual' [of the '90s, 'tis said] is not asked:\n{ALL}",
    ],
)
def test_every_valid_item_is_found_wherever_it_stands(reply: str) -> None:
    assert texts(reply) == [one["text"] for one in (A, B, C)]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"questions": ["a", "b", 3, "a"]}', ["a", "b"]),
        ('So: ["a", "b"] and ["c"]', ["a", "b", "c"]),
        ('["a", b, "c"', ["a", "c"]),
    ],
)
def test_items_may_be_texts(reply: str, expected: list[str]) -> None:
    assert texts(reply, TEXTS) == expected


TWICE = '{"text": "x", "text": "y", "priority": 1}'


@pytest.mark.parametrize(
    ("reply", "path", "text"),
    [
        (f'{{"questions": [{JA}, {{"text": "", "priority": 9}}]}}', "questions[1]", '{"priority": 9, "text": ""}'),
        (f'{{"questions": [{JA[:-1]}, "more": 1}}]}}', "questions[0].more", "1"),
        (f'{{"why": "so", "questions": [{JA}]}}', "why", '"so"'),
        (f'{{"questions": [{JA}, {TWICE}]}}', "questions[1]", '{"priority": 1, "text": "y"}'),
        (f'[{JA}, {{"text": "half', "line 1", '"half'),
    ],
)
@pytest.mark.row("Z4")
def test_what_is_not_taken_is_named(reply: str, path: str, text: str) -> None:
    found = salvage_items(reply, SCHEMA)
    assert texts(reply) == [A["text"]]
    assert any(one.path == path and one.text.endswith(text) and one.reason for one in found.dropped), found.dropped


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "the reply contains no JSON"),
        ("I would rather not.", "the reply contains no JSON"),
        ("{questions: [}", "found `}`"),
        ('{"questions": [{"text": "", "priority": 9}]}', "allowed: 1 to 5"),
        ('{"questions": 3}', "contains no JSON"),
        ("- [ ] Who pays?\n- [ ] When?\nSee [](x.md), or arr[] below; and [", "contains no JSON"),
        (f'["{"x" * 10_000_000}"]', f"longer than {MAX_REPLY:,}"),
        ("[" * 50_000, "nested more than"),
        ('{"a":' * 30_000, "nested more than"),
        ('{"' * 100_000, ""),
        ("/*" * 100_000 + "[{", ""),
        ("[1" * 60_000, "too many"),
    ],
)
def test_without_an_item_there_are_reasons(reply: str, reason: str) -> None:
    found = salvage_items(reply, SCHEMA)
    assert found.value is None
    assert any(reason in error.message for error in found.errors)


def test_an_empty_list_is_a_reply_and_a_long_one_ends_at_its_length() -> None:
    for reply in ('{"questions": []}', "[]", "```\n[ ]\n```", "Nothing is open: `[]`."):
        assert salvage_items(reply, SCHEMA).value == {"questions": []}
    found = salvage_items(json.dumps([{"text": f"t{n}", "priority": 1} for n in range(23)]), SCHEMA)
    assert found.value is not None
    assert len(found.value["questions"]) == 20
    assert [one.reason for one in found.dropped] == ["at most 20 items are allowed"] * 3


def test_half_a_pair_becomes_valid_text() -> None:
    assert texts('{"text": "a\\ud800b", "priority": 1}') == ["a\ufffdb"]


def test_the_shape_is_one_list() -> None:
    assert find_list_field(SCHEMA) == "questions"
    assert find_list_field({**SCHEMA, "properties": {**SCHEMA["properties"], "why": {"type": "string"}}}) == ""
    assert find_list_field({}) == ""


FIELDS = st.fixed_dictionaries({"text": st.text(min_size=1), "priority": st.integers(1, 5)})
PROSE = st.text(alphabet=st.characters(exclude_characters="{}[]\"'/#"))


@given(st.lists(st.tuples(PROSE, st.lists(FIELDS, max_size=3), st.sampled_from(["{}", "[]", "one"])), max_size=4))
def test_no_valid_item_is_lost_among_prose(parts: list[tuple[str, list[dict[str, Any]], str]]) -> None:
    def written(items: list[dict[str, Any]], how: str) -> str:
        if how == "one":
            return "\n".join(map(json.dumps, items))
        return json.dumps({"questions": items} if how == "{}" else items)

    reply = "\n".join(f"{prose}\n{written(items, how)}" for prose, items, how in parts)
    wanted = [one for _, items, _ in parts for one in items]
    found = salvage_items(reply, SCHEMA).value
    kept = [json.dumps(one, sort_keys=True) for one in (found or {"questions": []})["questions"]]
    clean = [json.dumps(one, sort_keys=True) for one in _valid(wanted)]
    assert set(kept) == set(clean)


def _valid(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from skillrun.syntax.sanitizing import sanitize

    return [one for one in sanitize(items) if one["text"]]


@given(st.lists(FIELDS, min_size=1, max_size=4), st.integers(0, 400))
def test_a_cut_costs_only_what_is_behind_it(items: list[dict[str, Any]], at: int) -> None:
    written = [json.dumps(one) for one in items]
    reply = f'{{"questions": [{", ".join(written)}]}}'[:at]
    whole = sum(len(", ".join(written[: n + 1])) + len('{"questions": [') <= at for n in range(len(written)))
    found = salvage_items(reply, SCHEMA).value
    kept = {json.dumps(one, sort_keys=True) for one in (found or {"questions": []})["questions"]}
    assert kept == {json.dumps(one, sort_keys=True) for one in _valid(items[:whole])}


JUNK = st.text(alphabet=st.sampled_from(list("{}[]:,\"'\\/*#-0159.eE truefalsn`\n\ud800")), max_size=60)


@given(st.one_of(st.text(max_size=80), JUNK))
@example("[" * (MAX_DEPTH + 2))
@example("{'a': -}")
def test_nothing_raises(reply: str) -> None:
    for schema in (SCHEMA, TEXTS):
        value, dropped, errors = salvage_items(reply, schema)
        assert (value is None) == bool(errors)
        assert json.dumps([value, [vars(one) for one in dropped]]) is not None


def test_an_item_may_be_defined_elsewhere_in_the_schema() -> None:
    question = {"$ref": "#/$defs/question"}
    fields = {"questions": {"type": "array", "items": question}}
    schema = {"type": "object", "properties": fields, "$defs": {"question": QUESTION}, "required": ["questions"]}
    assert salvage_items(f"{JA} and {JB}", schema).value == {"questions": [A, B]}
    assert salvage_items('[{"text": 1}]', schema).value is None
    recursive = {**schema, "$defs": {"question": {"$ref": "#/properties/questions"}}}
    assert find_list_field(recursive) == "", "it is told to its author instead"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('["What does "done" mean?", "b"]', ['What does "done" mean?', "b"]),
        ('["Say "hi", and go", "He said "no""]', ['Say "hi", and go', 'He said "no"']),
        ("['it's here', 'b']", ["it's here", "b"]),
        ('["a" "b", "He said, "no" twice"]', ["a", "b", 'He said, "no" twice']),
    ],
)
def test_a_text_is_not_cut_at_quotes_of_its_own(reply: str, expected: list[str]) -> None:
    assert texts(reply, TEXTS) == expected


def test_a_flood_of_fields_that_nobody_asked_for_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from skillrun.types import schemas

    compared: list[str] = []

    def near(name: str, _: object) -> str:
        compared.append(name)
        return ""

    monkeypatch.setattr(schemas, "did_you_mean", near)
    more = ", ".join(f'"x{at}": 1' for at in range(200))
    value, dropped, _ = salvage_items(f"{JA[:-1]}, {more}}}", SCHEMA)
    assert value == {"questions": [A]}
    assert {one.path for one in dropped} == {f"questions[0].x{at}" for at in range(200)}
    assert len(compared) < 1_000, "by the square it would be 40,000"
