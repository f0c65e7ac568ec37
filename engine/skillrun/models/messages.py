"""What goes to a model and what comes back: plain frozen values, their JSON form and the fingerprint of a request.

Owns no behaviour of any provider and imports none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, Protocol, get_args

from skillrun.language.diagnostics import SkillrunError

MessageRole = Literal["user", "assistant", "tool"]
Stop = Literal["end", "tool", "length", "refusal", "other"]
ErrorKind = Literal[
    "auth",
    "not_found",
    "rate_limit",
    "overloaded",
    "connection",
    "timeout",
    "invalid_request",
    "too_long",
    "budget",
    "other",
]

ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
RETRYABLE_KINDS: frozenset[str] = frozenset({"rate_limit", "overloaded", "connection", "timeout"})

_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class ModelError(SkillrunError):
    """A call that got no reply, after the gateway's retries. `retryable`: the same request may succeed later."""

    def __init__(self, kind: ErrorKind, message: str, retryable: bool | None = None, next_step: str = "") -> None:
        super().__init__(message, next_step)
        self.kind: ErrorKind = kind
        self.retryable = kind in RETRYABLE_KINDS if retryable is None else retryable
        self.wait: float | None = None
        """Seconds that the provider asks to wait before the next try."""

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "message": self.message, "retryable": self.retryable, "next_step": self.next_step}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelError:
        return cls(data["kind"], data["message"], data["retryable"], data.get("next_step", ""))


@dataclass(frozen=True)
class Block:
    """A paragraph of a prompt: where a provider takes one text, blocks are joined by an empty line."""

    text: str
    cache: bool = False
    """The prompt up to and including this block is worth keeping in the provider's cache."""


@dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    arguments: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


@dataclass(frozen=True)
class ToolSpec:
    name: str
    description: str
    parameters: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


@dataclass(frozen=True)
class Message:
    """A turn. `calls` belong to an assistant; `call_id` names the call that a tool message answers."""

    role: MessageRole
    blocks: tuple[Block, ...]
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""

    @property
    def text(self) -> str:
        return "\n\n".join(block.text for block in self.blocks)

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"role": self.role, "blocks": _blocks(self.blocks)}
        if self.calls:
            data["calls"] = _dicts(self.calls)
        if self.call_id:
            data["call_id"] = self.call_id
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        return cls(
            data["role"], _blocks_from(data["blocks"]), _calls_from(data.get("calls", ())), data.get("call_id", "")
        )


@dataclass(frozen=True)
class Request:
    """One model call, complete: `model` is a resolved `provider:name`."""

    model: str
    system: tuple[Block, ...]
    messages: tuple[Message, ...]
    max_tokens: int
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, Any] | None = None
    temperature: float | None = None

    def fingerprint(self) -> str:
        """SHA-256 in hex of the canonical JSON of what the model is asked; computed once.

        Cache breakpoints are left out: they change the price of a call and never its answer.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        asked = [
            self.model,
            [block.text for block in self.system],
            [[m.role, [block.text for block in m.blocks], _dicts(m.calls), m.call_id] for m in self.messages],
            self.max_tokens,
            _dicts(self.tools),
            self.schema,
            self.temperature,
        ]
        return sha256(_canonical(asked).encode("utf-8", "surrogatepass")).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "system": _blocks(self.system),
            "messages": [message.to_dict() for message in self.messages],
            "max_tokens": self.max_tokens,
            "tools": _dicts(self.tools),
            "schema": self.schema,
            "temperature": self.temperature,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Request:
        return cls(
            model=data["model"],
            system=_blocks_from(data["system"]),
            messages=tuple(Message.from_dict(message) for message in data["messages"]),
            max_tokens=data["max_tokens"],
            tools=tuple(ToolSpec(**tool) for tool in data["tools"]),
            schema=data["schema"],
            temperature=data["temperature"],
        )


@dataclass(frozen=True)
class Usage:
    """Tokens of a call. `input` counts every input token, those read from and written to a cache included."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    def to_dict(self) -> dict[str, int]:
        return {
            "input": self.input,
            "output": self.output,
            "cache_read": self.cache_read,
            "cache_write": self.cache_write,
        }


@dataclass(frozen=True)
class Reply:
    """What a model said. Only `end` and `tool` are whole: with any other `stop` the text is not an answer."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: Stop = "end"
    model: str = ""
    seconds: float = 0.0
    price: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "calls": _dicts(self.calls),
            "usage": self.usage.to_dict(),
            "stop": self.stop,
            "model": self.model,
            "seconds": self.seconds,
            "price": self.price,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reply:
        return cls(
            text=data["text"],
            calls=_calls_from(data["calls"]),
            usage=Usage(**data["usage"]),
            stop=data["stop"],
            model=data["model"],
            seconds=data["seconds"],
            price=data["price"],
        )


class Gateway(Protocol):
    """The one way to a model. `address` names the call in the run; only the scripted model reads it."""

    async def send(self, request: Request, address: str) -> Reply:
        """The reply, whatever its `stop`. Raises `ModelError`."""
        ...

    async def close(self) -> None: ...


def _blocks(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    return [{"text": block.text, "cache": True} if block.cache else {"text": block.text} for block in blocks]


def _blocks_from(data: Iterable[Mapping[str, Any]]) -> tuple[Block, ...]:
    return tuple(Block(item["text"], item.get("cache", False)) for item in data)


def _dicts(items: Iterable[ToolCall | ToolSpec]) -> list[dict[str, Any]]:
    return [item.to_dict() for item in items]


def _calls_from(data: Iterable[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(item["id"], item["name"], item["arguments"]) for item in data)
