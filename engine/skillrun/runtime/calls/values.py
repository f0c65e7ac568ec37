"""Parses the structured value of a reply, and collects the invalid values that are dropped from it."""

from __future__ import annotations

from typing import Any, Final

from skillrun.events import Pruned
from skillrun.models.messages import Reply
from skillrun.runtime.calls.member_request import MemberReply, MemberRequest
from skillrun.runtime.run import PhaseRun
from skillrun.structured_output.salvaging import find_list_field, salvage_items
from skillrun.structured_output.values import parse_reply
from skillrun.types.schemas import DroppedValue, ShapeError

CUT_OFF: Final = "the reply was cut off at the length limit"
GATHER: Final = "gather"  # a value of `invalid`
MOST_TOLD: Final = 3  # dropped values named in a warning; the event lists all of them


def parse_value(
    member_request: MemberRequest, reply: Reply, *, repaired: bool
) -> tuple[Any, list[ShapeError], tuple[DroppedValue, ...]]:
    """Return the structured value of a reply, its errors, and the dropped values; all empty for free text.

    With `invalid: drop`, invalid values are dropped only after the member was asked to repair the reply.
    """
    if member_request.shape is None:
        return None, [], ()
    dropped: list[DroppedValue] = []
    if member_request.invalid == GATHER and find_list_field(member_request.shape.schema):
        value, dropped, errors = salvage_items(reply.text, member_request.shape.schema)
        return value, errors, tuple(dropped)
    value, errors = parse_reply(reply.text, member_request.shape.schema)
    if errors and member_request.invalid and value is not None:
        value, dropped = member_request.shape.trim_lists(value)
        errors = member_request.shape.check_reply(value)
    if errors and member_request.invalid and repaired and value is not None:
        value, pruned = member_request.shape.drop_invalid(value)
        dropped += pruned
        errors = member_request.shape.check_reply(value)
    return value, errors, tuple(dropped)


def salvage_truncated_reply(member_request: MemberRequest, reply: Reply) -> MemberReply | None:
    """Return a result with the complete items of a truncated reply; None unless the step sets `invalid: gather` and an
    item is complete."""
    if member_request.shape is None or member_request.invalid != GATHER:
        return None
    value, _, dropped = parse_value(member_request, reply, repaired=True)
    if value is None or not any(value.values()):
        return None
    cut = DroppedValue("", CUT_OFF, "")
    return MemberReply(member_request.member, "success", reply.text, value, dropped=(*dropped, cut))


def report_pruned_items(phase: PhaseRun, address: str, member: str, dropped: tuple[DroppedValue, ...]) -> None:
    """Report the values dropped from a member's reply: emit an event, and record a warning and their number."""
    if not dropped:
        return
    places = "; ".join(f"{item.path} ({item.reason})" for item in dropped[:MOST_TOLD])
    more = f"; and {len(dropped) - MOST_TOLD} more" if len(dropped) > MOST_TOLD else ""
    text = f"parts of the reply of {member} were invalid; dropped: {places}{more}"
    if address not in phase.record.dropped_counts:
        phase.run.emit(Pruned(address, phase.name, member, tuple(dict(vars(item)) for item in dropped), text))
        phase.record.warnings.append(text)
    phase.record.dropped_counts[address] = len(dropped)
