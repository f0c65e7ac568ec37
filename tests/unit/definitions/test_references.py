"""The references of a phase."""

from __future__ import annotations

import pytest

from skillrun.definitions.reader import Reader
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Source
from skillrun.syntax.yaml import parse_yaml


def messages(text: str) -> list[str]:
    problems, source = Problems(), Source.of(text)
    node = parse_yaml(source, 0, len(source.text), problems)
    assert node is not None
    Reader(problems).read_references(node)
    return [problem.message for problem in problems]


@pytest.mark.row("P18", "R2")
@pytest.mark.finding("FR110")
@pytest.mark.parametrize("second", ["style", "{skill: style, when: inputs.long}", "{skill: style}"])
def test_a_reference_that_is_listed_twice_is_a_problem(second: str) -> None:
    assert messages(f"[style, {second}]") == ["`style` is listed twice, so prompts would contain its text twice"]


@pytest.mark.row("P18", "R2")
@pytest.mark.finding("FR110")
def test_a_reference_with_two_conditions_is_no_problem() -> None:
    assert messages("[{skill: style, when: inputs.long}, {skill: style, when: inputs.strict}, other]") == []
