"""`skillrun sizes`: how long the replies of each step were in finished runs, as `config/sizes.yaml` takes it."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path

import click

from skillrun.cli import completing, options
from skillrun.cli.printing import Output


@click.command(help="Measure how long the replies of each step of RUN were, for config/sizes.yaml; medians of several.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=completing.runs)
@options.runs_folder_as("folder")
@options.as_json
def sizes(runs: tuple[str, ...], folder: Path, json: bool) -> int:
    from skillrun.runtime.store.disk.run_folder import RunFolder
    from skillrun.runtime.store.measured import sizes_of

    out = Output(json)
    with ExitStack() as stack:
        folders = [options.run_folder_of(run, folder) for run in runs]
        by_step = sizes_of(
            [stack.enter_context(closing(RunFolder(run_folder).journal_to_read())) for run_folder in folders]
        )
    out.line(f"# Medians of {', '.join(run_folder.name for run_folder in folders)}.")
    out.line("steps:" if by_step else "steps: {}")
    for step, size in by_step.items():
        out.line(f"  {step}: {{reply: {size.reply}, turns: {size.turns}, found: {size.found}}}")
    out.data(
        {
            "runs": [str(run_folder) for run_folder in folders],
            "steps": {step: asdict(size) for step, size in by_step.items()},
        }
    )
    return 0
