"""What code can count in plans that are to be judged, side by side: `python -m bench.judged ARM... --request FILE`.

An arm is a folder of markdown documents or one document; `NAME=PATH` names it. With `--code FOLDER` paths, places and
names are looked up there. Counts are no judgement: `--details` lists what they rest on, to be read by somebody.
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
    rows = [["", *names], *([same[0].name, *(one.shown or ABSENT for one in same)] for same in figures)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]
    return [lines[0], f"| {' | '.join('-' * max(width, 3) for width in widths)} |", *lines[1:]]


def details(name: str, found: list[Count]) -> list[str]:
    """What each figure of an arm rests on, below its name."""
    lines = [f"## {name}", ""]
    for one in found:
        if one.details:
            lines += [f"{one.name}:", *(f"- {each}" for each in one.details), ""]
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 2 where an arm, the request or the code is not there."""
    parser = argparse.ArgumentParser(prog="python -m bench.judged", description=__doc__)
    parser.add_argument("arms", nargs="+", metavar="ARM", help="a folder of markdown documents, or one document")
    parser.add_argument("--request", type=Path, metavar="FILE", help="the request, word for word")
    parser.add_argument("--code", type=Path, metavar="FOLDER", help="the code base that was planned for")
    parser.add_argument(
        "--criterion", action="append", metavar="PATTERN", help="ids of criteria (default AC-1, AC1; several times)"
    )
    parser.add_argument("--details", action="store_true", help="also list what the figures rest on")
    given = parser.parse_args(arguments)
    try:
        several = [arms.read(one) for one in given.arms]
        request = given.request.read_text(encoding="utf-8") if given.request else ""
        code = arms.Code.of(given.code) if given.code else None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    found = [counts.count(arm, request, code, given.criterion or counts.CRITERIA) for arm in several]
    print("\n".join(table([arm.name for arm in several], found)))
    if given.details:
        for arm, of_it in zip(several, found, strict=True):
            print("\n".join(["", *details(arm.name, of_it)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
