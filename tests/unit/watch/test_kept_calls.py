"""Calls outlive the turn that started them: how their replies are used, and which calls the gate releases."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from skillrun.models.messages import NULL_LISTENER, AttemptListener, Block, Message, ModelError, Reply, Request, Usage
from skillrun.store.memory import MemoryJournal
from skillrun.watch.in_flight_calls import OBSOLETE, InFlightCalls

pytestmark = pytest.mark.row("A1")


class SlowModel:
    """Replies when a test sets the reply."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.replies: dict[str, asyncio.Future[str]] = {}
        self.cancelled: list[str] = []

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        await attempts.on_sent(1)
        self.addresses.append(address)
        self.replies[address] = asyncio.get_running_loop().create_future()
        try:
            text = await self.replies[address]
        except asyncio.CancelledError:
            self.cancelled.append(address)
            raise
        return Reply(text, (), Usage(1, 1), "end", request.model)

    async def close(self) -> None:
        """Do nothing."""


def request(text: str = "Say yes.") -> Request:
    return Request("scripted:x", (), (Message("user", (Block(text),)),), 100)


def run_test(test: Callable[[SlowModel, MemoryJournal, InFlightCalls], Awaitable[None]]) -> None:
    async def run() -> None:
        model, journal = SlowModel(), MemoryJournal()
        calls = InFlightCalls(model, journal)
        await calls.start_evaluation()
        await test(model, journal, calls)
        await calls.close()

    asyncio.run(run())


async def run_pending_tasks() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def start_call(calls: InFlightCalls, address: str, text: str = "Say yes.") -> asyncio.Task[Reply]:
    """Start a call and return its task."""
    task = asyncio.create_task(calls.send(request(text), address))
    await run_pending_tasks()
    return task


async def cancel_call(task: asyncio.Task[Reply]) -> None:
    task.cancel()
    await asyncio.wait([task])


def test_no_call_is_sent_before_the_gate_opens_or_while_it_is_paused() -> None:
    async def test(model: SlowModel, _: MemoryJournal, calls: InFlightCalls) -> None:
        task = await start_call(calls, "w/p/s/m/1.1")
        assert (calls.gate.call_waiting.is_set(), model.addresses) == (True, [])
        calls.gate.toggle_pause()
        calls.gate.open()
        await run_pending_tasks()
        assert model.addresses == []
        calls.gate.toggle_pause()
        await run_pending_tasks()
        assert model.addresses == ["w/p/s/m/1.1"]
        model.replies["w/p/s/m/1.1"].set_result("so")
        assert (await task).text == "so"

    run_test(test)


def test_the_next_turn_reuses_a_call_with_the_same_prompt() -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        reused: list[str] = []
        calls.on_reuse = reused.append
        calls.gate.open()
        await cancel_call(await start_call(calls, "a"))
        await calls.start_evaluation()
        second_call = await start_call(calls, "a")
        assert (reused, model.addresses, calls.gate.call_waiting.is_set()) == (["a"], ["a"], False)
        model.replies["a"].set_result("so")
        assert (await second_call).text == "so"
        assert not list(journal.entries("reply")), "the waiting turn records the reply"

    run_test(test)


def test_a_reply_without_a_waiting_turn_is_recorded() -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        calls.gate.open()
        await cancel_call(await start_call(calls, "a"))
        model.replies["a"].set_result("so")
        await run_pending_tasks()
        assert [entry.body["text"] for entry in journal.entries("reply")] == ["so"]
        await calls.start_evaluation()
        assert len(list(journal.entries("reply"))) == 1
        assert not calls.in_flight

    run_test(test)


@pytest.mark.parametrize("steps", range(8))
def test_a_reply_at_the_end_of_its_turn_is_returned_or_recorded(steps: int) -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        calls.gate.open()
        task = await start_call(calls, "a")
        model.replies["a"].set_result("so")
        for _ in range(steps):
            await asyncio.sleep(0)
        await cancel_call(task)
        await run_pending_tasks()
        await calls.start_evaluation()
        returned = [] if task.cancelled() else [(await task).text]
        assert [*returned, *(entry.body["text"] for entry in journal.entries("reply"))] == ["so"]

    run_test(test)


def test_a_call_with_an_obsolete_prompt_is_cancelled_and_recorded() -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        cancelled: list[str] = []
        calls.on_cancel = cancelled.append
        calls.gate.open()
        for address in ("a", "b", "c"):
            await cancel_call(await start_call(calls, address))
        await calls.start_evaluation()
        await calls.cancel_obsolete([("b", request("Otherwise.").fingerprint())])
        assert (cancelled, model.cancelled) == (["b"], ["b"]), "the other calls may still be reused"
        task = await start_call(calls, "a", "Otherwise.")
        assert cancelled == ["b", "a"]
        await calls.finish_evaluation()
        assert cancelled == ["b", "a", "c"], "the turn ended without using the call"
        await cancel_call(task)
        tried = [(entry.address, entry.body["message"]) for entry in journal.entries("tried")]
        assert tried == [("b", OBSOLETE), ("a", OBSOLETE), ("c", OBSOLETE)]

    run_test(test)


def test_a_call_that_fails_between_turns_is_repeated() -> None:
    async def test(model: SlowModel, journal: MemoryJournal, calls: InFlightCalls) -> None:
        calls.gate.open()
        await cancel_call(await start_call(calls, "a"))
        model.replies["a"].set_exception(ModelError("overloaded", "too much"))
        await run_pending_tasks()
        await calls.start_evaluation()
        calls.gate.open()
        second_call = await start_call(calls, "a")
        assert model.addresses == ["a", "a"]
        await cancel_call(second_call)
        assert not list(journal.entries("reply"))

    run_test(test)


def test_a_call_without_a_slot_does_not_outlive_its_turn() -> None:
    class FullModel(SlowModel):
        async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
            await asyncio.get_running_loop().create_future()
            return await super().send(request, address, attempts)

    async def run() -> None:
        calls = InFlightCalls(FullModel(), MemoryJournal())
        await calls.start_evaluation()
        calls.gate.open()
        await cancel_call(await start_call(calls, "a"))
        assert not calls.in_flight

    asyncio.run(run())


def test_a_new_gateway_gets_all_later_calls() -> None:
    async def test(model: SlowModel, _: MemoryJournal, calls: InFlightCalls) -> None:
        calls.gate.open()
        await cancel_call(await start_call(calls, "a"))
        other = SlowModel()
        await calls.change_gateway(other)
        assert model.cancelled == ["a"]
        await cancel_call(await start_call(calls, "a"))
        assert other.addresses == ["a"]

    run_test(test)
