"""`skillrun report`: writes a run as one self-contained HTML file that has no scripts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from skillrun.cli import completion, options
from skillrun.cli.formatting import count_noun
from skillrun.cli.output import Output

HELP: Final = """Write an HTML report of RUN: results, questions and answers, a timeline of calls, discussions, scores,
prompts and replies, and usage.

The report is one file without external resources: `report.html` in the run's folder, or `RUN-report.html` in the
current folder for a run in a store. Works for unfinished runs, too."""


@click.command(help=HELP)
@click.argument("run", shell_complete=completion.runs)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report to FILE. If FILE exists, it is replaced only if it is a report.",
)
@click.option("--open", "opens", is_flag=True, help="Open the report in the browser.")
@options.runs_folder
@options.as_json
def report(run: str, output: Path | None, opens: bool, runs: Path, out: Output) -> int:
    from skillrun.extensions.report.page import GENERATOR, render_page
    from skillrun.extensions.report.report_data import collect_report_data
    from skillrun.repository.confined_folder import FILE_MODE, PRIVATE_MODE
    from skillrun.repository.user_files import OutputFile
    from skillrun.store.run_data import REPORT

    stored = options.open_run(run, runs)
    target = output or (stored.folder / REPORT if stored.folder is not None else Path(f"{stored.name}-{REPORT}"))
    place = (
        target if output or stored.folder is None else Path(os.path.realpath(stored.folder)) / REPORT
    )  # `--out` may be a link
    output_file = OutputFile.open(place, options.current_project(), f'content="{GENERATOR}"'.encode(), "report")
    material = collect_report_data(stored)
    for text in material.doubts:
        out.note(f"warning: {text}")
    page = render_page(material).encode("utf-8", "replace")
    output_file.write(page, FILE_MODE if material.is_shared else FILE_MODE & PRIVATE_MODE)
    deliverable = material.deliverable.name if material.deliverable is not None else None
    calls = sum(len(each.turns) for each in material.calls.conversations)
    out.data(
        {
            "run": material.summary["run"],
            "status": material.summary["status"],
            "is_held": material.is_held,
            "path": str(target),
            "bytes": len(page),
            "calls": calls,
            "deliverable": deliverable,
            "replaced": output_file.exists,
            "doubts": list(material.doubts),
        }
    )
    size = f"{count_noun(calls, 'call')}, {len(page) / 1000:,.0f} KB"
    out.line(f"{'replaced' if output_file.exists else 'wrote'} {target}: {size}")
    if opens and click.launch(str(target)):
        out.note(f"warning: could not start a browser; open {target} manually")
    return 0
