"""Burr: an application whose action follows itself, and `MapStates` for the fan-out; `AsyncSQLitePersister`."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

from burr.core import Application, ApplicationBuilder, ApplicationContext, State, action, default, when
from burr.core.action import Action, create_action
from burr.core.parallelism import MapStates
from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister

from bench.subject import Work, main


def builder(persister: AsyncSQLitePersister) -> ApplicationBuilder:
    return ApplicationBuilder().with_identifiers(app_id="bench", partition_key="bench").with_state_persister(persister)


async def chain(work: Work) -> None:
    @action(reads=["number"], writes=["number", "reply", "done"])
    async def call(state: State) -> State:
        reply = await work.call(state["number"])
        return state.update(number=state["number"] + 1, reply=reply, done=state["number"] + 1 >= work.calls)

    @action(reads=[], writes=[])
    async def finish(state: State) -> State:
        return state

    async with AsyncSQLitePersister.from_values(db_path=str(work.folder / "burr.db")) as persister:
        await persister.initialize()
        application: Application = await (
            builder(persister)
            .with_actions(call=call, finish=finish)
            .with_transitions(("call", "finish", when(done=True)), ("call", "call", default))
            .initialize_from(
                persister,
                resume_at_next_action=True,
                default_state={"number": 0, "reply": "", "done": False},
                default_entrypoint="call",
            )
            .abuild()
        )
        work.start()
        await application.arun(halt_after=["finish"])
        work.stop()


async def fan_out(work: Work) -> None:
    @action(reads=["number"], writes=["reply"])
    async def call(state: State) -> State:
        return state.update(reply=await work.call(state["number"]))

    class CallsAtOnce(MapStates):
        def action(self, state: State, inputs: dict[str, Any]) -> Action:
            return create_action(call, "call")

        def states(
            self, state: State, context: ApplicationContext, inputs: dict[str, Any]
        ) -> Generator[State, None, None]:
            for number in range(work.calls):
                yield state.update(number=number)

        async def reduce(self, state: State, states: AsyncGenerator[State, None]) -> State:
            return state.update(replies=[each["reply"] async for each in states])

        def is_async(self) -> bool:
            return True

        @property
        def reads(self) -> list[str]:
            return []

        @property
        def writes(self) -> list[str]:
            return ["replies"]

    async with AsyncSQLitePersister.from_values(db_path=str(work.folder / "burr.db")) as persister:
        await persister.initialize()
        application: Application = await (
            builder(persister)
            .with_actions(calls=CallsAtOnce())
            .with_transitions()
            .with_state(replies=[])
            .with_entrypoint("calls")
            .abuild()
        )
        work.start()
        await application.arun(halt_after=["calls"])
        work.stop()


async def again(work: Work) -> None:
    """Send all prompts at once; resume the application after a failure, and start a new one after an edit."""

    @action(reads=["number", "prompt"], writes=["reply"])
    async def call(state: State) -> State:
        return state.update(reply=await work.answer(state["number"], state["prompt"]))

    class AllPrompts(MapStates):
        def action(self, state: State, inputs: dict[str, Any]) -> Action:
            return create_action(call, "call")

        def states(
            self, state: State, context: ApplicationContext, inputs: dict[str, Any]
        ) -> Generator[State, None, None]:
            for number, prompt in enumerate(state["prompts"]):
                yield state.update(number=number, prompt=prompt)

        async def reduce(self, state: State, states: AsyncGenerator[State, None]) -> State:
            return state.update(replies=[each["reply"] async for each in states])

        def is_async(self) -> bool:
            return True

        @property
        def reads(self) -> list[str]:
            return ["prompts"]

        @property
        def writes(self) -> list[str]:
            return ["replies"]

    async with AsyncSQLitePersister.from_values(db_path=str(work.folder / "burr.db")) as persister:
        await persister.initialize()
        application: Application = await (
            ApplicationBuilder()
            .with_identifiers(app_id="first" if work.edit is None else "edited", partition_key="bench")
            .with_state_persister(persister)
            .with_actions(calls=AllPrompts())
            .with_transitions()
            .initialize_from(
                persister,
                resume_at_next_action=True,
                default_state={"prompts": [work.prompt(number) for number in range(work.calls)], "replies": []},
                default_entrypoint="calls",
            )
            .abuild()
        )
        _, _, state = await application.arun(halt_after=["calls"])
        work.check(state["replies"])


if __name__ == "__main__":
    main(chain=chain, fan_out=fan_out, again=again)
