"""Mean, spread and the sign test of a comparison."""

import pytest

from skillrun.extensions.testing.comparison_report import MIN_DECIDED_PAIRS, Verdict, compute_spread


@pytest.mark.row("A3")
def test_the_sign_test_uses_the_binomial_distribution() -> None:
    assert Verdict(0, 0).p_value == 1
    assert Verdict(5, 5).p_value == 1
    assert Verdict(1, 9).p_value == pytest.approx(0.021484375)
    assert Verdict(9, 1).p_value == Verdict(1, 9).p_value
    assert Verdict(MIN_DECIDED_PAIRS, 0).is_significant
    assert not Verdict(MIN_DECIDED_PAIRS - 1, 0).is_significant
    assert not Verdict(7, 3, 5).is_significant


@pytest.mark.row("A3")
def test_a_single_number_has_no_deviation() -> None:
    assert compute_spread([]) is None
    one, three = compute_spread([4]), compute_spread([1, 2, 3])
    assert one is not None
    assert (one.count, one.mean, one.deviation) == (1, 4, None)
    assert three is not None
    assert (three.mean, three.deviation) == (2, 1)
