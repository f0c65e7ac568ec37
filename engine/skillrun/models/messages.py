"""Requests to models and replies, as frozen values that are independent of providers.

Converts both to JSON, and computes the fingerprint of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Protocol, get_args

from skillrun.replay import RequestFailed, fingerprint_json
from skillrun.syntax.diagnostics import sanitize
from skillrun.types.records import NonNegativeInt

MessageRole = Literal["user", "assistant", "tool"]
StopReason = Literal["end", "tool", "length", "refusal", "other"]
ErrorKind = Literal[
    "auth", "not_found", "rate_limit", "overloaded", "connection",
    "timeout", "invalid_request", "too_long", "refusal", "budget", "missing", "other",
]  # fmt: skip

ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
RETRYABLE_ERRORS = frozenset({"rate_limit", "overloaded", "connection", "timeout"})
CONFIGURATION_ERRORS = frozenset({"auth", "not_found"})
"""Kinds of errors that another key or model could avoid."""
PERMANENT_ERRORS = frozenset({"invalid_request", "too_long", "refusal"})
"""Kinds of errors that the same request causes again."""
FATAL_ERRORS = frozenset({"budget", "missing"})
"""Kinds of errors after which further calls would fail too: the account has no credit, or the local model is
missing."""


class ModelError(RequestFailed):
    """A call that got no reply. `retryable` means that the same request can succeed later. `given_up` means that the
    gateway has used up its attempts, so callers must not retry immediately."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        retryable: bool | None = None,
        next_step: str = "",
        given_up: bool = False,
    ) -> None:
        super().__init__(sanitize(message), sanitize(next_step))
        self.kind: ErrorKind = kind
        self.retryable = kind in RETRYABLE_ERRORS if retryable is None else retryable
        self.given_up = given_up
        self.wait: float | None = None
        """How many seconds the provider asks to wait before the next attempt."""
        self.is_unreachable = False
        """Whether nothing was sent, because no connection was established."""
        self.adaptation = ""
        """How the next attempt differs from the failed one, if the server has refused a field that skillrun added."""
        self.usage: Usage | None = None
        """The tokens of a reply that was received but cannot be used; None if there was no reply."""

    @property
    def is_final(self) -> bool:
        """Whether the failure is final. A failure whose cause a user can fix is not final: `resume` sends the request
        again."""
        return self.kind not in FATAL_ERRORS | CONFIGURATION_ERRORS

    def to_dict(self) -> dict[str, Any]:
        record = {"kind": self.kind, "message": self.message, "retryable": self.retryable, "next_step": self.next_step}
        return {**record, "given_up": True} if self.given_up else record

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelError:
        return cls(**data)


@dataclass(frozen=True)
class Block:
    """A paragraph of a prompt. For providers that take a single text, blocks are joined with an empty line between
    them."""

    text: str
    cache: bool = False
    """Whether the provider should cache the prompt up to and including this block."""
    part: str = ""
    """Display name of the prompt part that this block represents."""
    left_out: tuple[str, ...] = ()
    """Display texts about content that did not fit into the block."""

    def to_dict(self) -> dict[str, Any]:
        part = {"part": self.part} if self.part else {}
        left_out = {"left_out": list(self.left_out)} if self.left_out else {}
        return {"text": self.text, "cache": self.cache, **part, **left_out}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Block:
        return cls(data["text"], data.get("cache", False), data.get("part", ""), tuple(data.get("left_out", ())))


@dataclass(frozen=True)
class ToolCall:
    """A tool call in a reply. `extra` is opaque data that must be sent back to the provider with the call, such as
    Gemini's thought signature."""

    id: str
    name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "extra" or value}

    def map_fields(self, function: Callable[[Any], Any]) -> ToolCall:
        """Return the call with `function` applied to each field."""
        return ToolCall(function(self.id), function(self.name), function(self.arguments), function(self.extra))

    def fingerprint(self) -> str:
        """Return the fingerprint under which the result of this call is recorded."""
        return Request("tool", (), (Message("tool", (), (self,)),), 0).fingerprint()


@dataclass(frozen=True)
class ToolSpec:
    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Message:
    """A turn of a conversation. `calls` holds the tool calls of an assistant message. In a tool message, `call_id`
    identifies the call that the message answers."""

    role: MessageRole
    blocks: tuple[Block, ...]
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""

    def to_dict(self) -> dict[str, Any]:
        calls = [call.to_dict() for call in self.calls]
        return {**vars(self), "blocks": [block.to_dict() for block in self.blocks], "calls": calls}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        calls = tuple(ToolCall(**call) for call in data.get("calls", ()))
        return cls(data["role"], tuple(map(Block.from_dict, data["blocks"])), calls, data.get("call_id", ""))


@dataclass(frozen=True)
class Request:
    """A complete request for one model call. `model` is a resolved `provider:name`."""

    model: str
    system: tuple[Block, ...]
    messages: tuple[Message, ...]
    max_tokens: int
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, Any] | None = None
    temperature: float | None = None
    answer_now: bool = False
    """Whether further tool calls are forbidden. `tools` still lists the tools, because providers require the
    declaration of every tool that the messages use."""
    continues_conversation: bool = False
    """Whether the request continues the conversation of an earlier step. The messages already show this to the
    model."""
    schema_note: str = ""
    """Describes `schema` to a server without structured output. Other servers do not get it."""
    record_schema: dict[str, Any] | None = None
    """The schema of the record at the end of the reply. The prompt describes it to the model; only the scripted model
    reads this field."""

    @property
    def blocks(self) -> list[Block]:
        """The blocks of the prompt in order: the system prompt, then the messages."""
        return [*self.system, *(block for message in self.messages for block in message.blocks)]

    def fingerprint(self) -> str:
        """Return the hexadecimal SHA-256 of the request's canonical JSON. It is computed once.

        Cache breakpoints are left out, because they do not change the reply. `extra` is left out, because it belongs to
        the provider.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        asked = [
            self.model,
            [block.text for block in self.system],
            [
                [
                    m.role,
                    [b.text for b in m.blocks],
                    [ToolCall(c.id, c.name, c.arguments).to_dict() for c in m.calls],
                    m.call_id,
                ]
                for m in self.messages
            ],
            self.max_tokens,
            [vars(tool) for tool in self.tools],
            self.schema,
            self.temperature,
            *([True] if self.answer_now else []),
        ]
        return fingerprint_json(asked)

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "system": [block.to_dict() for block in self.system],
            "messages": [message.to_dict() for message in self.messages],
            "max_tokens": self.max_tokens,
            "tools": [dict(vars(tool)) for tool in self.tools],
            "schema": self.schema,
            "temperature": self.temperature,
            **({"answer_now": True} if self.answer_now else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Request:
        """Return the request for a result of `to_dict`. The fingerprint is the same, and unknown keys are ignored."""
        return cls(
            data["model"],
            tuple(map(Block.from_dict, data["system"])),
            tuple(map(Message.from_dict, data["messages"])),
            data["max_tokens"],
            tuple(ToolSpec(**tool) for tool in data["tools"]),
            data.get("schema"),
            data.get("temperature"),
            data.get("answer_now", False),
        )


@dataclass(frozen=True)
class Usage:
    """The tokens that a call used. `input` counts all input tokens, including those read from or written to a cache."""

    input: NonNegativeInt = 0
    output: NonNegativeInt = 0
    cache_read: NonNegativeInt = 0
    cache_write: NonNegativeInt = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    def to_dict(self) -> dict[str, int]:
        return dict(vars(self))


@dataclass(frozen=True)
class Reply:
    """A model's reply. Its texts are sanitized. The reply is complete only if `stop` is `end` or `tool`."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: StopReason = "end"
    model: str = ""
    seconds: float = 0.0
    price: float | None = None
    stop_detail: str = ""
    """The provider's own word for an unknown `stop`, or a remark about an empty text."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", sanitize(self.text))
        object.__setattr__(self, "model", sanitize(self.model))
        object.__setattr__(self, "stop_detail", sanitize(self.stop_detail))
        if self.calls:
            object.__setattr__(self, "calls", tuple(call.map_fields(sanitize) for call in self.calls))

    def to_dict(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if name != "stop_detail" or value}
        return {**fields, "calls": [call.to_dict() for call in self.calls], "usage": self.usage.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reply:
        calls = tuple(ToolCall(**call) for call in data["calls"])
        return cls(**{**data, "calls": calls, "usage": Usage(**data["usage"])})


Outcomes = Sequence[Reply | ModelError]
"""The outcomes of one call's attempts, oldest first."""


class AttemptListener:
    """Receives a notification of every attempt of a call, and can prevent the attempt. This class ignores them."""

    async def on_sent(self, number: int) -> None:
        """Handle an attempt that has a slot and is about to be sent. Raise an error to prevent the attempt."""

    async def on_failed(self, number: int, error: ModelError) -> None:
        """Handle an attempt that got no reply."""


NULL_LISTENER: Final = AttemptListener()


class Gateway(Protocol):
    """The only path to a model. The `address` of a call identifies it in the run; only the scripted model reads it."""

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        """Return the reply, even if its `stop` shows that it is incomplete. Raises `ModelError`, and any error that
        `attempts` raises.

        While an attempt holds its slot, `attempts` is notified right before the request is sent, and again if the
        attempt fails.
        """
        ...

    async def close(self) -> None: ...
