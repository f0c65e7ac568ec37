"""A markdown file is frontmatter, a preface and named sections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.document import check_sections, parse_config, parse_document
from skillrun.syntax.source import Document, Mapping, Source, to_plain


def parse(text: str) -> tuple[Document | None, list[Problem]]:
    problems = Problems()
    return parse_document(Source.of(text), problems), list(problems)


def parse_valid(text: str) -> Document:
    document, problems = parse(text)
    assert not problems
    assert document
    return document


def test_a_file_has_frontmatter_a_preface_and_sections() -> None:
    document = parse_valid("---\nkind: phase\n---\nHelp.\n\n## one\nFirst.\n\n\n## two ##\n\nSecond.\n")
    assert to_plain(document.frontmatter) == {"kind": "phase"}
    assert document.preface.value == "Help."
    assert [(section.name, section.text.value) for section in document.sections] == [
        ("one", "First."),
        ("two", "\nSecond."),
    ]
    assert [section.heading.line for section in document.sections] == [6, 10]
    assert [section.text.at(0).line for section in document.sections] == [7, 11]
    assert document.body.value.startswith("Help.\n\n## one\n")


@pytest.mark.parametrize("text", ["", "Just text.\n"])
def test_a_file_without_frontmatter_has_an_empty_mapping(text: str) -> None:
    document = parse_valid(text)
    assert document.frontmatter.entries == {}
    assert document.body.value == text


@pytest.mark.parametrize("text", ["---\n---\nBody\n", "---\n# nothing yet\n---  \nBody\n"])
def test_frontmatter_may_be_empty(text: str) -> None:
    document = parse_valid(text)
    assert document.frontmatter.entries == {}
    assert document.body.value == "Body\n"


def test_windows_line_ends_and_a_byte_order_mark_are_accepted() -> None:
    document = parse_valid("\N{ZERO WIDTH NO-BREAK SPACE}---\r\nname: x\r\n---\r\n## a\r\ntext\r\n")
    assert to_plain(document.frontmatter) == {"name": "x"}
    assert (document.sections[0].name, document.sections[0].text.value) == ("a", "text")
    assert (document.sections[0].heading.line, document.sections[0].heading.column) == (4, 1)


def test_unclosed_frontmatter_is_reported() -> None:
    document, problems = parse("---\nkind: phase\n## a\n")
    assert document is None
    assert [(problem.line, problem.code) for problem in problems] == [(1, "frontmatter")]


@pytest.mark.parametrize("front", ["- a\n", "text\n", "[]\n", "12\n"])
def test_frontmatter_that_is_not_a_mapping_is_reported(front: str) -> None:
    document, problems = parse(f"---\n{front}---\n")
    assert document is None
    assert [(problem.line, problem.column, problem.code) for problem in problems] == [(2, 1, "yaml")]


def test_section_names_are_present_and_unique() -> None:
    problems = Problems()
    check_sections(parse_valid("---\na: b\n---\n## x\n## y\n## x\n##\n"), problems)
    assert [(problem.line, problem.code) for problem in problems] == [(6, "section"), (7, "section")]
    assert next(iter(problems)).hint == "the first is on line 4"


def test_a_heading_in_a_fence_is_text_and_an_escaped_one_loses_its_backslash() -> None:
    document = parse_valid("## a\n```\n## no\n\\## kept\n```\n\\## Title\nend\n")
    assert [section.name for section in document.sections] == ["a"]
    text = document.sections[0].text
    assert text.value == "```\n## no\n\\## kept\n```\n## Title\nend"
    place = text.at(text.value.index("## Title"))
    assert (place.line, place.column) == (6, 2)
    assert (text.at(text.value.index("end")).line, text.at(text.value.index("end")).column) == (7, 1)


@given(st.lists(st.sampled_from(["## a", "\\## b", "text", "", "```", "é😀", "  \\## c", "<x>", "- d"])))
def test_every_character_of_a_section_maps_to_its_place_in_the_file(lines: list[str]) -> None:
    source = Source.of("---\nx: y\n---\n" + "\n".join(lines))
    document = parse_document(source, Problems())
    assert document
    for text in (document.preface, document.body, *(section.text for section in document.sections)):
        assert [source.text[text.at(offset).offset] for offset in range(len(text.value))] == list(text.value)
    assert len(document.sections) == sum(section.text.source is source for section in document.sections)


def test_a_config_file_is_a_mapping() -> None:
    problems = Problems()
    config = parse_config(Source.of("tiers:\n  strong: x\n"), problems)
    assert isinstance(config, Mapping)
    assert to_plain(config) == {"tiers": {"strong": "x"}}
    assert parse_config(Source.of(""), problems) == Mapping({}, config.span) or not len(problems)
    assert parse_config(Source.of("- a\n"), problems) is None
    assert [problem.code for problem in problems] == ["yaml"]


@pytest.mark.finding("FZ19")
@pytest.mark.parametrize("closing", ["----", " ---", "--", "--1e9-", "—", "\t---  "])
def test_a_damaged_closing_line_of_the_frontmatter_is_reported_at_its_place(closing: str) -> None:
    problems = Problems()
    assert parse_document(Source.of(f"---\na: b\n{closing}\ntext\n"), problems) is None
    [problem] = problems
    assert (problem.line, problem.column) == (3, 1 + len(closing) - len(closing.lstrip()))
    assert "does not end the frontmatter" in problem.message
