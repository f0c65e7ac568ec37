"""What model servers accept: one table of capabilities, and a profile of each server and model.

For users of the table:

- `CAPABILITIES` maps each capability to its `Capability`. A capability is also a key of an entry of `providers` in
  `config/models.yaml`. Its `values` are ordered: the first is tried first, and a refusal leads to the next.
- `ServerProfile.read(provider, model, cache)` returns the profile of one model of one server, from `providers`
  (`configured`) and from earlier refusals (`learned`, `window`, `learned_output`).
  `profile.value(name)` is the value in force, and `profile.source(name)` says who sets it.
- `profile.adapt(body, note)` returns the JSON body of a request that follows it, and `profile.learn(...)` takes a
  refusal.
- The cache is one JSON file per kind, address and model in `<cache>/servers/`. `profile.save()` writes it, and
  `profile.forget()` deletes it, so that the server gets the full request again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skillrun.library.models_yaml import TABLES
from skillrun.models.entries import ProviderConfig

Body = dict[str, Any]
OUTPUT_TOOL: Final = "reply"
"""The name of the tool that takes a structured reply."""
REFUSAL_STATUSES: Final = frozenset({400, 404, 405, 415, 422, 500, 501})
"""The statuses with which servers refuse a field of a request. llama-cpp-python uses 500."""
MIN_OUTPUT: Final = 256
"""A server that allows fewer tokens of output than this is of no use."""
_AUTHOR_KEYS: Final = frozenset({"parameters", "input_schema", "schema", "arguments"})
_DEPTH: Final = 6
_REFUSES: Final = re.compile(
    r"\bno[tn]?\b|n't|unsupported|unknown|unrecogni[sz]ed|invalid|unavailable|extra|unexpected|requires?|must be"
    r"|should be|cannot|disabled|unable|fail|only|incompatible|exclusive",
    re.IGNORECASE,
)


@dataclass
class Draft:
    """The JSON body of a request, which is changed in place.

    `protocol` is `anthropic`, `responses` or `openai`. `note` describes the schema to servers without structured
    output.
    """

    body: Body
    protocol: str
    note: str = ""

    @property
    def turns(self) -> list[Body]:
        return [turn for turn in self.body.get("messages") or self.body.get("input") or [] if isinstance(turn, dict)]


@dataclass(frozen=True)
class Capability:
    """One row of the table. `refused` maps each value that a server can refuse to the words of its refusal. `is_used`
    says whether a request uses a value, and `apply` changes a request so that it uses a value."""

    name: str
    refused: Mapping[str, re.Pattern[str]]
    is_used: Callable[[Draft, str], bool]
    apply: Callable[[Draft, str], None]

    @property
    def values(self) -> tuple[str, ...]:
        return TABLES["providers"][self.name].values


# -- structured replies -----------------------------------------------------------------------------------------------


def _take_schema(body: Body) -> dict[str, Any] | None:
    """Remove the schema of the reply from a body, in whatever form it is there, and return it."""
    schema: dict[str, Any] | None = None
    text = body.get("text")
    for holder, key in ((body, "response_format"), (text, "format"), (body.get("output_config"), "format")):
        if isinstance(holder, dict) and isinstance(holder.get(key), dict):
            form = holder.pop(key)
            schema = form.get("schema") or (form.get("json_schema") or {}).get("schema") or schema
    for key in ("text", "output_config"):
        if body.get(key) == {}:
            del body[key]
    tools = body.get("tools") or []
    for tool in tools:
        function = tool.get("function") or tool
        if function.get("name") == OUTPUT_TOOL:
            schema = function.get("parameters") or function.get("input_schema")
            body["tools"] = [other for other in tools if other is not tool]
            body.pop("tool_choice", None)
    if body.get("tools") == []:
        del body["tools"]
    return schema


def _structured_form(body: Body) -> str:
    """Return the value of `structured_output` that a body uses; empty if the request has no schema."""
    text, config = body.get("text") or {}, body.get("output_config") or {}
    form = body.get("response_format") or text.get("format") or config.get("format")
    if form:
        return str(form.get("type"))
    names = [(tool.get("function") or tool).get("name") for tool in body.get("tools") or []]
    return "tool" if OUTPUT_TOOL in names else ""


def _apply_structured_output(draft: Draft, value: str) -> None:
    body, protocol = draft.body, draft.protocol
    form = _structured_form(body)
    if form in ("", value) or (form == "tool" and value == "json_schema"):
        return
    forbids_calls = body.get("tool_choice") in ("none", {"type": "none"})
    schema = _take_schema(body)
    if value == "tool":
        if protocol == "openai":
            tool: Body = {"type": "function", "function": {"name": OUTPUT_TOOL, "parameters": schema}}
            choice: Any = {"type": "function", "function": {"name": OUTPUT_TOOL}}
        elif protocol == "responses":
            tool = {"type": "function", "name": OUTPUT_TOOL, "parameters": schema, "strict": False}
            choice = {"type": "function", "name": OUTPUT_TOOL}
        else:
            tool = {"name": OUTPUT_TOOL, "input_schema": schema}
            choice = {"type": "tool", "name": OUTPUT_TOOL}
        others = body.get("tools") or []
        body["tools"] = [*others, tool]
        any_tool = {"type": "any"} if protocol == "anthropic" else "required"
        body["tool_choice"] = any_tool if others and not forbids_calls else choice
        return
    if value == "json_object" and protocol != "anthropic":
        if protocol == "openai":
            body["response_format"] = {"type": "json_object"}
        else:
            body["text"] = {**body.get("text", {}), "format": {"type": "json_object"}}
    _add_to_user_turn(draft, draft.note, at_end=True)


def _combines_tools_with_schema(draft: Draft, _value: str = "") -> bool:
    return bool(draft.body.get("tools")) and _structured_form(draft.body) in ("json_schema", "json_object")


def _apply_tools_with_schema(draft: Draft, value: str) -> None:
    if value == "tool" and _combines_tools_with_schema(draft):
        _apply_structured_output(draft, "tool")


# -- turns ------------------------------------------------------------------------------------------------------------


def _add_to_user_turn(draft: Draft, text: str, *, at_end: bool) -> None:
    """Append a text to the last turn of the user, or to the beginning of the first one."""
    kind = "input_text" if draft.protocol == "responses" else "text"
    for turn in reversed(draft.turns) if at_end else draft.turns:
        content: Any = turn.get("content")
        if turn.get("role") != "user":
            continue
        if isinstance(content, str):
            turn["content"] = f"{content}\n\n{text}" if at_end else f"{text}\n\n{content}"
            return
        if isinstance(content, list) and any(part.get("type") == kind for part in content):
            content.insert(len(content) if at_end else 0, {"type": kind, "text": text})
            return


def _system_texts(draft: Draft) -> list[str]:
    body, system = draft.body, draft.body.get("system")
    parts = [system] if isinstance(system, str) else [part.get("text", "") for part in system or []]
    parts += [body["instructions"]] if body.get("instructions") else []
    contents = [turn["content"] for turn in draft.turns if turn.get("role") in ("system", "developer")]
    return parts + [
        content if isinstance(content, str) else "\n\n".join(part["text"] for part in content) for content in contents
    ]


def _apply_system_prompt(draft: Draft, value: str) -> None:
    body, texts = draft.body, _system_texts(draft)
    if value == "system" or not texts:
        return
    for key in ("system", "instructions"):
        body.pop(key, None)
    key = "input" if draft.protocol == "responses" else "messages"
    body[key] = [turn for turn in body[key] if turn.get("role") not in ("system", "developer")]
    _add_to_user_turn(draft, "\n\n".join(texts), at_end=False)


# -- fields -----------------------------------------------------------------------------------------------------------


def _apply_output_limit(draft: Draft, value: str) -> None:
    body = draft.body
    if "max_tokens" in body and draft.protocol == "openai" and value != "max_tokens":
        limit = body.pop("max_tokens")
        if value == "max_completion_tokens":
            body["max_completion_tokens"] = limit


def _fields(value: Any, depth: int = _DEPTH) -> Iterator[tuple[Body, str]]:
    """Yield the fields of a body that skillrun sets, with the mapping that each is in. Schemas, arguments and texts are
    the author's or the model's, and are left out."""
    if isinstance(value, list):
        for item in value:
            yield from _fields(item, depth - 1)
    elif isinstance(value, dict) and depth:
        for key, item in list(value.items()):
            yield value, key
            if key not in _AUTHOR_KEYS and not (key == "input" and isinstance(item, dict)):
                yield from _fields(item, depth - 1)


def _omittable_fields(draft: Draft) -> Iterator[tuple[Body, str]]:
    """Yield the fields that a request can do without, with the mapping that each is in. Thoughts that go back are
    yielded as `thinking`."""
    for holder, key in list(_fields(draft.body)):
        if key == "type" and holder[key] in _THOUGHTS:
            yield holder, "thinking"
        elif key in OMITTABLE and not (key == "stream" and holder[key]):  # a stream is read as a stream
            yield holder, key


def _omit_fields(draft: Draft, omitted: Collection[str]) -> None:
    for holder, name in _omittable_fields(draft):
        if name in omitted:
            holder.pop(name, None)
            if name == "thinking":
                holder.clear()
    for turn in draft.turns:
        if isinstance(turn.get("content"), list):
            turn["content"] = [part for part in turn["content"] if part]


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(words, re.IGNORECASE)


_STRUCTURE: Final = _pattern(
    r"response[_ ]?format|json[_ ]?schema|structured[_ ]?output|output[_ ](?:config|format)|text\.format|mime ?type"
    r"|json[_ ]?(?:object|mode)|grammar|guided"
)
_TOOLS: Final = _pattern(r"\btools?\b|tool[_ ]?(?:choice|call|use)|function")
_SYSTEM: Final = _pattern(
    r"\b(?:system|developer)[_ ]?(?:role|prompt|message|instruction)|\brole\b.{0,60}\b(?:system|assistant)\b"
    r"|roles? .{0,60}\bsystem\b|['\"`](?:system|developer)['\"`]|\bsystem\b\W*(?:extra|not |un|is not)"
    r"|messages?[.\[]0\]?\.role|\binstructions\b"
)
CAPABILITIES: Final[Mapping[str, Capability]] = {
    capability.name: capability
    for capability in (
        Capability(
            "tools_with_schema",
            {"native": _pattern(rf"(?s)\A(?=.*(?:{_TOOLS.pattern}))(?=.*(?:{_STRUCTURE.pattern}))")},
            _combines_tools_with_schema,
            _apply_tools_with_schema,
        ),
        Capability(
            "structured_output",
            {"json_schema": _STRUCTURE, "tool": _TOOLS, "json_object": _STRUCTURE},
            lambda draft, value: _structured_form(draft.body) == value,
            _apply_structured_output,
        ),
        Capability(
            "system_prompt",
            {"system": _SYSTEM},
            lambda draft, value: value == "system" and bool(_system_texts(draft)),
            _apply_system_prompt,
        ),
        Capability(
            "output_limit",
            {"max_tokens": _pattern(r"max_?tokens"), "max_completion_tokens": _pattern(r"max_?completion_?tokens")},
            lambda draft, value: value in draft.body and draft.protocol == "openai",
            _apply_output_limit,
        ),
    )
}
"""The capabilities with ordered values, in the order in which a refusal is compared with them."""

OMITTABLE: Final = TABLES["providers"]["omit"].values
"""The fields that skillrun adds by itself, and that a request can do without."""
_THOUGHTS: Final = ("thinking", "redacted_thinking", "reasoning")
"""The types of parts that hold thoughts of earlier turns."""


# -- limits -----------------------------------------------------------------------------------------------------------

LIMIT_FIELDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_NAMES_LIMIT: Final = _pattern(r"max_?(?:new|completion|output)?_?tokens|context|completion tokens|output tokens")
_TOO_LARGE: Final = _pattern(r"too (?:large|high|big|long)|range|exceed|at most|maximum|less than|limit|<|>|up to")
_NUMBER: Final = re.compile(r"(?<![\w.])\d{1,3}(?:,\d{3})+|(?<![\w.])\d{2,9}(?![\w.]*\w)")
_AMOUNT: Final = r"((?<![\d,])\d[\d,]{0,11}(?![\d,]))"
_WINDOW: Final = _pattern(
    rf"context (?:length|window|size|limit)s?(?!\D{{0,24}}\d{{1,12}} \+)\D{{0,24}}{_AMOUNT}"
    rf"|\+\s{{0,9}}\d{{1,12}}\s{{0,9}}>\s{{0,9}}{_AMOUNT}"
)
_PROMPT: Final = _pattern(
    rf"{_AMOUNT} (?:input|prompt)? ?tokens? ?(?:in|from) the (?:messages|prompt|input)|\({_AMOUNT} in the messages"
    rf"|(?:request|prompt|input|messages?) (?:has|have|contains?|resulted in|of) {_AMOUNT}"
    rf"|{_AMOUNT} (?:input|prompt) tokens|limits?:? {_AMOUNT} \+"
)


def _whole(match: re.Match[str] | None) -> int | None:
    return int(next(group for group in match.groups() if group).replace(",", "")) if match else None


def find_lower_limit(sent: int, message: str) -> tuple[int, int]:
    """Return the output limit that a refusal of `sent` tokens names, and the context window that it names; 0 for each
    that it does not name, or if the prompt alone is too long."""
    if not (_NAMES_LIMIT.search(message) and _TOO_LARGE.search(message)):
        return 0, 0
    window, prompt = _whole(_WINDOW.search(message)), _whole(_PROMPT.search(message))
    if window is not None:
        room = window - prompt if prompt is not None else 0
        return (room if MIN_OUTPUT <= room < sent else 0), window
    numbers = [int(number.replace(",", "")) for number in _NUMBER.findall(message)]
    return max((number for number in numbers if MIN_OUTPUT <= number < sent), default=0), 0


# -- profiles ---------------------------------------------------------------------------------------------------------


_NUMBERS: Final = ("window", "learned_output")


@dataclass
class ServerProfile:
    """The profile of one model of one server. `window` is 0 until a refusal names it."""

    path: Path | None
    protocol: str
    configured: Mapping[str, str]
    learned: dict[str, str] = field(default_factory=dict)
    window: int = 0
    learned_output: int = 0
    """The output limit that the server has named in a refusal; 0 if none."""
    address: str = ""
    model: str = ""

    @classmethod
    def read(cls, provider: ProviderConfig, model: str, cache: Path | None) -> ServerProfile:
        """Return the profile of a model of a provider. A missing or damaged cache file counts as empty."""
        key = hashlib.sha256(f"{provider.kind} {provider.base_url} {model}".encode()).hexdigest()[:32]
        is_local = provider.kind == "embedded"  # its port changes
        path = cache / "servers" / f"{key}.json" if cache is not None and not is_local else None
        configured = {name: value for name in CAPABILITIES if (value := getattr(provider, name))}
        if provider.omit is not None:
            configured["omit"] = " ".join(provider.omit)
        protocol = provider.kind if provider.kind in ("anthropic", "responses") else "openai"
        profile = cls(path, protocol, configured, address=provider.base_url, model=model)
        with suppress(OSError, ValueError, AttributeError, TypeError):
            data = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
            learned = {
                name: value
                for name, value in data.get("learned", {}).items()
                if (name in CAPABILITIES and value in CAPABILITIES[name].values)
                or (name == "omit" and set(value.split()) <= set(OMITTABLE))
            }
            numbers = [int(data.get(name, 0)) for name in _NUMBERS]
            profile.learned, (profile.window, profile.learned_output) = learned, numbers
        return profile

    def value(self, name: str) -> str:
        """Return the value of a capability that is in force. `omit` is a list of fields with blanks between them."""
        default = CAPABILITIES[name].values[0] if name in CAPABILITIES else ""
        return self.configured.get(name, self.learned.get(name, default))

    def source(self, name: str) -> str:
        """Return who sets a capability: `configured`, `learned` or `default`."""
        return "configured" if name in self.configured else "learned" if name in self.learned else "default"

    def adapt(self, body: Body, note: str = "", limit: int = 0) -> Body:
        """Return a request body that follows the profile.

        `note` is the text that describes the schema to servers without structured output. `limit` lowers the output
        limit of this request, if it is not 0.
        """
        draft = Draft(deepcopy(body), self.protocol, note)
        if draft.body.get("tool_choice") in ("auto", {"type": "auto"}):
            del draft.body["tool_choice"]  # every server's default
        for key in LIMIT_FIELDS:
            if isinstance(draft.body.get(key), int):
                draft.body[key] = min(number for number in (draft.body[key], limit, self.learned_output) if number)
        for name, capability in CAPABILITIES.items():
            capability.apply(draft, self.value(name))
        _omit_fields(draft, self.value("omit").split())
        return draft.body

    def learn(self, sent: Body, message: str, build_next: Callable[[], Body] = dict) -> str:
        """Return how the next request differs from `sent`, which the server has refused with `message`; empty if
        nothing that skillrun added by itself can be changed. `build_next` returns the next request, so that the same
        request is never sent again."""
        if not _REFUSES.search(message):
            return ""
        draft = Draft(sent, self.protocol)
        for name, capability in CAPABILITIES.items():
            used = next((each for each in capability.values if capability.is_used(draft, each)), "")
            refused = capability.refused.get(used)
            if refused is None or name in self.configured or not refused.search(message):
                continue
            following = capability.values[capability.values.index(used) + 1 :]
            if self.value(name) not in following:  # else another call has learned it meanwhile
                self.learned[name] = following[0]
                self.save()
            if build_next() != sent:
                return f"`{name}: {self.value(name)}`"
        for _, name in _omittable_fields(draft) if "omit" not in self.configured else ():
            if re.search(rf"\b{name.replace('_', '[_ ]')}\b", message, re.IGNORECASE):
                fields = dict.fromkeys([*self.value("omit").split(), name])
                self.learned["omit"] = " ".join(fields)
                self.save()
                if build_next() != sent:
                    return f"`omit: [{', '.join(fields)}]`"
        return ""

    def save(self) -> None:
        """Write the cache file. If it cannot be written, the profile holds for this process only."""
        if self.path is None:
            return
        names = ("address", "model", "learned", *_NUMBERS)
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(f".{os.getpid()}.partial")
            partial.write_text(json.dumps({name: getattr(self, name) for name in names}, indent=1), encoding="utf-8")
            partial.replace(self.path)

    def forget(self) -> None:
        """Delete the cache file and what was learned."""
        self.learned = {}
        self.window = self.learned_output = 0
        if self.path is not None:
            self.path.unlink(missing_ok=True)
