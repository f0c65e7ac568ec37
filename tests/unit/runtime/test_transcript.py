"""Reading a transcript back: every event that a run writes is one that can be read."""

from __future__ import annotations

from dataclasses import fields

import pytest

from skillrun.runtime.transcript import CHECKS, KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_event_has_a_check(kind: str) -> None:
    assert {str(field.type) for field in fields(KINDS[kind])} <= CHECKS.keys()
