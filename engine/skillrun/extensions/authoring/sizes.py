"""`skillrun sizes`: measures the replies and tool results of each step in earlier runs.

Prints the sizes in the format of `config/sizes.yaml`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from statistics import median_low

import click

from skillrun.cli import completion, options
from skillrun.cli.output import Output
from skillrun.library.settings import ReplySize, step_address
from skillrun.models.messages import Reply
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.journal import Journal


def measure_sizes(journals: Iterable[Journal]) -> dict[str, ReplySize]:
    """Return the median sizes of each step, over all members, passes and runs. Truncated replies do not count."""
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


@click.command(
    help="Print the median sizes of each step in these runs, for config/sizes.yaml: the length of replies, the number "
    "of turns with tool calls, and the length of tool results."
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=completion.runs)
@options.runs_folder_as("folder")
@options.as_json
def sizes(runs: tuple[str, ...], folder: Path, out: Output) -> int:
    with ExitStack() as stack:
        stored = [options.open_run(run, folder) for run in runs]
        by_step = measure_sizes([stack.enter_context(closing(run.read_journal())) for run in stored])
    out.line(f"# Medians of {', '.join(run.name for run in stored)}.")
    out.line("steps:" if by_step else "steps: {}")
    for step, size in by_step.items():
        out.line(f"  {step}: {{reply: {size.reply}, turns: {size.turns}, found: {size.found}}}")
    steps = {step: asdict(size) for step, size in by_step.items()}
    out.data({"runs": [run.location for run in stored], "steps": steps})
    return 0
