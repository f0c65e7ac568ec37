"""The size, names and wording of the code stay within their limits."""

from __future__ import annotations

import ast

import pytest

from tests.measures import Measure, find_duplicate_classes, measure_all


@pytest.mark.parametrize("measure", measure_all(), ids=lambda measure: measure.name)
def test_a_measure_is_within_its_limit(measure: Measure) -> None:
    assert measure.holds, f"{measure.value} instead of {measure.limit}; see `make measure`"


def test_duplicate_class_names_are_found() -> None:
    trees = [ast.parse("class A: ...\nclass _B: ..."), ast.parse("class A: ...\nclass _B: ...")]
    assert find_duplicate_classes(trees) == ["A"]
