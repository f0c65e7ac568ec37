"""Headings start in the first column, outside code fences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.document import find_headings
from skillrun.templates.functions import section
from skillrun.templates.values import ABSENT


def heading_names(text: str) -> list[str]:
    return [heading.name for heading in find_headings(text, 0)[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## a\n## b", ["a", "b"]),
        ("##\ta b \t##  \n", ["a b"]),
        ("## a#\n", ["a#"]),
        ("## ##\n", [""]),
        ("##\n", [""]),
        ("##a\n### b\n# c\n", []),
        ("text\n## a\n", ["a"]),
        ("   ## a\n", []),
        ("    ## code\n", []),
        ("```\n## no\n```\n## a\n", ["a"]),
        ("~~~~ md\n## no\n~~~\n```\n## no\n~~~~~ \n## a\n", ["a"]),
        ("``` a`b\n## a\n", ["a"]),
        ("```\n## no\n", []),
        ("- item\n\n  ## nested\n", []),
        ("> ## quoted\n## a\n", ["a"]),
        ("\\## text\n", []),
    ],
)
def test_headings_start_in_the_first_column_outside_fences(text: str, expected: list[str]) -> None:
    assert heading_names(text) == expected


@pytest.mark.parametrize(
    ("text", "escapes"),
    [
        ("\\## a\n\\## b\n", [0, 6]),
        ("```\n\\## a\n```\n", []),
        ("    \\## a\n", []),
        ("\\### a\n\\##a\nx \\## a\n", []),
    ],
)
def test_an_escaped_heading_counts_only_outside_code(text: str, escapes: list[int]) -> None:
    assert find_headings(text, 0)[1] == escapes


LINES = [
    "```",
    "````",
    "~~~",
    "~~~~ md",
    "``` a`b",
    "```a`",
    "~~~ a`b",
    "  ```",
    "    ```",
    "``` ",
    "```x",
    "``~",
    "text",
    "## #",
]


@pytest.mark.finding("FL15")
@given(st.lists(st.sampled_from(LINES) | st.just("## "), max_size=12))
def test_a_section_begins_at_each_heading_and_nowhere_else(lines: list[str]) -> None:
    numbered = [f"## h{number}" if line == "## " else line for number, line in enumerate(lines)]
    text = "\n".join(numbered)
    expected = [line.removeprefix("## ") for line in numbered if line.startswith("## h")]
    assert [name for name in expected if section(text, name) is not ABSENT] == [
        name for name in heading_names(text) if name in expected
    ]


@pytest.mark.finding("FL15")
def test_an_opening_fence_cannot_contain_a_backtick() -> None:
    text = "``` a`b\n## one\nfirst\n```\n## no\n```\n## two\n"
    assert heading_names(text) == ["one", "two"]
    assert section(text, "one") == "first\n```\n## no\n```"
    assert section(text, "no") is ABSENT
