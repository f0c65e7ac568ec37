"""Every event that a run writes to its transcript can be read."""

from __future__ import annotations

from dataclasses import fields

import pytest

from skillrun.events import Event, EventStream, Notice
from skillrun.store.event_lines import EVENT_TYPES
from skillrun.types.records import field_checks


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_field_of_every_event_has_a_check(kind: str) -> None:
    assert {field.name for field in fields(EVENT_TYPES[kind])} == field_checks(EVENT_TYPES[kind]).keys()


@pytest.mark.finding("FM9")
def test_a_failing_listener_is_reported_once_and_the_others_still_receive_events() -> None:
    received: list[str] = []

    def fail(_: Event) -> None:
        raise ValueError("broken")

    events = EventStream(fail, lambda event: received.append(getattr(event, "text", "")))
    events.emit(Notice("one"))
    events.emit(Notice("two"))
    assert received == ["a view of this run stopped: broken", "one", "two"]
