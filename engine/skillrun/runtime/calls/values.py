"""The structured value of a reply, and what was left out of it."""

from __future__ import annotations

from typing import Any, Final

from skillrun.events import Pruned
from skillrun.models.messages import Reply
from skillrun.runtime.calls.member_request import MemberAnswer, MemberRequest
from skillrun.runtime.run import PhaseRun
from skillrun.structured_output.salvaging import gather, list_field
from skillrun.structured_output.values import parse_reply
from skillrun.types.schemas import Dropped

CUT_OFF: Final = "the reply was cut off at the limit of its length"
GATHER: Final = "gather"  # of `invalid`
MOST_TOLD: Final = 3  # of what was dropped from a reply; the event has all


def value_of(
    asked: MemberRequest, reply: Reply, *, repaired: bool
) -> tuple[Any, list[dict[str, str]], tuple[Dropped, ...]]:
    """The structured value of a reply, what is wrong with it, and what was left out of it; for free text nothing.

    Only of a reply that has been asked for again is anything left out.
    """
    if asked.shape is None:
        return None, [], ()
    dropped: list[Dropped] = []
    if asked.invalid == GATHER and list_field(asked.shape.schema):
        value, dropped, errors = gather(reply.text, asked.shape.schema)
        return value, [vars(error) for error in errors], tuple(dropped)
    value, errors = parse_reply(reply.text, asked.shape.schema)
    if errors and asked.invalid and value is not None:
        value, dropped = asked.shape.trimmed(value)
        errors = asked.shape.check_reply(value)
    if errors and asked.invalid and repaired and value is not None:
        value, pruned = asked.shape.prune(value)
        dropped += pruned
        errors = asked.shape.check_reply(value)
    return value, [vars(error) for error in errors], tuple(dropped)


def whole_part(asked: MemberRequest, reply: Reply) -> MemberAnswer | None:
    """What is whole of a reply that was cut off, where each item counts by itself; None where nothing is."""
    if asked.shape is None or asked.invalid != GATHER:
        return None
    value, _, dropped = value_of(asked, reply, repaired=True)
    if value is None or not any(value.values()):
        return None
    cut = Dropped("", CUT_OFF, "")
    return MemberAnswer("success", reply.text, value, dropped=(*dropped, cut))


def tell_dropped(phase: PhaseRun, address: str, member: str, dropped: tuple[Dropped, ...]) -> None:
    """Put on record what was left out of a member's reply: an event, a warning and a flag of the phase."""
    if not dropped:
        return
    places = "; ".join(f"{item.path} ({item.reason})" for item in dropped[:MOST_TOLD])
    more = f"; and {len(dropped) - MOST_TOLD} more" if len(dropped) > MOST_TOLD else ""
    text = f"what {member} said was not all understood; dropped: {places}{more}"
    if address not in phase.account.dropped:
        phase.run.emit(Pruned(address, phase.name, member, tuple(dict(vars(item)) for item in dropped), text))
        phase.account.warnings.append(text)
    phase.account.dropped[address] = len(dropped)
