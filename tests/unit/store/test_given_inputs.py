"""The inputs that the user gave are values: a later change of a value takes the grant away."""

from __future__ import annotations

import pytest

from skillrun.store.seal import NO_INPUTS, GivenInputs, restore_given_inputs
from skillrun.store.state import State

pytestmark = [pytest.mark.row("Z7"), pytest.mark.finding("FS1", "FS3")]


def test_an_input_is_given_while_it_has_the_given_value() -> None:
    given = GivenInputs({"repo": "/code", "place": "a"})
    assert given.matching({"repo": "/code", "place": "a", "other": "/etc"}) == {"repo": "/code", "place": "a"}
    assert given.matching({"repo": "/etc", "place": "a"}) == {"place": "a"}
    assert given.matching({}) == {}
    assert NO_INPUTS.matching({"repo": "/code"}) == {}


def test_a_sealed_state_gives_the_values_that_it_has_now() -> None:
    """A later `fallback` or edit changes the state in memory, and not what was given."""
    state = State("w", "2026-01-01T00:00:00Z", {"repo": "/code", "what": "x"}, {}, typed=["repo", "gone"])
    given = restore_given_inputs(state)
    state.inputs["repo"] = "/etc"
    assert given.values == {"repo": "/code"}
    assert given.matching(state.inputs) == {}
