"""Headings are found where CommonMark sees them, quickly where nothing but fences can hide one."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.language import headings
from skillrun.language.headings import outline


def names(text: str) -> list[str]:
    return [heading.name for heading in outline(text, 0)[0]]


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
        ("   ## a\n", ["a"]),
        ("    ## code\n", []),
        ("```\n## no\n```\n## a\n", ["a"]),
        ("~~~~ md\n## no\n~~~\n```\n## no\n~~~~~ \n## a\n", ["a"]),
        ("``` a`b\n## a\n", ["a"]),
        ("```\n## no\n", []),
        ("- item\n  ```\n  ## no\n## a\n```\n## no\n```\n", ["a"]),
        ("- item\n\n  ## nested\n", []),
        ("> ## quoted\n## a\n", ["a"]),
        ("<!-- ## no -->\n## a\n", ["a"]),
        ("<!--\n## no\n\n## no\n-->\n## a\n", ["a"]),
        ("<div>\n## no\n\n## a\n", ["a"]),
        ("<context>\n## no\n</context>\n", []),
        ("a <b\n## a\n", ["a"]),
        ("<b\n## a\n", ["a"]),
        ("\\## text\n", []),
    ],
)
def test_headings_are_where_commonmark_sees_them(text: str, found: list[str]) -> None:
    assert names(text) == found


@pytest.mark.parametrize(
    ("text", "escapes"),
    [
        ("\\## a\n  \\## b\n", [0, 8]),
        ("```\n\\## a\n```\n", []),
        ("    \\## a\n", []),
        ("\\### a\n\\##a\nx \\## a\n", []),
    ],
)
def test_an_escape_counts_outside_code_only(text: str, escapes: list[int]) -> None:
    assert outline(text, 0)[1] == escapes


LINES = st.sampled_from(
    [
        *["## a", "\\## a", "##", "  ## b", "    ## c", "\t## c", "### d", "# e", "text", "", " ", "---", "==="],
        *["```", "````", "~~~", "``` a`b", "~~~ x", "  ```", "    ```", "\t```", "- ```", "  ~~~"],
        *["- a", "1. b", "  c", "   d", "> e", "> ```", ">", "- ", "* * *", "[a]: b", "'title"],
        *[
            "<div>",
            "</div>",
            "<a>",
            "<a",
            "< b",
            "<!-- x -->",
            "<!--",
            "-->",
            "<script>",
            "</script>",
            "<?x?>",
            "  <b>",
        ],
    ]
)


@given(st.lists(LINES, max_size=14))
def test_reading_by_lines_agrees_with_the_parser(lines: list[str]) -> None:
    text = "\n".join(lines)
    by_lines = headings._by_lines(text, 0)
    if by_lines is not None:
        assert by_lines == list(headings._by_parser(text, 0))


def test_the_markdown_parser_is_loaded_only_when_it_is_needed() -> None:
    code = (
        "import sys\n"
        "from skillrun.language.headings import outline\n"
        "outline('## a\\n```\\n## b\\n```\\n', 0)\n"
        "assert 'markdown_it' not in sys.modules\n"
        "outline('- x\\n  ## a\\n', 0)\n"
        "assert 'markdown_it' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
