"""Numbers in YAML that are written otherwise than they are printed, such as `1.10`, `007` and `1e3`."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.questions.answers import Question
from skillrun.questions.prepared_answers import read_answers
from skillrun.syntax.diagnostics import Problems, SkillrunError
from skillrun.syntax.source import Source
from skillrun.syntax.yaml import parse_yaml
from skillrun.types.fields import parse_fields

WORDS = ["1.10", "0123", "007", "1e3", "0x10", "0o7", "+1", ".5", "5.", "True", "FALSE", "yes", "no", "on", "12:30"]
WORDS += ["2024-01-01", "1_000", "-0", "00", "1.0", "5"]
ALTERED = {"1.10": "1.1", "007": "7", "1e3": "1000.0", "0x10": "16", "+1": "1", ".5": "0.5"}
PREPARED = {"answered_by": "prepared"}


@pytest.mark.finding("FX3")
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("form", ["q: {word}", "q: {{answer: {word}}}", "q: [{word}]"])
def test_an_answer_is_the_text_as_it_is_written(tmp_path: Path, word: str, form: str) -> None:
    (tmp_path / "answers.yaml").write_text(form.format(word=word) + "\n")
    question: Question = {"id": "q", "text": "Which?"}
    assert read_answers(tmp_path / "answers.yaml").take("a", question) == {**PREPARED, "answer": word}


@pytest.mark.finding("FX3")
@pytest.mark.parametrize(("word", "chosen"), [("1.10", "1.10"), ("007", "007"), ("2", 2)])
def test_an_answer_selects_the_choice_with_the_same_text(tmp_path: Path, word: str, chosen: object) -> None:
    (tmp_path / "answers.yaml").write_text(f"q: {word}\n")
    question: Question = {"id": "q", "text": "Which?", "choices": ["1.1", "1.10", "7", "007", 2]}
    assert read_answers(tmp_path / "answers.yaml").take("a", question) == {**PREPARED, "answer": chosen}


@pytest.mark.finding("FX3")
@pytest.mark.parametrize("word", ["null", "~", "Null"])
def test_a_null_as_an_answer_in_words_is_refused(tmp_path: Path, word: str) -> None:
    (tmp_path / "answers.yaml").write_text(f"q: {word}\n")
    with pytest.raises(SkillrunError) as caught:
        read_answers(tmp_path / "answers.yaml").take("a", {"id": "q", "text": "Which?"})
    assert f"`{word}` may be a text or no answer" in caught.value.message
    assert caught.value.next_step == f'write `"{word}"` for the text, or `""` to leave the question open'


def field_problems(text: str) -> list[str]:
    problems, source = Problems(), Source.of(text)
    node = parse_yaml(source, 0, len(source.text), problems)
    assert node is not None
    parse_fields(node, problems)
    return [f"{each.severity}: {each.message}" for each in problems]


@pytest.mark.finding("FX3")
@pytest.mark.parametrize(("word", "number"), ALTERED.items())
def test_a_changed_number_among_choices_or_as_a_text_is_refused(word: str, number: str) -> None:
    message = f"error: `{word}` is read as the number {number}"
    assert message in field_problems(f"v: {{type: enum, values: [{word}, b]}}")
    assert message in field_problems(f"v(enum): [{word}, b]")
    assert message in field_problems(f"v: {{type: string, default: {word}}}")
    assert message in field_problems(f"v: {{type: enum, values: [a, b], default: a, fallback: {word}}}")
    assert field_problems(f"v: {{type: enum, values: ['{word}', b], default: '{word}'}}") == []
    assert field_problems("v: {type: enum, values: [1, 2.5, 10], default: 10}") == []


@pytest.mark.finding("FR105")
@pytest.mark.parametrize("written", ["0.50", "1e3", "007"])
@pytest.mark.parametrize("form", ["v: {{type: number, default: {}}}", "v(array): {{type: number, default: [1, {}]}}"])
def test_a_number_for_a_field_of_numbers_causes_no_warning(form: str, written: str) -> None:
    assert field_problems(form.format(written)) == []


@pytest.mark.finding("FR106")
@pytest.mark.parametrize(
    "form",
    [
        "v: {type: string, default: 1.10}",
        "v: {type: string, default: a, fallback: 1.10}",
        "v(array): {type: string, default: [a, 1.10]}",
    ],
)
def test_a_number_in_place_of_a_text_is_one_error(form: str) -> None:
    assert field_problems(form) == ["error: `1.10` is read as the number 1.1"]
    assert len(field_problems(form.replace("1.10", "7"))) == 1
