"""Runs one shipped plan unattended and prints its figures: `python -m bench.plans MODE [--embedded] --seed N`.

A mode of `implementation-plan` runs that workflow on three models; any other mode runs `plan`.

On the scripted model the seed is part of the request, which determines the replies; on the embedded model it is the
seed of the model.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from bench.ours import UNLIMITED
from skillrun.checker.checker import check_workflow
from skillrun.events import CallEnded, Event, WentBack
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library
from skillrun.models.catalogue import Catalogue
from skillrun.models.gateway import ModelGateway
from skillrun.models.messages import NULL_LISTENER, AttemptListener, Gateway, Reply, Request, Usage
from skillrun.models.scripted import WORDS, ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime.inputs import validate_inputs
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.runtime.session import start_run
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.local.local_store import LocalStore

REQUEST = "Add dark mode to the settings page"
DECISIONS = """expert-review/cycle/choice: [redesign, override]
expert-review/why/reason: The benchmark measures the whole of it.
"""
SEVERAL = ("single-model", "multi-model", "multi-model-deep")
MODELS = ["scripted:bench-1", "scripted:bench-2", "scripted:bench-3"]
SECTIONS, LENGTH = 6, 75  # sections, and words in each: about the length that the prompts request


class Ideal:
    """The scripted model with documents of a realistic length and a prompt cache that keeps everything."""

    def __init__(self) -> None:
        self.scripted = ScriptedGateway()
        self.read: list[str] = []

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        reply = await self.scripted.send(request, address, attempts)
        text = reply.text if request.schema is not None else "\n\n".join(_sections(request.fingerprint()))
        parts = (request.system, *(message.blocks for message in request.messages))
        prompt = "\n\n".join(block.text for part in parts for block in part)
        cached = max((shared(prompt, entry) for entry in self.read), default=0)
        self.read.append(f"{prompt}\n\n{text}")
        usage = Usage(estimate_tokens(prompt), estimate_tokens(text), cache_read=estimate_tokens(prompt[:cached]))
        return replace(reply, text=text, usage=usage)

    async def close(self) -> None:
        """There is nothing to close."""


def _sections(seed: str) -> Iterator[str]:
    words = random.Random(seed)  # noqa: S311 (no secret)
    for number in range(1, SECTIONS + 1):
        yield f"## Part {number}\n\n{' '.join(words.choices(WORDS, k=LENGTH)).capitalize()}. AC-{number}"


def shared(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
    return least


def workflow_and_inputs(mode: str, request: str) -> tuple[str, dict[str, Any]]:
    """The workflow with the mode, and its inputs."""
    if mode in SEVERAL:
        return "implementation-plan", {"request": request, "planning_mode": mode, "planning_models": MODELS}
    return "plan", {"request": request, "mode": mode}


async def plan(mode: str, seed: int, folder: Path, *, embedded: bool) -> dict[str, Any]:
    library = Library([Root(package_library(), "skillrun:", "library")])
    workflow, values = workflow_and_inputs(mode, REQUEST if embedded else f"{REQUEST} ({seed})")
    program, models = check_workflow(library, workflow), library.config("models")
    assert program is not None
    assert models is not None
    catalogue = Catalogue.from_config(models.data)
    gateway: Gateway = Ideal()
    if embedded:
        assert catalogue.embedded is not None
        catalogue = replace(catalogue, embedded=replace(catalogue.embedded, seed=seed))
        gateway = ModelGateway(catalogue, {}, Path(platformdirs.user_cache_dir("skillrun")), lambda _line: None)
    model = "embedded" if embedded else "scripted:bench"
    events: list[Event] = []
    (folder / "decisions.yaml").write_text(DECISIONS, encoding="utf-8")
    responder = open_responder(unattended=True, answers=folder / "decisions.yaml" if workflow == "plan" else None)
    services = Services(catalogue, gateway, responder, [events.append])
    session = Session(program, services, RunOptions(folder, model, UNLIMITED))
    inputs, _ = validate_inputs(program, values)
    started = time.monotonic()
    try:
        outcome = await start_run(session, inputs, LocalStore(folder / "runs"), "run")
    finally:
        await gateway.close()
    used = [event.usage for event in events if isinstance(event, CallEnded) and not event.error]
    totals = {key: sum(usage[key] for usage in used) for key in ("input", "output", "cache_read")}
    return {
        "calls": len(used),
        "input": totals["input"],
        "output": totals["output"],
        "cached": totals["cache_read"],
        "rounds": 1 + sum(isinstance(event, WentBack) for event in events),
        "minutes": (time.monotonic() - started) / 60,
        "status": outcome.status,
        "reason": outcome.reason,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        print(json.dumps(asyncio.run(plan(options.mode, options.seed, Path(folder), embedded=options.embedded))))


if __name__ == "__main__":
    main()
