"""DBOS on SQLite, or for the variant `postgres` on the database named in the environment.

A workflow of steps, gathered for the fan-out; a killed workflow is recovered at launch. In the work `again`, the
variant `children` gives each call its own child workflow.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable

from dbos import DBOS, DBOSConfig, SetWorkflowID

from bench.subject import Work, main

WORKFLOW = "bench"
works: list[Work] = []  # a global, because steps are module functions with arguments that can be stored


@DBOS.step()
async def call(number: int) -> str:
    return await works[0].call(number)


@DBOS.workflow()
async def chain_of_calls(calls: int) -> str:
    reply = ""
    for number in range(calls):
        reply = await call(number)
    return reply


@DBOS.workflow()
async def calls_at_once(calls: int) -> int:
    return len(await asyncio.gather(*(call(number) for number in range(calls))))


async def run(work: Work, workflow: Callable[[int], Awaitable[object]]) -> None:
    works.append(work)
    url = os.environ["BENCH_POSTGRES"] if work.variant == "postgres" else f"sqlite:///{work.folder / 'dbos.sqlite'}"
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "application_version": "1",
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    work.start()
    if work.resume:
        handle = await DBOS.retrieve_workflow_async(WORKFLOW)
        await handle.get_result()
    else:
        with SetWorkflowID(WORKFLOW):
            await workflow(work.calls)
    work.stop()
    DBOS.destroy()


async def chain(work: Work) -> None:
    await run(work, chain_of_calls)


async def fan_out(work: Work) -> None:
    await run(work, calls_at_once)


@DBOS.step()
async def answer(number: int) -> str:
    return await works[0].answer(number, works[0].prompt(number))


@DBOS.workflow()
async def answer_alone(number: int) -> str:
    return await answer(number)


@DBOS.workflow()
async def steps_at_once(calls: int) -> list[str]:
    """A step per call. The first failure is raised after all have ended."""
    return raise_failures(await asyncio.gather(*(answer(number) for number in range(calls)), return_exceptions=True))


@DBOS.workflow()
async def children_at_once(calls: int) -> list[str]:
    """The same with a child workflow per call."""
    handles = [await DBOS.start_workflow_async(answer_alone, number) for number in range(calls)]
    return raise_failures(await asyncio.gather(*(handle.get_result() for handle in handles), return_exceptions=True))


def raise_failures(replies: list[str | BaseException]) -> list[str]:
    for reply in replies:
        if isinstance(reply, BaseException):
            raise reply
    return [reply for reply in replies if isinstance(reply, str)]


async def fork(work: Work) -> list[str]:
    """Fork the workflow from the failed or edited step, along with the child workflow that ran the step."""
    steps = await DBOS.list_workflow_steps_async(WORKFLOW)
    if work.variant == "children":
        results = [step for step in steps if step["child_workflow_id"] and "getResult" in step["function_name"]]
    else:
        results = steps
    step = next(step for step in results if step["error"]) if work.edit is None else results[work.edit]
    replacements = {}
    if work.variant == "children":
        child = await DBOS.fork_workflow_async(step["child_workflow_id"], 1)
        await child.get_result()
        replacements[step["child_workflow_id"]] = child.get_workflow_id()
    forked = await DBOS.fork_workflow_async(WORKFLOW, step["function_id"], replacement_children=replacements)
    return await forked.get_result()


async def again(work: Work) -> None:
    """Send all prompts at once; recover a killed workflow, and fork one after a failure or an edit."""
    works.append(work)
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{work.folder / 'dbos.sqlite'}",
            "application_version": "1",
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    try:
        if not work.resume:
            with SetWorkflowID(WORKFLOW):
                replies = await (children_at_once if work.variant == "children" else steps_at_once)(work.calls)
        else:
            handle = await DBOS.retrieve_workflow_async(WORKFLOW)
            status = (await handle.get_status()).status
            replies = await (fork(work) if status in ("SUCCESS", "ERROR") else handle.get_result())
    finally:
        DBOS.destroy()
    work.check(replies)


if __name__ == "__main__":
    main(chain=chain, fan_out=fan_out, again=again)
