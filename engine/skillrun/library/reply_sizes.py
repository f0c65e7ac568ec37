"""Reads the reply sizes of steps from `config/sizes.yaml`, for estimates. The sizes are measured in finished runs.

A step without an entry uses `estimate` in `config/skillrun.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skillrun.definitions.definitions import strip_markers
from skillrun.definitions.reader import Reader
from skillrun.definitions.verbs import Key, Keys
from skillrun.library.library import Library
from skillrun.syntax import source
from skillrun.syntax.diagnostics import Problems

CONFIG: Final = "sizes"
MAX_TOKENS: Final = 10**7
KEYS: Keys = {
    "reply": Key("integer", "tokens of a reply", required=True, least=0, most=MAX_TOKENS),
    "turns": Key("integer", "turns with tool calls before the reply", least=0, most=1000),
    "found": Key("integer", "tokens that the tools return per turn", least=0, most=MAX_TOKENS),
}
_AGAIN: Final = re.compile(r"@[\d.]+$")


@dataclass(frozen=True)
class ReplySize:
    """Tokens of a reply, turns with tool calls before it, and tokens that the tools return per turn."""

    reply: int
    turns: int = 0
    found: int = 0


def step_address(address: str) -> str:
    """Return the address of a call's step.

    For example, `plan/clarify/gate#2/score/coordinator/1.1` becomes `plan/clarify/gate/score`.
    """
    return "/".join(strip_markers(_AGAIN.sub("", part)) for part in address.split("/")[:-2])


def load_reply_sizes(library: Library) -> Mapping[str, ReplySize]:
    """Return the known sizes, keyed by the address of the step."""
    config = library.config(CONFIG)
    steps = config.data.get("steps") if config is not None else None
    entries = steps.items() if isinstance(steps, dict) else ()
    return {
        name: ReplySize(**{key: size.get(key, 0) for key in KEYS}) for name, size in entries if isinstance(size, dict)
    }


def check_reply_sizes(library: Library, problems: Problems) -> None:
    """Report errors in the sizes. For a step that a weaker layer also has, all keys are optional."""
    config = library.config(CONFIG)
    seen: set[str] = set()
    reader = Reader(problems)
    for layer in reversed(config.layers if config is not None else ()):
        steps = layer.get("steps")
        for name, entry in steps.entries.items() if isinstance(steps, source.Mapping) else ():
            optional = {key: Key(rule.kind, rule.doc, least=rule.least, most=rule.most) for key, rule in KEYS.items()}
            reader.read(entry.value, optional if name in seen else KEYS)
            seen.add(name)
