"""Reading JSON from model replies."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.structured_output.values import MAX_REPLY, parse_reply
from skillrun.types.samples import sample

QUESTION = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "priority": {"type": "integer", "minimum": 1, "maximum": 5},
        "note": {"type": "string"},
    },
    "required": ["text", "priority"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": QUESTION}},
    "required": ["questions"],
    "additionalProperties": False,
}
VALUE = {"questions": [{"text": "Who pays {for} it? [x] ```", "priority": 2}]}
REPLY = json.dumps(VALUE)

pytestmark = pytest.mark.row("B4")


DECOY = '{"questions": []}'


@pytest.mark.parametrize(
    "text",
    [
        REPLY,
        f"\n  {REPLY}\n",
        f"```json\n{REPLY}\n```",
        f"```\n{json.dumps(VALUE, indent=2)}\n```",
        f"Here is what you asked for:\n\n~~~~ JSON\n{REPLY}\n~~~~\nAnything else?",
        f"I have read [1] and {{this}}, arr[0], arr[], {{}} and [x](y.md); so:\n{REPLY}\n- [ ] as in [2]\n- [x] done",
        f"First:\n{REPLY}\nOnce more:\n```json\n{json.dumps(VALUE, indent=2)}\n```",
        f"That is {REPLY}, so here it is alone:\n\n{REPLY}",
        REPLY.replace('"priority": 2', '"note": null, "priority": 2'),
        REPLY.replace("2", '"2"'),
        REPLY.replace("2", "2.0"),
    ],
)
def test_the_value_is_found_in_any_surrounding_text(text: str) -> None:
    assert parse_reply(text, SCHEMA) == (VALUE, [])


@pytest.mark.row("Z4")
@pytest.mark.finding("FZ7")
@pytest.mark.parametrize(
    "text",
    [
        f"README asks me to answer {DECOY}. I do not:\n{REPLY}",
        f"{DECOY}\n{REPLY}",
        f"{REPLY}\n{DECOY}",
        f"```json\n{DECOY}\n```\nis what they want. Mine:\n```json\n{REPLY}\n```",
        f"```json\n{DECOY}\n```\nis what they want. Mine:\n{json.dumps(VALUE['questions'])}",
        f"```json\n{DECOY}\n```\nis what they want. Mine:\n{json.dumps({'Questions': VALUE['questions']})}",
        f"```json\n{DECOY}\n```\nis what they want. Mine:\n{json.dumps({'result': VALUE})}",
        f"{DECOY}\n{json.dumps(VALUE | {'more': 1})}",
        f'{{"thinking": "first"}}\n{REPLY}',
    ],
)
def test_several_different_values_are_rejected(text: str) -> None:
    value, errors = parse_reply(text, SCHEMA)
    assert value is None
    assert [error.message for error in errors] == [
        "the reply contains 2 different JSON values; send only the intended one"
    ]


@pytest.mark.row("Z4")
@pytest.mark.finding("FZ7")
@pytest.mark.parametrize(
    "text",
    [
        f"{DECOY}\n{REPLY[:-3]}",  # cut off
        f"{DECOY}\n{REPLY.replace('2}', '2,}')}",
        f"{DECOY}\n{REPLY.replace(chr(34), chr(39))}",  # as Python writes it
        f"{DECOY}\n{{questions: [{{text: 'a', priority: 1}}]}}",
        f"{DECOY}\n{{“questions”: []}}",
        f"{DECOY}\n{{// mine\n{REPLY[1:]}",
        f"{REPLY[:-1]}\n{DECOY}",
        f"[\n{DECOY}\n, oops]",
        f'["a", \n{DECOY}\n',
        '{"questions": [], "questions": [{"text": "a", "priority": 1}]}',
        '{"questions": [{"text": "a", "priority": 1}], "q\\u0075estions": []}',
        '{"questions": [{"text": "a", "priority": 1}], "questions\\u0000": []}',
        f"{DECOY} {'[0] ' * 2000}\n{REPLY}",
    ],
)
def test_malformed_json_next_to_a_value_is_not_ignored(text: str) -> None:
    value, errors = parse_reply(text, SCHEMA)
    assert value is None
    assert len(errors) == 1


@pytest.mark.row("Z4")
@pytest.mark.finding("FZ7")
@pytest.mark.parametrize("text", [f"The text asks for {DECOY}. Who pays?", f"`{DECOY}`", f"> {DECOY}"])
def test_a_value_inside_a_sentence_is_a_quotation(text: str) -> None:
    value, errors = parse_reply(text, SCHEMA)
    assert value is None
    assert "part of a sentence" in errors[0].message


@pytest.mark.finding("FZ7")
def test_json_inside_a_string_of_the_value_is_text() -> None:
    value = {"questions": [{"text": f"They want {DECOY} and ```json\n{DECOY}\n```", "priority": 1}]}
    assert parse_reply(json.dumps(value), SCHEMA) == (value, [])
    assert parse_reply(f"So:\n```json\n{json.dumps(value, indent=1)}\n```\n", SCHEMA) == (value, [])


@pytest.mark.finding("FZ7")
def test_a_bare_list_is_never_read_as_a_record() -> None:
    for text in (json.dumps(VALUE["questions"]), "[]", "arr[]", "- [ ] to do"):
        value, errors = parse_reply(text, SCHEMA)
        assert errors
        assert not isinstance(value, dict)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the reply contains no JSON"),
        ("I would rather not.", "the reply contains no JSON"),
        (REPLY[:-3], "the JSON is invalid: Expecting ',' delimiter, line 1"),
        (f"So:\n{REPLY}\n".replace('"', "'"), "line 2 starts an object with unquoted names"),
        ('{"questions": NaN}', "NaN is not valid JSON"),
        ('{"questions": 1e999}', "the number `1e999` is too large"),
        ('{"questions": ' + "9" * 5000 + "}", "is too long"),
        ("[" * 100_000, "nested more than 25 levels deep"),
        ("[" * 30 + "]" * 30, "nested more than 25 levels deep"),
        (DECOY[:-1] + ', "questions": 1}', "the field `questions` is given twice"),
        ("x" * (MAX_REPLY + 1), "the reply is longer than 1,000,000 characters"),
    ],
)
def test_an_unreadable_reply_has_one_error_and_no_value(text: str, message: str) -> None:
    value, errors = parse_reply(text, SCHEMA)
    assert value is None
    assert [error.path for error in errors] == [""]
    assert message in errors[0].message


@pytest.mark.finding("FZ19")
def test_infinite_and_oversized_numbers_are_rejected() -> None:
    for number in ("1e999", "-1e999", "Infinity", "-Infinity", "NaN", "1" * 400, "0.1e400"):
        value, errors = parse_reply(f'{{"t": {number}}}', {"type": "object", "properties": {"t": {"type": "number"}}})
        assert (value, len(errors)) == (None, 1)


def test_an_invalid_value_is_returned_with_its_errors() -> None:
    value, errors = parse_reply('{"questions": [{"text": "a", "priority": 9}]}', SCHEMA)
    assert value == {"questions": [{"text": "a", "priority": 9}]}
    assert [(error.path, error.message) for error in errors] == [
        ("questions[0].priority", "`priority` is `9`; allowed: 1 to 5")
    ]


def test_an_authors_schema_can_require_a_single_value_or_a_list() -> None:
    assert parse_reply(" 7 ", {"type": "integer"}) == (7, [])
    assert parse_reply('"yes"', {"enum": ["yes", "no"]}) == ("yes", [])
    assert parse_reply("So:\n[1, 2]", {"type": "array", "items": {"type": "integer"}}) == ([1, 2], [])


@pytest.mark.parametrize("text", ["roles[0]:\n[1, 2]", "[3[4]]", "[1,\n[2]", "[1]\n[2]", '{"a": 1}\n[1]'])
def test_stray_brackets_are_not_ignored_when_the_schema_is_a_list(text: str) -> None:
    value, errors = parse_reply(text, {"type": "array", "items": {"type": "integer"}})
    assert (value, len(errors)) == (None, 1)


@pytest.mark.finding("FM3", "FZ9")
def test_invalid_characters_are_replaced_in_values_and_keys() -> None:
    value, _ = parse_reply('{"questions": [{"text": "a\\ud800b\\u2028c\\u001b[1md", "priority": 1}]}', SCHEMA)
    assert value["questions"][0]["text"] == "a\ufffdb\ncd"
    value, _ = parse_reply('{"k\\udfff": "\\ud83d\\ude00"}', {})
    assert value == {"k\ufffd": "\N{GRINNING FACE}"}


@pytest.mark.parametrize(
    "text",
    [
        *("{" * 300_000, "[{" * 200_000, '{"a":' * 100_000, "[" * 5_000 + "]" * 5_000, '"' * 300_000, "[0" * 400_000),
        *('[1,"' * 200_000, "{ " * 300_000, "[ " * 300_000, "`" * 300_000, "{a" * 300_000, "[0]\n" * 200_000),
    ],
)
def test_hostile_text_is_rejected_quickly(text: str) -> None:
    start = time.process_time()
    value, errors = parse_reply(text, SCHEMA)
    assert errors
    assert value is None or isinstance(value, dict)
    assert time.process_time() - start < 5


SURROUNDING = st.text(alphabet=st.characters(exclude_characters="{[", exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(SURROUNDING, SURROUNDING, st.text(max_size=4), st.booleans())
def test_a_valid_reply_is_read_between_any_texts(before: str, after: str, seed: str, indented: bool) -> None:
    value = sample(SCHEMA, seed)
    serialized = json.dumps(value, indent=2 if indented else None)
    assert parse_reply(f"{before}\n{serialized}\n{after}", SCHEMA) == (value, [])


PROSE = st.text(alphabet="ab 1.,:`>-\n{}[]\"'", max_size=20)


@pytest.mark.row("Z4")
@pytest.mark.finding("FZ7")
@given(st.lists(PROSE, min_size=3, max_size=3), st.text(max_size=4), st.booleans(), st.booleans())
def test_a_decoy_near_the_real_value_is_never_returned(prose: list[str], seed: str, fenced: bool, first: bool) -> None:
    real = sample(SCHEMA, seed)
    serialized = json.dumps(real, indent=2 if fenced else None)
    parts = [DECOY, f"```json\n{serialized}\n```" if fenced else serialized]
    before, after = parts if first else parts[::-1]
    value, errors = parse_reply(f"{prose[0]}{before}{prose[1]}{after}{prose[2]}", SCHEMA)
    assert errors or value == real


@given(st.text(max_size=60) | JSON.map(json.dumps) | st.text(alphabet='{}[]",:1 \\u', max_size=40))
def test_no_text_raises_and_a_value_without_errors_is_valid(text: str) -> None:
    value, errors = parse_reply(text, SCHEMA)
    assert errors or set(value) == {"questions"}
    json.dumps(value, ensure_ascii=False).encode("utf-8")


@pytest.mark.finding("FZ7")
@pytest.mark.row("Z4")
def test_a_value_on_the_line_of_a_fence_is_not_ignored() -> None:
    text = '```{"a": 1}\n{"a": 2}\n```'
    value, errors = parse_reply(text, {"type": "object", "properties": {"a": {"type": "integer"}}})
    assert value is None
    assert errors
