"""Runs every measurement and prints the table: `python -m bench`, or `make bench`."""

import argparse
import json
import os
import platform
import sys
from pathlib import Path

from bench import environment, process, table, works


def main() -> int:
    """Print the table. Returns 1 if a measurement fails; a missed target is shown but is not a failure."""
    names = [work.name for work in works.WORKS]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these works only")
    parser.add_argument("--repeat", type=int, help="repetitions of each measurement (default 5, a plan 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every value to a file")
    given = parser.parse_args()
    environment.prepare()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}; a durable page takes {process.sync_seconds() * 1e6:.0f} µs on this disk.")
    print("Medians of the repetitions, each in a separate process.\n", flush=True)
    done = []
    for work in works.WORKS:
        if work.name in given.only:
            done.append(works.measure(work, given.repeat))
            print("\n".join(table.lines(done[-1])), flush=True)
    if given.json:
        values = {results.work.name: results.values for results in done}
        given.json.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if any(results.failures for results in done) else 0


if __name__ == "__main__":
    sys.exit(main())
