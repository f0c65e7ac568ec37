"""Headings stand in the first column, outside fences."""

import pytest

from skillrun.language.document import outline


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
    assert outline(text, 0)[1] == escapes
