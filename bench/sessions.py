"""Runs one shipped design session of three rounds with long roles, and prints its figures as a line of JSON.

`python -m bench.sessions fresh|persistent --seed N`: the specialists use the embedded model, which counts the tokens
its cache serves. The replies of the chair are scripted, so that both kinds of sessions take the same course.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import platformdirs

from bench.ours import UNLIMITED
from skillrun.checker.checker import check_workflow
from skillrun.events import CallEnded, Event
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library
from skillrun.models.catalogue import Catalogue
from skillrun.models.gateway import ModelGateway
from skillrun.models.messages import NULL_LISTENER, AttemptListener, Gateway, Reply, Request
from skillrun.models.scripted import Rule, ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime.inputs import validate_inputs
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.runtime.session import start_run
from skillrun.store.frontmatter import from_frontmatter
from skillrun.store.local.local_store import LocalStore

QUESTION: Final = "Where do sessions live: in a signed cookie, or in a table of the database?"
MEMBERS: Final = ("keeper", "breaker")
LINES: Final = 110  # of a role, which is substantial from 100 lines
PROPOSED: Final = [{"member": MEMBERS[1], "proposed": "A signed cookie."}]
CONFLICT: Final = {"id": "C-1", "topic": "Sessions", "raised_by": MEMBERS[0], "concern": "It cannot be taken back."}
CHAIR: Final[list[dict[str, Any]]] = [
    {
        "address": "*/findings/*",
        "data": {"consensus": [], "conflicts": [{**CONFLICT, "parties": PROPOSED}], "gaps": []},
    },
    {
        "address": "*/reading/*",
        "data": {
            "engaged": [{"member": name, "new": "A price."} for name in MEMBERS],
            "settled": [],
            "question": "What does a lookup cost?",
        },
    },
]
CONFIG: Final = {
    "deliberation": {
        "conflict_overrides": [{"agent_a": MEMBERS[0], "agent_b": MEMBERS[1], "level": "HIGH"}],
        "engagement": {"same_position": 1.1},  # above 1, so that every reply counts as a new position
    },
    "breakers": {"chairing": {"limit": 1, "then": "fall back"}},
}


class Mixed:
    """A scripted chair, and specialists on a model."""

    def __init__(self, model: Gateway) -> None:
        self.model, self.scripted = model, ScriptedGateway(Rule(**rule) for rule in CHAIR)

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        gateway = self.scripted if "/chair/" in address else self.model
        return await gateway.send(request, address, attempts)

    async def close(self) -> None:
        await self.model.close()


def write_project(folder: Path) -> None:
    lines = "".join(f"You look at thing number {number}, and say what it costs.\n" for number in range(LINES))
    files = {"config/deliberation.yaml": json.dumps(CONFIG)}
    files |= {f"roles/{name}.md": f"---\nname: {name}\n---\nYou are the {name}.\n{lines}" for name in MEMBERS}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


async def session(kind: str, seed: int, folder: Path, model: Gateway | None = None) -> dict[str, Any]:
    """Run a design session of a kind, on the embedded model by default, and return its figures."""
    write_project(folder)
    library = Library([Root(folder, "", "project"), Root(package_library(), "skillrun:", "library")])
    program, models = check_workflow(library, "design-session"), library.config("models")
    assert program is not None
    assert models is not None
    catalogue = Catalogue.from_config(models.data)
    assert catalogue.embedded is not None
    catalogue = replace(catalogue, embedded=replace(catalogue.embedded, seed=seed))
    cache = Path(platformdirs.user_cache_dir("skillrun"))
    gateway = Mixed(model or ModelGateway(catalogue, {}, cache, lambda _line: None))
    (folder / "answers.yaml").write_text("verdict: let the chair decide\n", encoding="utf-8")
    responder = open_responder(unattended=True, answers=folder / "answers.yaml")
    events: list[Event] = []
    override = "scripted:bench" if model else "embedded"
    services = Services(catalogue, gateway, responder, [events.append])
    setting = Session(program, services, RunOptions(folder, override, UNLIMITED))
    inputs, _ = validate_inputs(program, {"question": QUESTION, "specialists": list(MEMBERS), "session": kind})
    started = time.monotonic()
    try:
        outcome = await start_run(setting, inputs, LocalStore(folder / "runs"), "run")
    finally:
        await gateway.close()
    calls = [event for event in events if isinstance(event, CallEnded) and not event.error and event.member in MEMBERS]
    record: Mapping[str, Any] = {}
    if outcome.status == "completed":
        summary, _ = from_frontmatter(folder / "runs" / "run" / "summaries" / "deliberation.md")
        record = summary["outputs"]["deliberation"]
    used = {key: sum(call.usage[key] for call in calls) for key in ("input", "output", "cache_read")}
    return {
        "calls": len(calls),
        "rounds": record.get("rounds", 0),
        "input": used["input"],
        "read anew": used["input"] - used["cache_read"],
        "saved": record.get("saved", 0),
        "minutes": (time.monotonic() - started) / 60,
        "status": outcome.status,
        "reason": outcome.reason,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("fresh", "persistent"))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="session-") as folder:
        print(json.dumps(asyncio.run(session(options.kind, options.seed, Path(folder)))))


if __name__ == "__main__":
    main()
