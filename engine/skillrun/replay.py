"""Makes each request to the outside once, and reuses its recorded result.

A phase is always evaluated from its first step. Everything that an evaluation does outside the process (call a model,
ask a user, read files, run a tool) is a request with an address and a fingerprint. If the journal has a result for this
address and fingerprint, it is used. If not, the request is made, and its result is recorded before it is used.

resume   evaluates open phases again over the same journal. Phases that have ended have a summary and are skipped.
attempt  of a step or member: makes the request again at a different address. The gateway's retries share one address.
dev      evaluates edited files over the same journal. An edited prompt has a different fingerprint, so it is sent.
dry run  evaluates over a journal in memory, and refuses every request that would execute something outside.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, Protocol

from skillrun.syntax.diagnostics import SkillrunError

Body = dict[str, Any]
"""A JSON object: the body of a record."""

EffectName = Literal["pure", "reads", "writes", "asks", "calls", "executes"]
REFUSED_IN_DRY_RUN: Final[frozenset[EffectName]] = frozenset({"executes"})
"""The effects that a dry run cannot simulate: commands.

A dry run simulates all other effects: it writes to memory, answers questions itself, and calls a scripted model.
"""


class Effect(NamedTuple):
    """A kind of request: its effect outside the process, and the kind of record that stores its result."""

    name: EffectName
    record: Literal["reply", "answer", "tool"]
    made_by: Literal["step", "member"] = "step"


CALLS: Final = Effect("calls", "reply")
ASKS: Final = Effect("asks", "answer")
READS: Final = Effect("reads", "tool")
TOOL_CALLS: Final = Effect("reads", "tool", "member")
"""A tool call of a model. Its result is part of a conversation, so `dev` does not repeat it when files change."""


class RequestFailed(SkillrunError):
    """A request failed. A final failure is recorded, and is raised again whenever the request is replayed.

    A failure that is not final is not recorded, so `resume` makes the request again.
    """

    is_replayed = False
    """Whether this failure was read from the journal."""

    @property
    def is_final(self) -> bool:
        return True

    def to_dict(self) -> Body:
        """Return the body of the record for this failure."""
        raise NotImplementedError


class RefusedInDryRun(SkillrunError):
    """A dry run refuses to make a request."""


class RecordLog(Protocol):
    """The part of a journal that `Replay` needs. Records are appended and never changed."""

    def find(self, kind: Any, address: str, fingerprint: str) -> Body | None:
        """Return the body of the latest record with this kind, address and fingerprint."""
        ...

    async def record(self, kind: Any, address: str, fingerprint: str, body: Body) -> None:
        """Append a record. It is durable on return. Raises SkillrunError if it cannot be written."""
        ...


class Result(NamedTuple):
    """The result of a request, and whether it was read from the journal."""

    body: Body
    is_replayed: bool


@dataclass
class Replay:
    """Makes the requests of one evaluation over a journal."""

    journal: RecordLog
    is_repeated: Callable[[Effect, str], bool] = lambda _effect, _address: False
    """Return whether a request is made again although the journal has its result.

    For example, `dev` reads files again, and a rerun sends the calls of a step again.
    """
    is_dry_run: bool = False

    def find(self, effect: Effect, address: str, fingerprint: str) -> Body | None:
        """Return the recorded result of a request; None if the request must be made."""
        if self.is_repeated(effect, address):
            return None
        return self.journal.find(effect.record, address, fingerprint)

    async def once(
        self,
        effect: Effect,
        address: str,
        fingerprint: str,
        perform: Callable[[], Awaitable[Body]],
        load_failure: Callable[[Body], RequestFailed] | None = None,
        unfinished: Body | None = None,
    ) -> Result:
        """Return the recorded result of a request, or make the request with `perform` and record the result.

        If the request fails, `perform` raises RequestFailed. With `load_failure`, a recorded failure is raised again,
        and the request is not made. `unfinished` is recorded before the request is made. If the process ends before the
        request, `unfinished` remains the result, so a request that executes something is not repeated. Raises
        RefusedInDryRun, and the errors of `perform` and of the journal.
        """
        recorded = self.find(effect, address, fingerprint)
        if recorded is not None:
            return Result(recorded, is_replayed=True)
        if load_failure is not None and not self.is_repeated(effect, address):
            failure = self.journal.find("failed", address, fingerprint)
            if failure is not None:
                error = load_failure(failure)
                error.is_replayed = True
                raise error
        if self.is_dry_run:
            refuse_in_dry_run(effect.name, address)
        if unfinished is not None:
            await self.journal.record(effect.record, address, fingerprint, unfinished)
        try:
            body = await perform()
        except RequestFailed as error:
            if error.is_final:
                await self.journal.record("failed", address, fingerprint, error.to_dict())
            raise
        if effect is CALLS or body != self.journal.find(effect.record, address, fingerprint):
            await self.journal.record(effect.record, address, fingerprint, body)
        return Result(body, is_replayed=False)


def refuse_in_dry_run(effect: EffectName, address: str) -> None:
    """Raise RefusedInDryRun if a dry run does not allow the effect."""
    if effect in REFUSED_IN_DRY_RUN:
        raise RefusedInDryRun(f"{address} executes something, which a dry run does not do")


def round_address(path: str, round_path: str) -> str:
    """Return the address of a request that is made again in every round: a question, or a read of files.

    `path` consists of the names of workflow, phase and steps (`plan/draft/review`). It contains no positions, so a new
    step changes no other address. `round_path` is the round, such as `2`, or `2.1` in an inline workflow.
    """
    return f"{path}@{round_path}"


def attempt_address(address: str, attempt: int) -> str:
    """Return the address of an attempt of a request. The first attempt is 1."""
    return f"{address}.{attempt}"


def turn_address(path: str, turn: int, attempt: int) -> str:
    """Return the address of one attempt to send a turn in a conversation with a model."""
    return f"{path}/{turn}.{attempt}"


def fingerprint_text(text: str) -> str:
    """Return the SHA-256 of a text, in hex. A character that cannot be encoded is replaced by a question mark."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def fingerprint_json(value: object) -> str:
    """Return the SHA-256, in hex, of a value as canonical JSON, which has sorted keys and no spaces."""
    return sha256(_canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint_questions(questions: Sequence[Mapping[str, Any]]) -> str:
    """Return the SHA-256, in hex, of questions as JSON with sorted keys."""
    return fingerprint_text(json.dumps(questions, sort_keys=True, ensure_ascii=False, default=str))


_canonical: Final = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), check_circular=False
).encode
