"""Offsets in the current text, mapped to the last checked text."""

import pytest

from skillrun.extensions.lsp.symbol_index import map_offset

pytestmark = pytest.mark.row("A5")


@pytest.mark.parametrize(
    ("before", "after", "offset", "expected"),
    [
        ("abc def", "abc def", 5, 5),
        ("abc def", "abcX def", 2, 2),
        ("abc def", "abcX def", 5, 4),
        ("abc def", "abc f", 4, 4),
        ("abc def", "abc f", 5, 7),
        ("abc def", "abXXX def", 4, 2),
        ("aaa", "aaaa", 4, 3),
        ("", "abc", 2, 0),
    ],
)
def test_an_offset_is_mapped_to_the_text_before_the_edit(before: str, after: str, offset: int, expected: int) -> None:
    assert map_offset(before, after, offset) == expected
