"""Defines the valid body of each kind of journal record. Untrusted journals can contain invalid bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NotRequired, TypedDict

from skillrun.models.messages import MessageRole, StopReason, ToolCall, ToolSpec, Usage
from skillrun.questions.answers import Answer, QuestionRecord
from skillrun.types.records import NonNegativeFloat, NonNegativeInt, forbid_extra_keys, matches_record

Verdict = Literal["found", "missing", "withheld"]


class BlockBody(TypedDict):
    """A paragraph of a prompt; see `models.messages.Block`."""

    text: str
    cache: NotRequired[bool]
    part: NotRequired[str]
    left_out: NotRequired[list[str]]


class MessageBody(TypedDict):
    role: MessageRole
    blocks: list[BlockBody]
    calls: NotRequired[list[ToolCall]]
    call_id: NotRequired[str]


class SentBody(TypedDict):
    """A request before it is sent; see `models.messages.Request`. Validated only for display."""

    model: str
    system: list[BlockBody]
    messages: list[MessageBody]
    max_tokens: int
    tools: list[ToolSpec]
    schema: NotRequired[dict[str, object] | None]
    temperature: NotRequired[float | None]
    answer_now: NotRequired[bool]
    round: NotRequired[str]
    attempt: NotRequired[NonNegativeInt]


@forbid_extra_keys
class ReplyBody(TypedDict):
    """A reply of a model; see `models.messages.Reply`."""

    text: str
    calls: list[ToolCall]
    usage: Usage
    price: NonNegativeFloat | None
    stop: NotRequired[StopReason]
    stop_detail: NotRequired[str]
    model: NotRequired[str]
    seconds: NotRequired[NonNegativeFloat]


@forbid_extra_keys
class FailedBody(TypedDict):
    """A failed call; see `models.messages.ModelError`."""

    kind: str
    message: str
    retryable: NotRequired[bool | None]
    next_step: NotRequired[str]
    given_up: NotRequired[bool]


class TriedBody(TypedDict, total=False):
    """A failed attempt of a call, with its usage if the server sent a reply that cannot be used."""

    kind: str
    message: str
    next_step: str
    attempt: NonNegativeInt
    usage: Usage
    price: NonNegativeFloat | None


class ToolBody(TypedDict, total=False):
    """The result of a tool, or of a step that reads from outside the run. Each tool or step sets some of the keys."""

    tool: str
    arguments: Mapping[str, object]
    result: str
    error: str
    text: str
    files: list[str]
    texts: list[str]
    binary: list[str]
    not_utf8: list[str]
    run: str
    answers: list[dict[str, object]]
    paths: dict[str, Verdict]
    lengths: dict[str, int]
    excerpts: dict[str, str]
    left_out: list[str]
    data: object
    answer: object
    pattern: object
    passed_over: list[str]


@forbid_extra_keys
class FormBody(TypedDict):
    """A form as the run read it; see `runtime/asking/forms`."""

    name: str
    hash: str
    read: list[Answer]
    why: list[list[str]]


class AnswerBody(TypedDict):
    """The answers to the questions of one step, each with its question."""

    answers: list[QuestionRecord]
    notes: NotRequired[str]
    form: NotRequired[FormBody]
    enough: NotRequired[bool]


class VoidBody(TypedDict):
    """The discarded attempts of a phase in one round."""

    round: NonNegativeInt
    tries: dict[str, NonNegativeInt]


class NoteBody(TypedDict, total=False):
    text: str
    reason: str
    form: str


class WroteBody(TypedDict, total=False):
    """The text of a written artifact. Older journals record only the hash."""

    text: str


BODIES: Final[Mapping[str, type]] = {
    "reply": ReplyBody,
    "failed": FailedBody,
    "tried": TriedBody,
    "tool": ToolBody,
    "answer": AnswerBody,
    "void": VoidBody,
    "note": NoteBody,
    "wrote": WroteBody,
}


def body_fits(kind: str, body: object) -> bool:
    """Whether the body is valid for a record of this kind."""
    record = BODIES.get(kind)
    if not isinstance(body, dict) or not (record is None or matches_record(record, body)):
        return False
    form = body.get("form") if kind == "answer" else None
    return (kind != "answer" or bool(body["answers"])) and (form is None or len(form["why"]) == len(form["read"]))
