"""The scripted model: replies from a list of rules by address, otherwise generated from the request's fingerprint.

Spends nothing and answers the same request the same way every time: for tests, `--dry-run` and authors' own cases.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from typing import Any, get_args

from skillrun.language import source
from skillrun.language.diagnostics import Problems, SkillrunError, allowed, did_you_mean
from skillrun.language.schemas import shown
from skillrun.models.messages import (
    ERROR_KINDS,
    UNTOLD,
    Attempts,
    ErrorKind,
    ModelError,
    Reply,
    Request,
    Stop,
    ToolCall,
    Usage,
)

WORDS = (
    "account", "boundary", "cache", "change", "client", "column", "contract", "cost", "data", "default", "edge",
    "error", "event", "field", "file", "flow", "folder", "handler", "index", "input", "interface", "layer", "limit",
    "list", "load", "lock", "log", "message", "migration", "module", "name", "order", "output", "owner", "page",
    "parser", "path", "plan", "queue", "read", "record", "release", "request", "result", "retry", "review", "risk",
    "route", "rule", "schema", "scope", "server", "session", "signal", "state", "step", "store", "table", "task",
    "test", "token", "type", "user", "write",
)  # fmt: skip

NOISE = "scripted:noise"

KEYS: Mapping[str, Any] = {
    "address": str, "model": str, "text": str, "data": object, "calls": list, "message": str, "times": int,
    "delay": (int, float), "fail": ERROR_KINDS, "stop": get_args(Stop),
}  # fmt: skip
"""What a rule may say: a type, or one of some words."""


@dataclass
class Rule:
    """One reply of a script, for the first `times` calls that fit."""

    address: str = "*"
    model: str = "*"
    text: str | None = None
    data: Any = None
    calls: tuple[ToolCall, ...] = ()
    fail: ErrorKind | None = None
    message: str = ""
    stop: Stop | None = None
    times: int | None = None
    delay: float = 0

    def matches(self, address: str, model: str) -> bool:
        return self.times != 0 and fnmatchcase(address, self.address) and fnmatchcase(model, self.model)


class ScriptedGateway:
    """Answers by the first rule whose patterns match and that is not used up; without one, generates.

    `sent` holds every call that arrived, in order: what a test or a dry run wants to look at.
    """

    def __init__(
        self,
        script: Iterable[Mapping[str, Any]] | None = None,
        label: str = "script",
        price: Callable[[str, Usage], float | None] = lambda _model, _usage: 0.0,
    ) -> None:
        """`price` says what the call would have cost on the model it names; these replies themselves are free."""
        self.price = price
        self.rules = [_rule(item, f"{label}, reply {number}") for number, item in enumerate(script or (), 1)]
        self.sent: list[tuple[str, Request]] = []

    async def send(self, request: Request, address: str, attempts: Attempts = UNTOLD) -> Reply:
        await attempts.sent(1)
        self.sent.append((address, request))
        rule = next((rule for rule in self.rules if rule.matches(address, request.model)), Rule())
        if rule.times is not None:
            rule.times -= 1
        if rule.delay:
            await asyncio.sleep(rule.delay)
        if rule.fail is not None:
            error = ModelError(rule.fail, rule.message or f"The script fails this call ({rule.fail}).")
            await attempts.failed(1, error)
            raise error
        text = json.dumps(rule.data, ensure_ascii=False) if rule.data is not None else rule.text
        if text is None:
            text = "" if rule.calls else _generated(request)
        asked = [*request.system, *(block for message in request.messages for block in message.blocks)]
        usage = Usage(sum(_tokens(block.text) for block in asked), _tokens(text))
        stop = rule.stop or ("tool" if rule.calls else "end")
        return Reply(text, rule.calls, usage, stop, request.model, price=self.price(request.model, usage))

    async def close(self) -> None:
        return None


def check_script(node: source.Node, problems: Problems) -> None:
    """Report what is wrong with a script that a file holds, each where it stands."""
    if isinstance(node, source.Scalar) and node.value is None:
        return
    for item in node.items if isinstance(node, source.Sequence) else (node,):
        if not isinstance(node, source.Sequence) or not isinstance(item, source.Mapping):
            hint = "a script is a list of replies such as `- {address: 'plan/setup/*', text: …}`"
            problems.report(item.span, "script", "this is no reply of a script", hint)
            continue
        for key, entry in item.entries.items():
            if wrong := _misfit(key, source.plain(entry.value)):
                problems.report((entry.value if key in KEYS else entry.key).span, "script", *wrong)


def _rule(item: Mapping[str, Any], label: str) -> Rule:
    """The rule that a mapping of a script says. Raises `SkillrunError` with the key that is wrong."""
    for key, value in item.items():
        if wrong := _misfit(key, value):
            raise SkillrunError(f"{label}: {wrong[0]}", wrong[1])
    calls = tuple(
        ToolCall(str(call.get("id", f"call-{number}")), call["name"], dict(call.get("arguments") or {}))
        for number, call in enumerate(item.get("calls", ()), 1)
    )
    return Rule(**{**item, "calls": calls})


def _misfit(key: str, value: Any) -> tuple[str, str] | None:
    """What is wrong with a key of a rule and its value, and what it may be."""
    if key not in KEYS:
        return f"unknown key `{key}`", did_you_mean(key, KEYS) or allowed(KEYS)
    wanted = KEYS[key]
    if isinstance(wanted, tuple) and isinstance(wanted[0], str):
        hint = did_you_mean(str(value), wanted) or allowed(wanted)
        return None if value in wanted else (f"`{key}` is {shown(value)}", hint)
    if not isinstance(value, wanted) or (isinstance(value, bool) and key != "data"):
        expected = {str: "text", list: "a list", int: "a whole number"}.get(wanted, "a number")
        return f"`{key}` is {shown(value)}", f"It is {expected}."
    for number, call in enumerate(value, 1) if key == "calls" else ():
        if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
            return f"call {number} of `calls` has no `name`", "Write `{name: Read, arguments: {…}}`."
        if not isinstance(call.get("arguments") or {}, Mapping):
            return f"the `arguments` of call {number} are no mapping", "Write `{name: Read, arguments: {…}}`."
    return None


def _generated(request: Request) -> str:
    """What the fingerprint alone decides: a valid value for a schema, otherwise a heading, a paragraph and a list.

    Of a model whose name begins with `scripted:noise`, lists are empty or long, and texts of any length.
    """
    seed = request.fingerprint()
    noisy = request.model.startswith(NOISE)
    if request.schema is not None:
        from skillrun.language.samples import TAME, WILD, sample

        return json.dumps(sample(request.schema, seed, WILD if noisy else TAME), ensure_ascii=False)
    parts = 1 + int(seed[:4], 16) % 20 if noisy else 1
    return "\n".join(_part(sha256(f"{seed}{n}".encode()).digest() if n else bytes.fromhex(seed)) for n in range(parts))


def _part(seed: bytes) -> str:
    words = [WORDS[byte % 64] for byte in seed]
    lines = "\n".join(f"- {words[i].capitalize()} {words[i + 1]} {words[i + 2]}." for i in range(20, 32, 4))
    return f"# {words[0].capitalize()} {words[1]}\n\n{' '.join(words[2:20]).capitalize()}.\n\n{lines}\n"


@lru_cache(maxsize=1024)
def _tokens(text: str) -> int:
    from skillrun.collaboration.compaction import estimate_tokens

    return estimate_tokens(text)
