"""Requests are made once: resume, retry, dev and dry runs follow from the journal."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial

import pytest

from skillrun.models.messages import ModelError
from skillrun.replay import (
    ASKS,
    CALLS,
    READS,
    TOOL_CALLS,
    Body,
    Effect,
    RefusedInDryRun,
    Replay,
    RequestFailed,
    attempt_address,
    fingerprint_json,
    fingerprint_questions,
    fingerprint_text,
    round_address,
    turn_address,
)
from skillrun.store.memory import MemoryJournal

EXECUTES = Effect("executes", "tool")
EVERYTHING = ["file", "model", "user", "command"]


@dataclass
class World:
    """Everything outside the process, with a list of the requests that were performed."""

    failures: list[ModelError] = field(default_factory=list)
    crashes_at: str = ""
    performed: list[str] = field(default_factory=list)

    async def perform(self, name: str) -> Body:
        self.performed.append(name)
        if name == self.crashes_at:
            raise KeyboardInterrupt
        if name == "model" and self.failures:
            raise self.failures.pop()
        return {"text": f"{name} {len(self.performed)}"}


def evaluate(replay: Replay, world: World, prompt: str = "Review") -> list[Body]:
    """Evaluate a workflow that reads a file, calls a model, asks a user and executes a command."""

    async def workflow() -> list[Body]:
        requests: list[tuple[Effect, str, str, str]] = [
            (READS, "w/p/read@1.1", fingerprint_text("*.md"), "file"),
            (CALLS, "w/p/review/critic/1.1", fingerprint_json([prompt]), "model"),
            (ASKS, "w/p/approve@1", fingerprint_questions([{"text": "Continue?"}]), "user"),
            (EXECUTES, "w/p/deploy@1", fingerprint_text("make deploy"), "command"),
        ]
        results = []
        for effect, address, fingerprint, name in requests:
            perform = partial(world.perform, name)
            result = await replay.once(effect, address, fingerprint, perform, ModelError.from_dict)
            results.append(result.body)
        return results

    return asyncio.run(workflow())


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


def test_resume_repeats_no_request(journal: MemoryJournal) -> None:
    first, later = World(), World()
    results = evaluate(Replay(journal), first)
    assert first.performed == EVERYTHING
    assert evaluate(Replay(journal), later) == results
    assert later.performed == []


def test_dev_calls_only_the_edited_prompt_and_reads_files_again(journal: MemoryJournal) -> None:
    evaluate(Replay(journal), World())
    edited = World()
    evaluate(Replay(journal, lambda effect, _address: effect == READS), edited, prompt="Criticise")
    assert edited.performed == ["file", "model"]


def test_an_unchanged_file_is_recorded_once(journal: MemoryJournal) -> None:
    async def read() -> Body:
        return {"text": "same"}

    replay = Replay(journal, lambda _effect, _address: True)
    for _ in range(2):
        asyncio.run(replay.once(READS, "w/p/read@1.1", "f", read))
    assert len(list(journal.entries("tool"))) == 1


def test_after_a_crash_only_the_unfinished_request_is_repeated(journal: MemoryJournal) -> None:
    with pytest.raises(KeyboardInterrupt):
        evaluate(Replay(journal), World(crashes_at="user"))
    later = World()
    evaluate(Replay(journal), later)
    assert later.performed == ["user", "command"]


def test_a_final_failure_is_replayed_without_a_request(journal: MemoryJournal) -> None:
    with pytest.raises(ModelError, match="overloaded"):
        evaluate(Replay(journal), World([ModelError("overloaded", "overloaded")]))
    later = World()
    with pytest.raises(ModelError, match="overloaded") as caught:
        evaluate(Replay(journal), later)
    assert later.performed == []
    assert caught.value.is_replayed


def test_a_failure_that_the_user_can_fix_is_not_recorded(journal: MemoryJournal) -> None:
    with pytest.raises(ModelError, match="wrong key"):
        evaluate(Replay(journal), World([ModelError("auth", "wrong key")]))
    later = World()
    evaluate(Replay(journal), later)
    assert later.performed == ["model", "user", "command"]


def test_a_dry_run_executes_no_command(journal: MemoryJournal) -> None:
    world = World()
    with pytest.raises(RefusedInDryRun, match="w/p/deploy@1 executes something"):
        evaluate(Replay(journal, is_dry_run=True), world)
    assert world.performed == ["file", "model", "user"]


def test_tool_calls_are_not_reads() -> None:
    """A changed file is read again by its step, but does not affect finished conversations."""
    assert TOOL_CALLS != READS


def test_addresses_contain_round_attempt_and_turn() -> None:
    assert round_address("w/p/s", "2.1") == "w/p/s@2.1"
    assert attempt_address("w/p/s@2", 1) == "w/p/s@2.1"
    assert turn_address("w/p/s/m", 2, 3) == "w/p/s/m/2.3"


def test_fingerprints_do_not_change() -> None:
    """Entries of existing journals are found by them."""
    assert fingerprint_text("a").startswith("ca978112ca1bbdca")
    assert fingerprint_json({"b": [1, "ä"], "a": None}).startswith("5d4c789751acdad9")
    assert fingerprint_questions([{"text": "ä", "id": "q"}]).startswith("810ce0bd02793d2e")


def test_a_failed_request_must_define_its_record() -> None:
    with pytest.raises(NotImplementedError):
        RequestFailed("no reply").to_dict()
