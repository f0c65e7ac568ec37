"""YAML is parsed to nodes; unsupported YAML is reported at its place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Source, to_plain
from skillrun.syntax.yaml import MAX_DEPTH, parse_yaml


def parse(text: str, start: int = 0) -> tuple[Node | None, list[Problem]]:
    problems = Problems()
    source = Source.of(text)
    return parse_yaml(source, start, len(source.text), problems), list(problems)


def parse_value(text: str) -> Any:
    node, problems = parse(text)
    assert not problems
    assert node
    return to_plain(node)


def problem_places(text: str) -> list[tuple[int, int, str]]:
    return [(problem.line, problem.column, problem.code) for problem in parse(text)[1]]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        *[(word, None) for word in ("", "~", "null", "Null", "NULL")],
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[("0", 0), ("-12", -12), ("+3", 3), ("007", 7), ("0o17", 15), ("0xfF", 255)],
        *[("1.5", 1.5), ("-.5", -0.5), ("1.", 1.0), ("2e3", 2000.0), ("1.5E-1", 0.15)],
        *[
            (word, word)
            for word in ("on", "off", "yes", "no", "y", "n", "nUll", "tRue", "22:22", "2024-01-02", "1_000")
        ],
        *[(word, word) for word in (".inf", ".nan", "0b1", "-0x1", "1.2.3", ".", "--", "+", "=")],
    ],
)
def test_plain_scalars_follow_yaml_1_2(source: str, expected: object) -> None:
    parsed = parse_value(f"- {source}")[0]
    assert (parsed, type(parsed)) == (expected, type(expected))


def test_quoted_scalars_are_text() -> None:
    assert parse_value("""["1", 'true', "null", '']""") == ["1", "true", "null", ""]


def test_only_strings_have_a_text() -> None:
    node, _ = parse("[a, 1, null, true]")
    assert isinstance(node, Sequence)
    assert [isinstance(item, Scalar) and item.text is not None for item in node.items] == [True, False, False, False]


def test_nodes_keep_their_places_in_the_file() -> None:
    text = "---\n# 😀\né: {x: [1, 'b']}\nlist:\n  - a: 1\n    b: 2\n"
    node, _ = parse(text, start=4)
    assert isinstance(node, Mapping)
    entry = node.entries["é"]
    assert (entry.key.span.line, entry.key.span.column) == (3, 1)
    assert (entry.value.span.line, entry.value.span.column) == (3, 4)
    assert isinstance(entry.value, Mapping)
    inner = entry.value.get("x")
    assert isinstance(inner, Sequence)
    assert [item.span.column for item in inner.items] == [9, 12]
    assert node.get("none") is None
    items = node.get("list")
    assert isinstance(items, Sequence)
    assert (items.items[0].span.line, items.items[0].span.column) == (5, 5)


def test_an_empty_text_is_null() -> None:
    assert parse_value("") is None
    assert parse_value("# only a comment\n") is None


def test_a_flow_mapping_key_without_a_value_is_null() -> None:
    assert parse_value("{when: a, then: b, c}") == {"when": "a", "then": "b", "c": None}


def test_duplicate_keys_anchors_tags_and_aliases_are_all_reported() -> None:
    node, problems = parse("a: 1\na: 2\nb: &x text\nc: !t [d]\nd: *x\ne: !u &y\n  f: g\n1: h\n")
    assert [(problem.line, problem.column, problem.code) for problem in problems] == [
        (2, 1, "duplicate-key"),
        (3, 4, "anchor"),
        (4, 4, "tag"),
        (5, 4, "alias"),
        (6, 4, "anchor"),
        (6, 4, "tag"),
        (8, 1, "key"),
    ]
    assert node
    assert to_plain(node) == {"a": 1, "b": "text", "c": ["d"], "d": None, "e": {"f": "g"}}
    assert problems[0].hint == "the key is first given on line 1"


def test_a_second_document_is_rejected() -> None:
    assert problem_places("a: 1\n---\nb: 2\n") == [(2, 1, "documents")]
    assert parse_value("---\na: 1\n") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a: {{ b }}\nc: {{ d }}\n", [(1, 4, "unquoted")]),
        ("- [x, {{ b | c(d, d) }}]\n", [(1, 7, "unquoted")]),
        ("{{ b }}: c\n", [(1, 1, "unquoted")]),
        ("a: {{ b }} c\n", [(1, 4, "unquoted")]),
        ("a: {{ b['c'] }}\n", [(1, 4, "unquoted")]),
        ("a: {{ b | join(', ') }}\n", [(1, 4, "unquoted")]),
        ("a: {% if b %}\n", [(1, 4, "unquoted")]),
        ("a: {{ {b: {c: d}} }}\n", [(1, 4, "unquoted")]),
        ("a: 1\na: 2\nc: {{ b }}\n", [(2, 1, "duplicate-key"), (3, 4, "unquoted")]),
    ],
)
def test_an_unquoted_template_is_reported_once_at_its_start(text: str, places: list[tuple[int, int, str]]) -> None:
    assert problem_places(text) == places


@pytest.mark.parametrize(
    "text",
    ["{a: 1}: b", "? [a]\n: b", "? {a: 1}\n: b", "{ {a: 1}: b }"],
)
def test_a_list_or_mapping_as_a_key_is_rejected(text: str) -> None:
    assert [code for _, _, code in problem_places(text)] == ["key"]


def test_a_missing_key_is_rejected() -> None:
    assert problem_places("? \n: b\n") == [(1, 2, "key")]


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x7f", "\x85", "\u2028", "\ufeff", "\ud800", "\uffff"])
def test_invisible_characters_are_reported_at_their_place(character: str) -> None:
    assert problem_places(f"a: 1\nb: 😀x{character}y\n") == [(2, 6, "character")]


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "- " * 100_000, "? " * 100_000, "".join(f"{' ' * n}a:\n" for n in range(600))],
)
def test_deep_nesting_is_rejected_quickly(text: str) -> None:
    assert "too-deep" in {code for _, _, code in problem_places(text)}


def test_nesting_up_to_the_limit_is_accepted() -> None:
    assert problem_places("[" * MAX_DEPTH + "]" * MAX_DEPTH) == []
    assert problem_places("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)) == [(1, MAX_DEPTH + 1, "too-deep")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: b\n" * 2_000_000, "too-large"),
        ("a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a, *a]\n" for n in range(10_000)), "too-many"),
        ("a: b\n" * 100_000, "too-many"),
    ],
)
def test_huge_files_and_alias_bombs_are_rejected(text: str, code: str) -> None:
    node, problems = parse(text)
    assert node is None
    assert code in {problem.code for problem in problems}


TRICKY = st.lists(
    st.sampled_from([*"abz{}[]:,-?&*!|>'\"%@`#\\ \n\té😀\u2028", "{{", "}}", ": ", "\n  ", "- ", "\n- "]), max_size=40
).map("".join)


@given(TRICKY)
def test_any_text_is_parsed_or_reported_with_a_place_inside_it(text: str) -> None:
    node, problems = parse(text)
    assert node is not None or problems
    lines = text.split("\n")
    for problem in problems:
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        assert problem.message


@pytest.mark.finding("FZ19")
@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 5000])
def test_a_number_that_is_too_large_is_rejected(number: str) -> None:
    _, problems = parse(f"a: {number}\nb: '{number}'\n")
    assert [(problem.line, problem.column, problem.code) for problem in problems] == [(1, 4, "number")]


@pytest.mark.slow
@pytest.mark.finding("FZ15")
@pytest.mark.row("Z6")
@pytest.mark.parametrize("text", ["a: [" + "a," * 200_000 + "]", "a: [" + "{}," * 100_000 + "]", "- - - -\n" * 40_000])
def test_a_text_with_too_many_values_is_rejected(text: str) -> None:
    problems = Problems()
    assert parse_yaml(Source.of(text), 0, len(text), problems) is None
    assert [problem.code for problem in problems] == ["too-large"]
