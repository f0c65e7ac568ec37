"""Measures a save in `skillrun dev`, from the save to the line with the result: `python -m bench.saves chain`.

Prints the figures in milliseconds as a line of JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench import process
from bench.ours import CHAIN, write_project

SAVES = 15
PAUSE = 0.2  # seconds between two saves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", choices=("chain", "plan"), help="40 sequential calls, or a plan in standard mode")
    variant = parser.parse_args().variant
    with process.scratch() as folder:
        command, file = _chain(folder) if variant == "chain" else _plan(folder)
        print(json.dumps(measure(folder, command, file)))


def _chain(folder: Path) -> tuple[list[str], Path]:
    write_project(folder, "chain", CHAIN, 1)
    return ["bench", "40"], folder / "workflows" / "bench.md"


def _plan(folder: Path) -> tuple[list[str], Path]:
    from skillrun.library.roots import package_library

    file = folder / "skills" / "plan" / "research.md"
    file.parent.mkdir(parents=True)
    file.write_text(
        (package_library() / "skills" / "plan" / "research.md").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (folder / "code").mkdir()
    return ["plan", "Remind people", "--repo", "code", "--mode", "standard", "--unattended"], file


def measure(folder: Path, arguments: list[str], file: Path) -> dict[str, float]:
    """Milliseconds of saves that need no calls: the median until the result is shown, and the mean processor time."""
    command = [sys.executable, "-u", "-m", "skillrun", "dev", *arguments, "--model", "scripted:default"]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as dev:
        try:
            _read_result(dev)
            durations, cpu_times = [], []
            text = file.read_text(encoding="utf-8")
            for number in range(SAVES):
                time.sleep(PAUSE)
                cpu_before, started = _cpu_seconds(dev.pid), time.perf_counter()
                file.write_text(text.replace("\n---\n", f"\n# saved {number}\n---\n", 1), encoding="utf-8")
                line = _read_result(dev)
                durations.append(time.perf_counter() - started)
                cpu_times.append(_cpu_seconds(dev.pid) - cpu_before)
                if " 0 made" not in line:
                    raise SystemExit(f"a save made calls: {line}")
        finally:
            dev.terminate()
            dev.wait()
    return {"time": statistics.median(durations) * 1e3, "processor": statistics.mean(cpu_times) * 1e3}


def _cpu_seconds(pid: int) -> float:
    """The CPU time of a process in seconds; Linux counts hundredths."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_result(dev: "subprocess.Popen[str]") -> str:
    """The line with the result of the next evaluation."""
    assert dev.stdout is not None
    lines = []
    for line in dev.stdout:
        lines.append(line)
        if " reused, " in line:
            return line
    raise SystemExit("".join(lines[-10:]))


if __name__ == "__main__":
    main()
