"""Converts the replies of a run to scripted replies of a case, grouped by address and sorted by round."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from glob import escape
from typing import Any, Final

from skillrun.store.frontmatter import to_frontmatter
from skillrun.store.journal import Body, Journal, Kind
from skillrun.store.run_view import call_rounds
from skillrun.structured_output.trailing_record import find_last_block
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import MAX_BYTES

MAX_CASE_BYTES: Final = MAX_BYTES * 9 // 10  # maximum size of a recorded case file or script


def recorded_replies(journal: Journal) -> list[dict[str, Any]]:
    """Return a script rule for each reply and each final failure. Rules for the same address are sorted by round."""
    rounds = call_rounds(journal)
    last: dict[
        tuple[str, str], dict[str, Any]
    ] = {}  # keyed by address and round; a later attempt replaces an earlier one
    rules_of: tuple[tuple[Kind, Callable[[Body], dict[str, Any]]], ...] = (("failed", _failure), ("reply", _reply))
    for kind, rule_of in rules_of:
        for entry in journal.entries(kind):
            key = (entry.address, rounds.get((entry.address, entry.fingerprint), "1"))
            last[key] = rule_of(entry.body)
    by_address: defaultdict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for (address, number), rule in last.items():
        by_address[address].append((number, rule))
    rules: list[dict[str, Any]] = []
    for address, numbered in by_address.items():
        numbered.sort(key=lambda pair: round_sort_key(pair[0]))
        once = {"times": 1} if len(numbered) > 1 else {}
        rules += [{"address": escape(address), **rule, **once} for _, rule in numbered]
    return rules


def round_sort_key(number: str) -> list[int]:
    """Return the sort key of a round such as `2`, or `2.1` for a round of an inline workflow."""
    return [int(part) for part in number.split(".") if part.isdecimal()]


def split_into_scripts(rules: Sequence[dict[str, Any]]) -> list[str]:
    """Return the texts of scripts that contain the rules in order, each within the size limit.

    Raises SkillrunError if a single reply exceeds the limit.
    """
    parts: list[list[str]] = [[]]
    size = 0
    for rule in rules:
        text = to_frontmatter({"replies": [rule]}).partition("replies:\n")[2].rpartition("\n---")[0] + "\n"
        length = len(text.encode("utf-8", "surrogatepass"))
        if length > MAX_BYTES:
            message = f"the reply at `{rule['address']}` exceeds the size limit of a case file ({MAX_BYTES:,} bytes)"
            raise SkillrunError(message, "write the case manually, with a shorter reply")
        if parts[-1] and size + length > MAX_CASE_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(text)
        size += length
    return ["".join(part) for part in parts]


def _failure(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"fail": body["kind"], "message": body["message"]}


def _reply(body: Mapping[str, Any]) -> dict[str, Any]:
    text, calls, stop = body["text"], body.get("calls") or [], body.get("stop", "end")
    rule: dict[str, Any] = {}
    if calls:
        rule["calls"] = [{key: call[key] for key in ("id", "name", "arguments")} for call in calls]
    if text or not calls:
        data = _data(text)
        rule |= {"text": text} if data is None else {"data": data}
        if data is None and find_last_block(text) is None:
            rule["record"] = False  # the reply had no record, so none is generated
    if stop != ("tool" if calls else "end"):
        rule["stop"] = stop
    return rule


def _data(text: str) -> Any:
    """Return the value of a text that is a nonempty JSON object or list; None for any other text."""
    try:
        data = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        return None
    return data or None
