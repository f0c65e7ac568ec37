"""Sentences for a person, put together of a template's words and of a model's."""

import pytest

from skillrun.questions.punctuation import remove_double_stops


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("It has no clear owner.. What now?", "It has no clear owner. What now?"),
        ("Who owns it?. It waits!.", "Who owns it? It waits!"),
        ('He said "no"..', 'He said "no".'),
        ("And so on... It goes on…", "And so on... It goes on…"),
        ("It lies in .. and in ../notes, a..b; 1..5", "It lies in .. and in ../notes, a..b; 1..5"),
    ],
)
def test_a_value_that_ends_a_sentence_and_a_template_that_does_make_one_full_stop(text: str, one: str) -> None:
    assert remove_double_stops(text) == one
    assert remove_double_stops(one) == one
