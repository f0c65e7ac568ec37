"""Measures the replies and lookups of each step from the journals of finished runs, and for a `find` with `show` the
length of the shown text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median_low

from skillrun.library.reply_sizes import ReplySize, step_address
from skillrun.models.messages import Reply
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.journal import Journal


def measure_sizes(journals: Iterable[Journal]) -> dict[str, ReplySize]:
    """Return the medians of each step, over members, passes and runs; truncated replies do not count."""
    replies: defaultdict[str, list[int]] = defaultdict(list)
    turns: defaultdict[str, list[int]] = defaultdict(list)
    results: defaultdict[str, list[int]] = defaultdict(list)
    for journal in journals:
        tokens: defaultdict[str, int] = defaultdict(int)
        for entry in journal.entries("tool"):
            tokens[entry.address.rpartition("/")[0]] += estimate_tokens(str(entry.body.get("result", "")))
            if excerpts := entry.body.get("excerpts"):
                replies[step_address(f"{entry.address}/-/-")].append(sum(map(estimate_tokens, excerpts.values())))
        lookups: defaultdict[str, int] = defaultdict(int)
        for entry in journal.entries("reply"):
            step, reply = step_address(entry.address), Reply.from_dict(entry.body)
            place, _, number = entry.address.rpartition("/")
            attempt = f"{place} {number.partition('.')[2]}"
            if reply.stop == "tool":
                lookups[attempt] += 1
                results[step].append(tokens[entry.address])
            elif reply.stop == "end":
                replies[step].append(estimate_tokens(reply.text))
                turns[step].append(lookups[attempt])
    return {
        step: ReplySize(median_low(sizes), median_low(turns[step] or [0]), median_low(results[step] or [0]))
        for step, sizes in replies.items()
    }
