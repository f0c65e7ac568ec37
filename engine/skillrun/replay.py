"""Make each request to the outside once, and reuse its recorded result.

A workflow is always evaluated from its first step. Everything that an evaluation does outside the process (call a
model, ask a user, read files, run a tool) is a request with an address and a fingerprint. If the journal holds a result
for both, that is the result. Otherwise the request is made, and its result is recorded before it is used.

resume   evaluates again over the same journal.
retry    makes the same request at its next attempt, which is another address.
dev      evaluates edited files over the same journal: an edited prompt has another fingerprint.
dry run  evaluates over a journal in memory, and refuses every request that would write or execute something outside.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, Protocol

from skillrun.syntax.diagnostics import SkillrunError

Body = dict[str, Any]
"""A JSON object: the body of a record."""

EffectName = Literal["pure", "reads", "writes", "asks", "calls", "executes"]
REFUSED_IN_DRY_RUN: Final[frozenset[EffectName]] = frozenset({"executes"})
"""A dry run writes to memory, asks nobody and calls a scripted model. It cannot simulate a command."""


class Effect(NamedTuple):
    """What a kind of request does outside the process, and the kind of record that holds its result."""

    name: EffectName
    record: Literal["reply", "answer", "tool"]


CALLS: Final = Effect("calls", "reply")
ASKS: Final = Effect("asks", "answer")
READS: Final = Effect("reads", "tool")
EXECUTES: Final = Effect("executes", "tool")


class RequestFailed(SkillrunError):
    """A request that has no result. A final failure is recorded, and is the result of the request from then on.

    Any other failure is not recorded, so `resume` makes the request again.
    """

    is_final = True

    def to_dict(self) -> Body:
        """Return the body of its record."""
        raise NotImplementedError


class RefusedInDryRun(SkillrunError):
    """A dry run does not do this."""


class Journal(Protocol):
    """The part of a journal that replay needs. Records are appended and never changed."""

    def find(self, kind: Any, address: str, fingerprint: str) -> Body | None:
        """Return the body of the latest record with this kind, address and fingerprint."""
        ...

    async def record(self, kind: Any, address: str, fingerprint: str, body: Body) -> None:
        """Append a record, which is durable on return. Raises SkillrunError if it cannot be written."""
        ...


class Result(NamedTuple):
    """The result of a request, and whether the journal had it."""

    body: Body
    is_replayed: bool


@dataclass
class Replay:
    """Makes the requests of one evaluation over a journal."""

    journal: Journal
    is_repeated: Callable[[Effect, str], bool] = lambda _effect, _address: False
    """Whether a request is made again although the journal has its result: files in `dev`, calls of a rerun step."""
    is_dry_run: bool = False
    failed_attempts: dict[str, int] = field(default_factory=dict)
    """By address: how many attempts of a request have failed in this evaluation."""

    def find(self, effect: Effect, address: str, fingerprint: str) -> Body | None:
        """Return the recorded result of a request, or None if it has to be made."""
        if self.is_repeated(effect, address):
            return None
        return self.journal.find(effect.record, address, fingerprint)

    def find_failure(self, effect: Effect, address: str, fingerprint: str) -> Body | None:
        """Return the recorded final failure of a request, or None."""
        return None if self.is_repeated(effect, address) else self.journal.find("failed", address, fingerprint)

    async def once(
        self, effect: Effect, address: str, fingerprint: str, perform: Callable[[], Awaitable[Body]]
    ) -> Result:
        """Return the recorded result of a request, or make the request with `perform` and record its result.

        `perform` raises RequestFailed for a request without a result. A caller that can replay a failure looks it up
        with `find_failure` first.
        """
        recorded = self.find(effect, address, fingerprint)
        if recorded is not None:
            return Result(recorded, is_replayed=True)
        if self.is_dry_run and effect.name in REFUSED_IN_DRY_RUN:
            raise RefusedInDryRun(f"{address} executes something, which a dry run does not do")
        try:
            body = await perform()
        except RequestFailed as error:
            if error.is_final:
                await self.journal.record("failed", address, fingerprint, error.to_dict())
            raise
        if effect is CALLS or body != self.journal.find(effect.record, address, fingerprint):
            await self.journal.record(effect.record, address, fingerprint, body)
        return Result(body, is_replayed=False)


def round_address(path: str, round_path: str) -> str:
    """Return the address of a request that every round makes anew: questions and files.

    `path` consists of names from the workflow down (`plan/draft/review`), never of positions, so a step that is inserted
    changes no other address. `round_path` is the round, such as `2`, or `2.1` in an inline workflow.
    """
    return f"{path}@{round_path}"


def attempt_address(address: str, attempt: int) -> str:
    """Return the address of an attempt, counted from 1."""
    return f"{address}.{attempt}"


def turn_address(path: str, turn: int, attempt: int) -> str:
    """Return the address of an attempt of a turn of a conversation with a model."""
    return f"{path}/{turn}.{attempt}"


def fingerprint_text(text: str) -> str:
    """Return the SHA-256 of a text, in hex. An invalid character counts as a question mark."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def fingerprint_json(value: object) -> str:
    """Return the SHA-256 of a value as canonical JSON, in hex: sorted keys, no spaces."""
    return sha256(_canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint_questions(questions: list[Mapping[str, Any]]) -> str:
    """Return the SHA-256 of questions as JSON with sorted keys, in hex."""
    return fingerprint_text(json.dumps(questions, sort_keys=True, ensure_ascii=False, default=str))


_canonical: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
