"""Every event that a run writes to its transcript can be read."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields
from pathlib import Path

import pytest

from skillrun.events import Asked, Event, EventStream, Notice
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.event_lines import EVENT_TYPES
from skillrun.store.local import transcript
from skillrun.store.local.transcript import TRANSCRIPT, LocalTranscript, read_events
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


def test_a_question_is_on_disk_before_the_user_can_answer_in_another_terminal(tmp_path: Path) -> None:
    async def write() -> str:
        transcript = LocalTranscript(ConfinedFolder(tmp_path))
        transcript.write_event(Notice("before"))
        transcript.write_event(Asked("w/p/s@1", "p", ({"id": "s", "text": "Sure?"},)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        written = (tmp_path / TRANSCRIPT).read_text()
        transcript.close()
        return written

    (tmp_path / ".run").mkdir()
    assert [json.loads(line)["event"] for line in asyncio.run(write()).splitlines()] == ["Notice", "Asked"]


@pytest.mark.finding("FC5")
@pytest.mark.parametrize("follow", [False, True])
def test_only_the_last_events_of_a_huge_transcript_are_read(
    tmp_path: Path, follow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "MAX_EVENTS", 3)
    (tmp_path / TRANSCRIPT).parent.mkdir()
    lines = [json.dumps(Notice(str(number)).to_dict()) for number in range(5)]
    read: list[list[str]] = []
    with ConfinedFolder(tmp_path) as folder:
        for text in ("", *("\n".join(lines[:end]) + "\n" for end in (3, 5))):
            (tmp_path / TRANSCRIPT).write_text(text)
            read.append([event["text"] for event in read_events(folder, follow=follow)])
    assert read == [[], ["0", "1", "2"], ["only the last 200,000 events of the transcript are read", "2", "3", "4"]]
