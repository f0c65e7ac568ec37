"""`skillrun sizes`: measures the reply lengths of each step in finished runs, in the format of `config/sizes.yaml`."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path

import click

from skillrun.cli import completers, options
from skillrun.cli.output import Output


@click.command(
    help="Measure the reply lengths of each step, for config/sizes.yaml. With several runs, print the medians."
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=completers.runs)
@options.runs_folder_as("folder")
@options.as_json
def sizes(runs: tuple[str, ...], folder: Path, json: bool) -> int:
    from skillrun.store.reply_sizes import measure_sizes

    out = Output(json)
    with ExitStack() as stack:
        stored = [options.open_run(run, folder) for run in runs]
        by_step = measure_sizes([stack.enter_context(closing(run.read_only_journal())) for run in stored])
    out.line(f"# Medians of {', '.join(run.name for run in stored)}.")
    out.line("steps:" if by_step else "steps: {}")
    for step, size in by_step.items():
        out.line(f"  {step}: {{reply: {size.reply}, turns: {size.turns}, found: {size.found}}}")
    out.data(
        {
            "runs": [run.location for run in stored],
            "steps": {step: asdict(size) for step, size in by_step.items()},
        }
    )
    return 0
