"""What it costs to check what a resumed run reads: to load pydantic and make the adapters, and to check a reply.

`python -m bench.records`, in a process that has loaded everything else that a run needs.
"""

import json
import time

import skillrun.runtime.session  # noqa: F401 (what is loaded anyway does not count)
from skillrun.language.types import records
from skillrun.runtime.store.journal_bodies import BODIES
from skillrun.runtime.store.state import State
from skillrun.runtime.store.summary import Summary

REPLY = {
    "text": "A reply of some length. " * 40,
    "calls": [{"id": "1", "name": "Read", "arguments": {"path": "a.py"}}],
    "usage": {"input": 1200, "output": 300, "cache_read": 900, "cache_write": 0},
    "stop": "tool",
    "model": "claude",
    "seconds": 1.5,
    "price": 0.01,
}
TIMES = 5_000


def main() -> None:
    started = time.process_time()
    import pydantic  # noqa: F401

    imported = time.process_time()
    for record in (State, Summary):
        records.checks_of(record)
    for body in BODIES.values():
        records.fits(body, {})
    loaded = time.process_time()
    for _ in range(TIMES):
        if not records.fits(BODIES["reply"], REPLY):
            raise SystemExit("the reply is not one")
    ended = time.process_time()
    figures = {"importing": imported - started, "loading": loaded - started}
    milliseconds = {name: seconds * 1e3 for name, seconds in figures.items()}
    print(json.dumps({**milliseconds, "a reply": (ended - loaded) / TIMES * 1e6}))


if __name__ == "__main__":
    main()
