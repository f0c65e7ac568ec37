"""The transcript of a run, read back line by line: only what can be an event, and never the whole file at once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from skillrun.runtime import events as kinds
from skillrun.runtime.events import TRANSCRIPT, Event
from skillrun.runtime.store.field_types import checks_of, is_text
from skillrun.runtime.store.lock import is_held
from skillrun.tools.tree import Tree

Record = dict[str, Any]
POLL: Final = 0.2  # seconds between two looks at a transcript that grows
LONGEST: Final = 16_000_000  # bytes of a line
SIZE: Final = 1 << 20  # bytes that are read at once


def events(folder: Tree, *, follow: bool = False) -> Iterator[Record]:
    """The transcript, oldest first, and with `follow` what comes until the run ends; a line cut off is left out.

    So is one that is no event. Where a line never ends, the rest is not read, and that is the last event.
    """
    try:
        file = os.fdopen(folder.open(TRANSCRIPT), "rb", buffering=0)
    except FileNotFoundError:
        return
    except PermissionError:
        yield {**kinds.Notice("the transcript of this run is its owner's", "warn").to_dict()}
        return
    with file:
        rest = b""
        while True:
            held = follow and is_held(folder)
            while chunk := file.read(SIZE):
                *whole, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
                for line in whole:
                    event = event_of(line)
                    if event is not None:
                        yield event
                if len(rest) > LONGEST:
                    text = f"{TRANSCRIPT} has a line of more than {LONGEST:,} bytes, which no run writes; it ends here"
                    yield {**kinds.Notice(text, "warn").to_dict()}
                    return
            if not held:
                return
            time.sleep(POLL)


def event_of(line: bytes) -> Record | None:
    """The event of a line; None for what is none, and for one that lacks what its kind has."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not is_text(found.get("event")):
        return None
    kind = KINDS.get(found["event"])
    if kind is None:
        return found
    told: Record = {}
    checks = checks_of(kind)
    for field in fields(kind):
        if field.name in found:
            if not checks[field.name](found[field.name]):
                return None
        elif field.default is not MISSING:
            told[field.name] = field.default
        elif field.default_factory is MISSING:
            return None
    return {**told, **found}


KINDS: Final[Mapping[str, type[Event]]] = {kind.__name__: kind for kind in Event.__subclasses__()}
