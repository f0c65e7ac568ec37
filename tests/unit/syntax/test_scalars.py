"""Every character of a YAML string maps to its place in the file, in every style."""

import re
from collections.abc import Iterator

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Source, Text
from skillrun.syntax.yaml import parse_yaml

SPACE = " \t\n\N{NO-BREAK SPACE}"
FRONT = "---\n# ü 😀\nfirst: 'é'\n"


def texts(node: Node | None) -> Iterator[Text]:
    match node:
        case Scalar(text=Text() as text):
            yield text
        case Sequence():
            for item in node.items:
                yield from texts(item)
        case Mapping():
            for entry in node.entries.values():
                yield from texts(entry.key)
                yield from texts(entry.value)


def parse(front: str, body: str) -> list[Text]:
    source = Source.of(front + body)
    return list(texts(parse_yaml(source, len(front), len(source.text), Problems())))


def assert_exact(text: Text) -> None:
    """Assert that the file has each character, or its escape, at its place; spaces may differ."""
    file = text.source.text
    places = [text.at(offset).offset for offset in range(len(text.value) + 1)]
    assert places == sorted(places)
    for character, place in zip(text.value, places, strict=False):
        if character not in SPACE:
            if file[place] == "\\" and character != "\\":
                assert unescape(file, place) == character
            else:
                assert file[place] == character


def unescape(file: str, place: int) -> object:
    match = re.compile(r"\\(?:x..|u....|U.{8}|.)", re.DOTALL).match(file, place)
    assert match
    return yaml.safe_load(f'"{match[0]}"')


def text_of(*parts: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(parts), max_size=40).map("".join)


WORDS = text_of(*"ab'\"\\#:{}%é😀 \n\t\N{BELL}\N{NO-BREAK SPACE}", "  ", "\n\n", "\n  ", ": ", " #")


@pytest.mark.parametrize("style", ["", "'", '"', "|", ">"])
@given(value=WORDS, width=st.integers(4, 30), indent=st.integers(2, 5))
@example(value="a b c d e f", width=4, indent=2)
@example(value="\n a\n\n  b\nc \n", width=4, indent=2)
def test_a_dumped_string_is_parsed_with_the_place_of_each_character(
    style: str, value: str, width: int, indent: int
) -> None:
    document = {"key": ["x", {"inner": value}]}
    dumped = yaml.dump(document, default_style=style or None, width=width, indent=indent, allow_unicode=True)
    assume(yaml.safe_load(dumped) == document)  # PyYAML cannot dump a folded string that starts with a space
    matches = [text for text in parse(FRONT, dumped) if text.value == value]
    assert matches
    for text in matches:
        assert_exact(text)


RAW = text_of(*"ab'\"\\ #é😀\n\t", "''", '\\"', "\\x41", "\\u00e9", "\\\n", "\n\n", "\n  ", " \n")


@pytest.mark.parametrize(
    "form",
    ["k: {}\n", "k: '{}'\n", 'k: "{}"\n', "k: |\n  {}\n", "k: >-\n  {}\n", "- - |+2 # x\n     {}\n", "[a, {}, b]"],
)
@given(raw=RAW)
def test_any_string_that_parses_has_exact_places(form: str, raw: str) -> None:
    for text in parse(FRONT, form.format(raw.replace("\n", "\n  "))):
        assert_exact(text)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("plain", "plain"),
        ("two\n   lines\n\n   three", "two lines\nthree"),
        ("'it''s\n    here'", "it's here"),
        (r'"a\tb \u00e9\x41 \"q\""', 'a\tb éA "q"'),
        ('"joined \\\n      here"', "joined here"),
        ('"fold  \n\n   here"', "fold\nhere"),
        ("|\n    a\n      b\n\n    c\n", "a\n  b\n\nc\n"),
        ("|2-\n    a\n   b\n", "  a\n b"),
        (">- # folded\n   a\n   b\n\n     c\n   d\n", "a b\n\n  c\nd"),
        (">+\n\n   a b\n\n", "\na b\n\n"),
        ("|\n ab", "ab"),
    ],
)
def test_places_are_exact_in_every_style(source: str, value: str) -> None:
    parsed = parse(FRONT, f"k: {source}")
    assert [text.value for text in parsed] == ["k", value]
    assert_exact(parsed[1])


def test_a_place_in_a_folded_string_is_the_line_and_column_of_the_file() -> None:
    text = parse(FRONT, "k: >\n    one\n    two {{ x }}\n")[1]
    place = text.at(text.value.index("{{"))
    assert (place.line, place.column) == (6, 9)
