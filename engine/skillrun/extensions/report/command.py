"""`skillrun report`: writes a run as one self-contained HTML file that has no scripts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from skillrun.cli import completion, options
from skillrun.cli.formatting import count_noun
from skillrun.cli.output import Output
from skillrun.syntax.diagnostics import SkillrunError, UsageError

HEADER_BYTES: Final = 2_000  # the start of a report, which contains its generator
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
    from skillrun.extensions.report.page import render_page
    from skillrun.extensions.report.report_data import collect_report_data
    from skillrun.store.run_data import REPORT

    stored = options.open_run(run, runs)
    target = output or (stored.folder / REPORT if stored.folder is not None else Path(f"{stored.name}-{REPORT}"))
    replaced = _check_target(target)
    material = collect_report_data(stored)
    for text in material.doubts:
        out.note(f"warning: {text}")
    page = render_page(material).encode("utf-8", "replace")
    _write(target, page, shared=material.is_shared)
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
            "replaced": replaced,
            "doubts": list(material.doubts),
        }
    )
    out.line(f"{'replaced' if replaced else 'wrote'} {target}: {count_noun(calls, 'call')}, {len(page) / 1000:,.0f} KB")
    if opens and click.launch(str(target)):
        out.note(f"warning: could not start a browser; open {target} manually")
    return 0


def _check_target(target: Path) -> bool:
    """Return whether `target` is an earlier report, which will be replaced.

    Raises UsageError if `target` exists and is not a report, or if its folder is missing.
    """
    from skillrun.extensions.report.page import GENERATOR

    try:
        if not target.is_symlink() and target.is_file():
            with target.open("rb") as file:
                if f'content="{GENERATOR}"'.encode() in file.read(HEADER_BYTES):
                    return True
        if not os.path.lexists(target):
            if target.parent.is_dir():
                return False
            raise UsageError(f"the folder {target.parent} does not exist", "create it, or choose another FILE")
    except PermissionError as error:
        raise UsageError(
            f"{target} cannot be read: {error.strerror}", "choose another file with `--output FILE`"
        ) from error
    raise UsageError(f"{target} exists and is not a report", "choose another file with `--output FILE`")


def _write(target: Path, page: bytes, *, shared: bool) -> None:
    """Write the file atomically. Unless the run is shared, only the file's owner can read it."""
    from skillrun.repository.confined_folder import ConfinedFolder
    from skillrun.store.local.local_files import write_atomic

    try:
        with ConfinedFolder(target.parent.resolve()) as folder:
            write_atomic(folder, target.name, page, shared=shared)
    except PermissionError as error:
        raise SkillrunError(
            f"no permission to write to {target.parent}", "choose another file with `--output FILE`"
        ) from error
