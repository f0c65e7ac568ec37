"""Headings start in the first column, outside code fences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.document import find_headings
from skillrun.templates.absent import ABSENT
from skillrun.templates.functions import section


def names(text: str) -> list[str]:
    return [heading.name for heading in find_headings(text, 0)[0]]


@pytest.mark.parametrize(
    ("text", "found"),
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
def test_headings_stand_in_the_first_column_outside_fences(text: str, found: list[str]) -> None:
    assert names(text) == found


@pytest.mark.parametrize(
    ("text", "escapes"),
    [
        ("\\## a\n\\## b\n", [0, 6]),
        ("```\n\\## a\n```\n", []),
        ("    \\## a\n", []),
        ("\\### a\n\\##a\nx \\## a\n", []),
    ],
)
def test_an_escape_counts_outside_code_only(text: str, escapes: list[int]) -> None:
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
def test_a_section_of_a_text_begins_at_each_heading_and_at_no_other(lines: list[str]) -> None:
    numbered = [f"## h{number}" if line == "## " else line for number, line in enumerate(lines)]
    text = "\n".join(numbered)
    wanted = [line.removeprefix("## ") for line in numbered if line.startswith("## h")]
    assert [name for name in wanted if section(text, name) is not ABSENT] == [
        name for name in names(text) if name in wanted
    ]


@pytest.mark.finding("FL15")
def test_a_backtick_behind_a_fence_makes_it_none() -> None:
    text = "``` a`b\n## one\nfirst\n```\n## no\n```\n## two\n"
    assert names(text) == ["one", "two"]
    assert section(text, "one") == "first\n```\n## no\n```"
    assert section(text, "no") is ABSENT
