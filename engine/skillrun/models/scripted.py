"""The scripted model: replies from a list of rules by address, otherwise generated from the request's fingerprint.

Spends nothing, waits for nothing and answers the same request the same way every time. It ships with the product:
tests, `--dry-run` and authors' own cases run on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache
from typing import Any, get_args

from skillrun.language.diagnostics import SkillrunError, allowed, did_you_mean
from skillrun.models.messages import ERROR_KINDS, ErrorKind, ModelError, Reply, Request, Stop, ToolCall, Usage

WORDS = (
    "account", "boundary", "cache", "change", "client", "column", "contract", "cost", "data", "default", "edge",
    "error", "event", "field", "file", "flow", "folder", "handler", "index", "input", "interface", "layer", "limit",
    "list", "load", "lock", "log", "message", "migration", "module", "name", "order", "output", "owner", "page",
    "parser", "path", "plan", "queue", "read", "record", "release", "request", "result", "retry", "review", "risk",
    "route", "rule", "schema", "scope", "server", "session", "signal", "state", "step", "store", "table", "task",
    "test", "token", "type", "user", "write",
)  # fmt: skip
assert len(WORDS) == 64

RULE_KEYS = ("address", "text", "data", "calls", "fail", "message", "stop", "times", "delay", "model")
STOPS: tuple[str, ...] = get_args(Stop)


@dataclass
class Rule:
    """One reply of a script. `left` counts down from `times`; None is without end."""

    address: str
    text: str | None = None
    data: Any = None
    calls: tuple[ToolCall, ...] = ()
    fail: ErrorKind | None = None
    message: str = ""
    stop: Stop | None = None
    delay: float = 0.0
    model: str = "*"
    left: int | None = None
    _address: re.Pattern[str] = field(init=False, repr=False)
    _model: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._address = re.compile(translate(self.address))
        self._model = re.compile(translate(self.model))

    def matches(self, address: str, model: str) -> bool:
        return self.left != 0 and bool(self._address.match(address)) and bool(self._model.match(model))


def free(_model: str, _usage: Usage) -> float:
    return 0.0


class ScriptedGateway:
    """Answers by the first rule whose `address` pattern matches and that is not used up; without one, generates.

    `sent` holds every call that arrived, in order: what a test or a dry run wants to look at.
    """

    def __init__(
        self,
        script: Iterable[Mapping[str, Any]] | None = None,
        shown: str = "script",
        price: Callable[[str, Usage], float | None] = free,
    ) -> None:
        """`price` says what the call would have cost on the model it names; these replies themselves are free."""
        self.price = price
        self.rules = [read_rule(item, f"{shown}, reply {number}") for number, item in enumerate(script or (), 1)]
        self.sent: list[tuple[str, Request]] = []

    async def send(self, request: Request, address: str) -> Reply:
        self.sent.append((address, request))
        rule = next((rule for rule in self.rules if rule.matches(address, request.model)), None)
        if rule is None:
            return self._reply(generated(request), request)
        if rule.left is not None:
            rule.left -= 1
        if rule.delay:
            import asyncio

            await asyncio.sleep(rule.delay)
        if rule.fail is not None:
            raise ModelError(rule.fail, rule.message or f"The script fails this call ({rule.fail}).")
        return self._reply(_scripted(rule, request), request)

    async def close(self) -> None:
        return None

    def _reply(self, reply: Reply, request: Request) -> Reply:
        usage = Usage(input=_input_tokens(request), output=estimated(reply.text))
        return replace(reply, usage=usage, model=request.model, price=self.price(request.model, usage))


def read_rule(item: Mapping[str, Any], shown: str) -> Rule:
    """The rule that a mapping of a script says. Raises `SkillrunError` with the key that is wrong."""
    for key in item:
        if key not in RULE_KEYS:
            raise SkillrunError(f"{shown}: unknown key `{key}`", did_you_mean(key, RULE_KEYS) or allowed(RULE_KEYS))
    address = item.get("address", "*")
    if not isinstance(address, str):
        raise SkillrunError(f"{shown}: `address` is {address!r}", "It is a pattern such as `plan/architecture/*`.")
    return Rule(
        address=address,
        text=_typed(item, "text", str, shown),
        data=item.get("data"),
        calls=tuple(_call(call, number, shown) for number, call in enumerate(item.get("calls") or (), 1)),
        fail=_one_of(item, "fail", ERROR_KINDS, shown),
        message=_typed(item, "message", str, shown) or "",
        stop=_one_of(item, "stop", STOPS, shown),
        delay=float(_typed(item, "delay", (int, float), shown) or 0),
        model=_typed(item, "model", str, shown) or "*",
        left=_typed(item, "times", int, shown),
    )


def generated(request: Request) -> Reply:
    """A reply that the fingerprint alone decides: a valid value for a schema, otherwise a few lines of markdown."""
    seed = request.fingerprint()
    if request.schema is None:
        return Reply(text=prose(seed))
    from skillrun.language.samples import sample

    return Reply(text=json.dumps(sample(request.schema, seed), ensure_ascii=False))


def prose(seed: str) -> str:
    """A heading, a paragraph and a list: words picked by the 64 hexadecimal digits of `seed`."""
    words = [WORDS[byte % 64] for byte in bytes.fromhex(seed)]
    lines = "\n".join(f"- {words[i].capitalize()} {words[i + 1]} {words[i + 2]}." for i in range(20, 32, 4))
    return f"# {words[0].capitalize()} {words[1]}\n\n{' '.join(words[2:20]).capitalize()}.\n\n{lines}\n"


def _scripted(rule: Rule, request: Request) -> Reply:
    if rule.text is None and rule.data is None and not rule.calls:
        reply = generated(request)
    else:
        text = rule.text if rule.text is not None else ""
        if rule.data is not None:
            text = json.dumps(rule.data, ensure_ascii=False)
        reply = Reply(text=text, calls=rule.calls, stop="tool" if rule.calls else "end")
    return reply if rule.stop is None else replace(reply, stop=rule.stop)


def _input_tokens(request: Request) -> int:
    asked = sum(estimated(block.text) for block in request.system)
    return asked + sum(estimated(block.text) for message in request.messages for block in message.blocks)


@lru_cache(maxsize=1024)
def estimated(text: str) -> int:
    from skillrun.collaboration.compaction import estimate_tokens

    return estimate_tokens(text)


def _call(call: Any, number: int, shown: str) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise SkillrunError(f"{shown}: call {number} of `calls` has no `name`", "Write `{name: Read, arguments: {…}}`.")
    return ToolCall(str(call.get("id", f"call-{number}")), call["name"], dict(call.get("arguments") or {}))


def _typed(item: Mapping[str, Any], key: str, kind: type[Any] | tuple[type[Any], ...], shown: str) -> Any:
    value = item.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        expected = "text" if kind is str else "a whole number" if kind is int else "a number"
        raise SkillrunError(f"{shown}: `{key}` is {value!r}", f"It is {expected}.")
    return value


def _one_of(item: Mapping[str, Any], key: str, options: Sequence[str], shown: str) -> Any:
    value = item.get(key)
    if value is not None and value not in options:
        hint = did_you_mean(str(value), options) or allowed(options)
        raise SkillrunError(f"{shown}: `{key}` is `{value}`", hint)
    return value
