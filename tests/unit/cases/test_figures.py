"""Mean, spread and the sign test of a comparison."""

import pytest

from skillrun.extensions.testing.comparison_stats import LEAST, Verdict, spread_of


@pytest.mark.row("A3")
def test_the_sign_test_is_that_of_the_binomial_distribution() -> None:
    assert Verdict(0, 0).chance == 1
    assert Verdict(5, 5).chance == 1
    assert Verdict(1, 9).chance == pytest.approx(0.021484375)
    assert Verdict(9, 1).chance == Verdict(1, 9).chance
    assert Verdict(LEAST, 0).tells
    assert not Verdict(LEAST - 1, 0).tells
    assert not Verdict(7, 3, 5).tells


@pytest.mark.row("A3")
def test_one_number_has_no_spread() -> None:
    assert spread_of([]) is None
    one, three = spread_of([4]), spread_of([1, 2, 3])
    assert one is not None
    assert (one.count, one.mean, one.deviation) == (1, 4, None)
    assert three is not None
    assert (three.mean, three.deviation) == (2, 1)
