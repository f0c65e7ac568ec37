"""Calls outlive the turn that has asked them: what becomes of their replies, and what the gate lets out."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from skillrun.models.messages import NULL_LISTENER, AttemptListener, Block, Message, ModelError, Reply, Request, Usage
from skillrun.store.memory import MemoryJournal
from skillrun.watch.in_flight_calls import OBSOLETE, InFlightCalls

pytestmark = pytest.mark.row("A1")


class SlowModel:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, asyncio.Future[str]] = {}
        self.ended: list[str] = []

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        await attempts.on_sent(1)
        self.asked.append(address)
        self.answers[address] = asyncio.get_running_loop().create_future()
        try:
            text = await self.answers[address]
        except asyncio.CancelledError:
            self.ended.append(address)
            raise
        return Reply(text, (), Usage(1, 1), "end", request.model)

    async def close(self) -> None:
        """There is nothing to close."""


def request(text: str = "Say so.") -> Request:
    return Request("scripted:x", (), (Message("user", (Block(text),)),), 100)


def trying(test: Callable[[SlowModel, MemoryJournal, InFlightCalls], Awaitable[None]]) -> None:
    async def within() -> None:
        model, journal = SlowModel(), MemoryJournal()
        calls = InFlightCalls(model, journal)
        await calls.start_evaluation()
        await test(model, journal, calls)
        await calls.close()

    asyncio.run(within())


async def a_moment() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def asked(calls: InFlightCalls, address: str, text: str = "Say so.") -> asyncio.Task[Reply]:
    """A call that is under way."""
    task = asyncio.create_task(calls.send(request(text), address))
    await a_moment()
    return task


async def broken_off(task: asyncio.Task[Reply]) -> None:
    task.cancel()
    await asyncio.wait([task])


def test_nothing_goes_out_before_the_gate_is_opened_nor_while_it_is_paused() -> None:
    async def test(model: SlowModel, _: MemoryJournal, calls: InFlightCalls) -> None:
        task = await asked(calls, "w/p/s/m/1.1")
        assert (calls.gate.call_waiting.is_set(), model.asked) == (True, [])
        calls.gate.set_paused(paused=True)
        calls.gate.open()
        await a_moment()
        assert model.asked == []
        calls.gate.set_paused(paused=False)
        await a_moment()
        assert model.asked == ["w/p/s/m/1.1"]
        model.answers["w/p/s/m/1.1"].set_result("so")
        assert (await task).text == "so"

    trying(test)


def test_the_next_turn_takes_over_a_call_with_the_same_prompt() -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        kept: list[str] = []
        calls.on_reuse = kept.append
        calls.gate.open()
        await broken_off(await asked(calls, "a"))
        await calls.start_evaluation()
        again = await asked(calls, "a")
        assert (kept, model.asked, calls.gate.call_waiting.is_set()) == (["a"], ["a"], False)
        model.answers["a"].set_result("so")
        assert (await again).text == "so"
        assert not list(journal.entries("reply")), "who waits for it puts it on record"

    trying(test)


def test_a_reply_for_which_nobody_waits_is_recorded() -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        calls.gate.open()
        await broken_off(await asked(calls, "a"))
        model.answers["a"].set_result("so")
        await a_moment()
        assert [entry.body["text"] for entry in journal.entries("reply")] == ["so"]
        await calls.start_evaluation()
        assert len(list(journal.entries("reply"))) == 1
        assert not calls.in_flight

    trying(test)


@pytest.mark.parametrize("steps", range(8))
def test_a_reply_that_comes_with_the_end_of_its_turn_is_given_or_recorded(steps: int) -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        calls.gate.open()
        task = await asked(calls, "a")
        model.answers["a"].set_result("so")
        for _ in range(steps):
            await asyncio.sleep(0)
        await broken_off(task)
        await a_moment()
        await calls.start_evaluation()
        given = [] if task.cancelled() else [(await task).text]
        assert [*given, *(entry.body["text"] for entry in journal.entries("reply"))] == ["so"]

    trying(test)


def test_a_call_with_another_prompt_at_its_place_is_ended_and_that_is_on_record() -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        ended: list[str] = []
        calls.on_cancel = ended.append
        calls.gate.open()
        for address in ("a", "b", "c"):
            await broken_off(await asked(calls, address))
        await calls.start_evaluation()
        await calls.cancel_obsolete([("b", request("Otherwise.").fingerprint())])
        assert (ended, model.ended) == (["b"], ["b"]), "of the others nothing is known yet"
        task = await asked(calls, "a", "Otherwise.")
        assert ended == ["b", "a"]
        await calls.finish_evaluation()
        assert ended == ["b", "a", "c"], "the turn has ended and has not asked for it"
        await broken_off(task)
        tried = [(entry.address, entry.body["message"]) for entry in journal.entries("tried")]
        assert tried == [("b", OBSOLETE), ("a", OBSOLETE), ("c", OBSOLETE)]

    trying(test)


def test_a_call_that_fails_while_nobody_waits_is_asked_again() -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        calls.gate.open()
        await broken_off(await asked(calls, "a"))
        model.answers["a"].set_exception(ModelError("overloaded", "too much"))
        await a_moment()
        await calls.start_evaluation()
        calls.gate.open()
        again = await asked(calls, "a")
        assert model.asked == ["a", "a"]
        await broken_off(again)
        assert not list(journal.entries("reply"))

    trying(test)


def test_a_call_without_a_place_at_its_provider_does_not_outlive_its_turn() -> None:
    class FullModel(SlowModel):
        async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
            await asyncio.get_running_loop().create_future()
            return await super().send(request, address, attempts)

    async def within() -> None:
        calls = InFlightCalls(FullModel(), MemoryJournal())
        await calls.start_evaluation()
        calls.gate.open()
        await broken_off(await asked(calls, "a"))
        assert not calls.in_flight

    asyncio.run(within())


def test_another_gateway_gets_what_is_asked_from_now_on() -> None:
    async def test(model: SlowModel, _: MemoryJournal, calls: InFlightCalls) -> None:
        calls.gate.open()
        await broken_off(await asked(calls, "a"))
        other = SlowModel()
        await calls.change_gateway(other)
        assert model.ended == ["a"]
        await broken_off(await asked(calls, "a"))
        assert other.asked == ["a"]

    trying(test)
