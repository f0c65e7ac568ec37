"""Compares counts of the plans to be judged: `python -m bench.judged ARM... --request FILE`.

An arm is a folder of markdown documents or one document; `NAME=PATH` names it. `--code FOLDER` looks up paths, places
and names in a code base. Counts are not a judgement: `--details` lists the evidence, for a person to read.
"""

import argparse
import sys
from pathlib import Path

from bench import judged_arms as arms
from bench import judged_counts as counts
from bench.judged_counts import Count

ABSENT = "–"


def table(names: list[str], found: list[list[Count]]) -> list[str]:
    """A markdown table: a row for each figure, a column for each arm."""
    figures = zip(*found, strict=True)
    rows = [["", *names], *([row[0].name, *(count.shown or ABSENT for count in row)] for row in figures)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]
    return [lines[0], f"| {' | '.join('-' * max(width, 3) for width in widths)} |", *lines[1:]]


def details(name: str, found: list[Count]) -> list[str]:
    """The evidence for each figure of an arm, below its name."""
    lines = [f"## {name}", ""]
    for count in found:
        if count.details:
            lines += [f"{count.name}:", *(f"- {detail}" for detail in count.details), ""]
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Print the table. Returns 2 if an arm, the request or the code is missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.judged", description=__doc__)
    parser.add_argument("arms", nargs="+", metavar="ARM", help="a folder of markdown documents, or one document")
    parser.add_argument("--request", type=Path, metavar="FILE", help="the request, verbatim")
    parser.add_argument("--code", type=Path, metavar="FOLDER", help="the code base the plans are for")
    parser.add_argument(
        "--criterion", action="append", metavar="PATTERN", help="ids of criteria (default AC-1, AC1; repeatable)"
    )
    parser.add_argument("--details", action="store_true", help="also list the evidence for the figures")
    options = parser.parse_args(arguments)
    try:
        plans = [arms.read(arm) for arm in options.arms]
        request = options.request.read_text(encoding="utf-8") if options.request else ""
        code = arms.Code.of(options.code) if options.code else None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    found = [counts.count(arm, request, code, options.criterion or counts.CRITERIA) for arm in plans]
    print("\n".join(table([arm.name for arm in plans], found)))
    if options.details:
        for arm, figures in zip(plans, found, strict=True):
            print("\n".join(["", *details(arm.name, figures)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
