"""Punctuation of sentences that combine text of a template and of a model."""

import pytest

from skillrun.questions.answers import remove_double_stops


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It has no clear owner.. What now?", "It has no clear owner. What now?"),
        ("Who owns it?. It waits!.", "Who owns it? It waits!"),
        ('He said "no"..', 'He said "no".'),
        ("And so on... It continues…", "And so on... It continues…"),
        ("It is in .. and in ../notes, a..b; 1..5", "It is in .. and in ../notes, a..b; 1..5"),
    ],
)
def test_a_full_stop_of_the_value_and_one_of_the_template_are_merged(text: str, expected: str) -> None:
    assert remove_double_stops(text) == expected
    assert remove_double_stops(expected) == expected
