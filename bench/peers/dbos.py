"""DBOS on SQLite, or with the variant `postgres` on the database that the environment names.

A workflow of steps, gathered for the fan-out; a killed workflow is recovered at launch.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable

from dbos import DBOS, DBOSConfig, SetWorkflowID

from bench.subject import Work, main

WORKFLOW = "bench"
works: list[Work] = []  # steps are module functions and take only what is stored, so the work is found here


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
    place = os.environ["BENCH_POSTGRES"] if work.variant == "postgres" else f"sqlite:///{work.folder / 'dbos.sqlite'}"
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": place,
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


if __name__ == "__main__":
    main(chain=chain, fan_out=fan_out)
