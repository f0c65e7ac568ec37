"""The scripted model. Its replies come from a list of rules matched by address, or are generated from the request's
fingerprint.

It is free and deterministic, for tests, `--dry-run` and authors' test cases.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from typing import Any, get_args

from skillrun.definitions.reader import Reader
from skillrun.definitions.verbs import Key, Keys
from skillrun.models.messages import (
    ERROR_KINDS,
    NULL_LISTENER,
    AttemptListener,
    ErrorKind,
    ModelError,
    Outcomes,
    Reply,
    Request,
    StopReason,
    ToolCall,
    Usage,
)
from skillrun.structured_output.trailing_record import answer_each_point, append_record, find_last_block
from skillrun.syntax import source
from skillrun.syntax.diagnostics import Problems
from skillrun.templates.expressions import Value

WORDS = (
    "account", "boundary", "cache", "change", "client", "column", "contract", "cost", "data", "default", "edge",
    "error", "event", "field", "file", "flow", "folder", "handler", "index", "input", "interface", "layer", "limit",
    "list", "load", "lock", "log", "message", "migration", "module", "name", "order", "output", "owner", "page",
    "parser", "path", "plan", "queue", "read", "record", "release", "request", "result", "retry", "review", "risk",
    "route", "rule", "schema", "scope", "server", "session", "signal", "state", "step", "store", "table", "task",
    "test", "token", "type", "user", "write",
)  # fmt: skip

NOISE_MODEL = "scripted:noise"

KEYS: Keys = {
    "address": Key("text", "a pattern for the call's address"),
    "model": Key("text", "a pattern for the model"),
    "text": Key("text", "the reply"),
    "data": Key("anything", "the reply, as JSON"),
    "record": Key("anything", "the record at the end of a text; generated if omitted; `false` means no record"),
    "calls": Key("calls", "tool calls"),
    "fail": Key("choice", "the kind of failure, if the call fails", values=ERROR_KINDS),
    "message": Key("text", "the message of the failure"),
    "stop": Key("choice", "why the reply ended", values=get_args(StopReason)),
    "times": Key("integer", "how many calls the rule applies to", least=0, most=10**9),
    "cached": Key("integer", "prompt tokens read from the provider's cache", least=0, most=10**9),
    "delay": Key("number", "seconds to wait", least=0, most=10**6),
}
CALL_KEYS: Keys = {
    "name": Key("text", "the name of the tool, such as `Read`", required=True),
    "arguments": Key("anything", "the arguments of the tool"),
    "id": Key("text", "the id of the call"),
}


@dataclass
class Rule:
    """One reply of a script, used for the first `times` matching calls. `answered_calls` lists the calls that got this
    reply."""

    address: str = "*"
    model: str = "*"
    text: str | None = None
    data: Any = None
    record: Any = None
    calls: tuple[ToolCall, ...] = ()
    fail: ErrorKind | None = None
    message: str = ""
    stop: StopReason | None = None
    times: int | None = None
    cached: int = 0
    delay: float = 0
    answered_calls: list[tuple[str, Request]] = field(default_factory=list)
    span: source.Span | None = field(default=None, compare=False)  # its position in a file

    @property
    def is_unused(self) -> bool:
        """Whether the rule could reply to a call, but has not."""
        return not self.answered_calls and self.times != 0

    def count_call(self, address: str, request: Request) -> None:
        """Count a call to which the rule replies."""
        self.answered_calls.append((address, request))
        if self.times is not None:
            self.times -= 1

    def could_produce(self, outcome: Reply | ModelError) -> bool:
        """Whether the outcome can come from this rule. A rule that sets no reply can produce any reply."""
        if self.fail is not None or isinstance(outcome, ModelError):
            return isinstance(outcome, ModelError) and outcome.kind == self.fail
        if self.data is not None:
            return outcome.text == Reply(json.dumps(self.data, ensure_ascii=False)).text
        if self.text is not None:  # a record may follow the text
            return outcome.text.startswith(Reply(self.text).text.rstrip()) and bool(outcome.text) == bool(self.text)
        produced_calls = [(call.name, call.arguments) for call in outcome.calls]
        return produced_calls == [(call.name, call.arguments) for call in self.calls]

    def matches(self, address: str, model: str) -> bool:
        return self.times != 0 and fnmatchcase(address, self.address) and fnmatchcase(model, self.model)


class ScriptedGateway:
    """Replies with the first matching rule that is not used up, or generates a reply if no rule is left.

    `calls` holds every call in order, for tests and dry runs.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        price: Callable[[str, Usage], float | None] = lambda _model, _usage: 0.0,
    ) -> None:
        """Create the gateway. `price` returns the price in dollars that each reply reports; by default, replies are
        free."""
        self.price = price
        self.rules = [replace(rule, answered_calls=[]) for rule in rules]  # copies, because a rule counts its calls
        self.calls: list[tuple[str, Request]] = []
        self._counted_calls: set[tuple[str, str]] = set()

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        await attempts.on_sent(1)
        self.calls.append((address, request))
        self._counted_calls.add((address, request.fingerprint()))
        rule = next((rule for rule in self.rules if rule.matches(address, request.model)), Rule())
        rule.count_call(address, request)
        if rule.delay:
            await asyncio.sleep(rule.delay)
        if rule.fail is not None:
            error = ModelError(rule.fail, rule.message or f"The script fails this call ({rule.fail}).")
            await attempts.on_failed(1, error)
            raise error
        text = json.dumps(rule.data, ensure_ascii=False) if rule.data is not None else rule.text
        if text is None:
            text = "" if rule.calls else _generate_text(request)
        if text and rule.data is None and rule.stop is None and rule.record is not False:
            if rule.record is not None:
                text = append_record(text, rule.record)
            elif request.record_schema is not None and find_last_block(text) is None:
                text = append_record(text, _generate_value(request, request.record_schema))
        size = sum(_count_tokens(block.text) for block in request.blocks)
        usage = Usage(size, _count_tokens(text), min(rule.cached, size))
        stop = rule.stop or ("tool" if rule.calls else "end")
        return Reply(text, rule.calls, usage, stop, request.model, price=self.price(request.model, usage))

    def on_replayed(self, address: str, request: Request, outcomes: Outcomes) -> None:
        """Count a call made before this gateway existed. Each outcome counts for the first rule that can have produced
        it. A repeated notification about the same call is ignored."""
        call = (address, request.fingerprint())
        if call in self._counted_calls or not outcomes:
            return
        self._counted_calls.add(call)
        for outcome in outcomes:
            matching_rules = (
                rule for rule in self.rules if rule.matches(address, request.model) and rule.could_produce(outcome)
            )
            if (rule := next(matching_rules, None)) is not None:
                rule.count_call(address, request)

    async def close(self) -> None:
        return None


def read_script(node: source.Node, problems: Problems) -> list[Rule]:
    """Return the rules in a script file. Errors are reported at their position."""
    if isinstance(node, source.Scalar) and node.value is None:
        return []
    reader = _ScriptReader(problems, literal=True)
    rules = []
    for item in node.items if isinstance(node, source.Sequence) else (node,):
        if not isinstance(node, source.Sequence) or not isinstance(item, source.Mapping):
            hint = "a script is a list of replies such as `- {address: 'plan/setup/*', text: …}`"
            problems.report(item.span, "script", "this is not a reply of a script", hint)
            continue
        values = reader.read(item, KEYS)
        replies = [name for name in ("text", "data", "fail") if name in values]
        if len(replies) > 1:
            span = item.entries[replies[1]].key.span
            problems.report(span, "script", f"a reply has `{replies[0]}` or `{replies[1]}`, not both")
        rules.append(Rule(**values, span=item.span))
    return rules


class _ScriptReader(Reader):
    """Reads the keys of a rule."""

    def read_key_value(self, name: str, key: Key, node: source.Node) -> Any:
        if key.kind == "calls":
            items = self.read_items(node, "calls", "write `{name: Read, arguments: {…}}`")
            return tuple(self.read_call(item, number) for number, item in enumerate(items, 1))
        value = super().read_key_value(name, key, node)
        return value.literal if isinstance(value, Value) else value

    def read_call(self, node: source.Node, number: int) -> ToolCall:
        values = self.read(node, CALL_KEYS)
        arguments = node.get("arguments") if isinstance(node, source.Mapping) else None
        if arguments is not None and not isinstance(arguments, source.Mapping):
            self.report_wrong_type(arguments, "a mapping of names to values for `arguments`")
        given = values.get("arguments")
        return ToolCall(
            values.get("id", f"call-{number}"), values.get("name", ""), given if isinstance(given, dict) else {}
        )


def _generate_value(request: Request, schema: Mapping[str, Any]) -> Any:
    from skillrun.types.samples import DEFAULT_LIMITS, WIDE_LIMITS, sample

    bounds = WIDE_LIMITS if request.model.startswith(NOISE_MODEL) else DEFAULT_LIMITS
    return answer_each_point(sample(schema, request.fingerprint(), bounds), schema)


def _generate_text(request: Request) -> str:
    """Return a reply generated from the request's fingerprint: a valid value if the request has a schema, else a
    heading, a paragraph and a list.

    For a model whose name starts with `scripted:noise`, lists are empty or long, and texts have any length.
    """
    seed = request.fingerprint()
    noisy = request.model.startswith(NOISE_MODEL)
    if request.schema is not None:
        return json.dumps(_generate_value(request, request.schema), ensure_ascii=False)
    sections = []
    for number in range(1 + int(seed[:4], 16) % 20 if noisy else 1):
        digest = sha256(f"{seed}{number}".encode()).digest() if number else bytes.fromhex(seed)
        words = [WORDS[byte % 64] for byte in digest]
        lines = "\n".join(f"- {words[i].capitalize()} {words[i + 1]} {words[i + 2]}." for i in range(20, 32, 4))
        heading = f"# {words[0].capitalize()} {words[1]}"
        sections.append(f"{heading}\n\n{' '.join(words[2:20]).capitalize()}.\n\n{lines}\n")
    return "\n".join(sections)


@lru_cache(maxsize=1024)
def _count_tokens(text: str) -> int:
    from skillrun.scoring.compaction import estimate_tokens

    return estimate_tokens(text)
