"""LangGraph: a graph with one node in a loop, and `Send` for the fan-out; `AsyncSqliteSaver`, durability "sync".

The variant `growing` keeps every reply in the state; `async` uses the library's default durability; `cached` gives the
node a cache policy, whose key is the node's input, which includes the prompt.
"""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.cache.sqlite import SqliteCache
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy, Send

from bench.subject import Work, main


class Chain(TypedDict):
    number: int
    reply: str


class GrowingChain(TypedDict):
    number: int
    reply: Annotated[list[str], operator.add]


class FanOut(TypedDict):
    numbers: list[int]
    replies: Annotated[list[str], operator.add]


class One(TypedDict):
    number: int


async def invoke(work: Work, graph: StateGraph, start: dict[str, Any]) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(work.folder / "langgraph.db")) as saver:
        await saver.setup()
        compiled = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "bench"}, "recursion_limit": work.calls + 10}
        work.start()
        await compiled.ainvoke(
            None if work.resume else start, config, durability="async" if work.variant == "async" else "sync"
        )
        work.stop()


async def chain(work: Work) -> None:
    growing = work.variant == "growing"

    async def call(state: Chain) -> dict[str, Any]:
        reply = await work.call(state["number"])
        return {"number": state["number"] + 1, "reply": [reply] if growing else reply}

    def next_node(state: Chain) -> str:
        return "call" if state["number"] < work.calls else END

    graph = StateGraph(GrowingChain if growing else Chain)
    graph.add_node("call", call)
    graph.add_edge(START, "call")
    graph.add_conditional_edges("call", next_node, ["call", END])
    await invoke(work, graph, {"number": 0, "reply": [] if growing else ""})


async def fan_out(work: Work) -> None:
    async def call(one: One) -> dict[str, Any]:
        return {"replies": [await work.call(one["number"])]}

    def fan(state: FanOut) -> list[Send]:
        return [Send("call", {"number": number}) for number in state["numbers"]]

    graph = StateGraph(FanOut)
    graph.add_node("call", call)
    graph.add_conditional_edges(START, fan, ["call"])
    graph.add_edge("call", END)
    await invoke(work, graph, {"numbers": list(range(work.calls)), "replies": []})


class Prompts(TypedDict):
    prompts: list[str]
    replies: Annotated[list[str], operator.add]


class Prompt(TypedDict):
    number: int
    prompt: str


async def again(work: Work) -> None:
    """Send all prompts at once; resume the thread after a failure, and start a new one after an edit."""
    is_cached = work.variant == "cached"

    async def call(one: Prompt) -> dict[str, Any]:
        return {"replies": [await work.answer(one["number"], one["prompt"])]}

    def fan(state: Prompts) -> list[Send]:
        return [Send("call", {"number": number, "prompt": prompt}) for number, prompt in enumerate(state["prompts"])]

    graph = StateGraph(Prompts)
    graph.add_node("call", call, cache_policy=CachePolicy() if is_cached else None)
    graph.add_conditional_edges(START, fan, ["call"])
    graph.add_edge("call", END)
    start = {"prompts": [work.prompt(number) for number in range(work.calls)], "replies": []}
    cache = SqliteCache(path=str(work.folder / "cache.db")) if is_cached else None
    async with AsyncSqliteSaver.from_conn_string(str(work.folder / "langgraph.db")) as saver:
        await saver.setup()
        compiled = graph.compile(checkpointer=saver, cache=cache)
        config = {"configurable": {"thread_id": "first" if work.edit is None else "edited"}}
        is_continued = work.resume and work.edit is None
        state = await compiled.ainvoke(None if is_continued else start, config, durability="sync")
        work.check(state["replies"])


if __name__ == "__main__":
    main(chain=chain, fan_out=fan_out, again=again)
