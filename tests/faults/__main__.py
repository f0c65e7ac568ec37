"""The full fault tests, `make chaos`: all kinds of faults from one seed, and a table of results.

`CHAOS_SEED` sets the seed, `CHAOS_ONLY` selects faults by name, `CHAOS_TRIES` limits the cases of each kind, and
`CHAOS_CASE` selects one case. After each minute and after each kind, a line has the number of cases so far.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Final

from tests.faults import archives, cut_responses, damage, disk, edits, kills, names, numbers, owners, providers, rows
from tests.faults.processes import Forks, failing_disk
from tests.faults.providers import Providers
from tests.faults.world import World, pick

MOST: Final[dict[str, int | None]] = {
    "disk": None,  # all
    "kills": 300,
    "flips": 500,
    "cuts": 500,
    "owners": 400 // owners.PROCESSES,
    "edits": 200,
    "providers": None,
    "cut-responses": 900,
    "rows": 2000,
    "bundles": 1000,
    "packs": 300,
    "names": 1_000,
    "numbers": 2_000,
}
REPORT_SECONDS: Final = 60  # between two lines about one kind


@dataclass
class Places:
    """The folders and processes for kinds of faults, created on first use."""

    folder: Path
    stack: ExitStack
    library: Path | None = None
    created: dict[str, Any] = field(default_factory=dict)

    def world(self) -> World:
        if "world" not in self.created:
            forks = self.stack.enter_context(Forks(self.folder / "home", self.library))
            (self.folder / "world").mkdir()
            self.created["world"] = World(self.folder / "world", forks)
        world: World = self.created["world"]
        return world

    def rows(self) -> rows.Rows:
        if "rows" not in self.created:
            (self.folder / "rows").mkdir()
            self.created["rows"] = rows.Rows(self.folder / "rows", self.stack)
        found: rows.Rows = self.created["rows"]
        return found

    def archives(self) -> archives.Archives:
        found: archives.Archives = self.created.setdefault("archives", archives.Archives(self.folder / "archives"))
        return found

    def numbers(self) -> numbers.Numbers:
        found: numbers.Numbers = self.created.setdefault("numbers", numbers.Numbers(self.folder / "numbers"))
        return found

    def providers(self) -> Providers:
        if "providers" not in self.created:
            forks = self.stack.enter_context(Forks(self.folder / "providers-home"))
            self.created["providers"] = self.stack.enter_context(Providers(self.folder / "providers", forks))
        providers: Providers = self.created["providers"]
        return providers


Cases = Callable[[Places, Random], Iterable[str]]
Hold = Callable[[Places, str], None]
FAULTS: Final[dict[str, tuple[Cases, Hold]]] = {
    "disk": (lambda at, r: disk.cases(at.world(), r), lambda at, case: disk.hold(at.world(), case)),
    "kills": (lambda at, r: kills.cases(at.world(), r), lambda at, case: kills.hold(at.world(), case)),
    "flips": (lambda at, r: damage.flips(at.world(), r), lambda at, case: damage.hold(at.world(), case)),
    "cuts": (lambda at, r: damage.cuts(at.world(), r), lambda at, case: damage.hold(at.world(), case)),
    "owners": (lambda at, r: owners.cases(at.world(), r), lambda at, case: owners.hold(at.world(), case)),
    "edits": (lambda at, r: edits.cases(at.world(), r), lambda at, case: edits.hold(at.world(), case)),
    "providers": (
        lambda at, r: providers.cases(at.providers(), r),
        lambda at, case: providers.hold(at.providers(), case),
    ),
    "cut-responses": (lambda _, r: cut_responses.cases(r), lambda _, case: cut_responses.hold(case)),
    "rows": (lambda at, r: rows.cases(at.rows(), r), lambda at, case: rows.hold(at.rows(), case)),
    "bundles": (
        lambda at, r: archives.bundles(at.archives(), r),
        lambda at, case: archives.hold_bundle(at.archives(), case),
    ),
    "packs": (lambda at, r: archives.packs(at.archives(), r), lambda at, case: archives.hold_pack(at.archives(), case)),
    "names": (lambda _, r: names.cases(r), lambda at, case: names.hold(at.folder / "names", case)),
    "numbers": (lambda at, r: numbers.cases(at.numbers(), r), lambda at, case: numbers.hold(at.numbers(), case)),
}


@cache
def memory() -> str | None:
    """The path of the in-memory file system, if there is one: these tests need no durable files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def main(environ: dict[str, str]) -> int:
    """Test the faults. Returns 1 if a case fails, 2 for invalid variables."""
    seed = environ.get("CHAOS_SEED") or "8"
    only, case = environ.get("CHAOS_ONLY", ""), environ.get("CHAOS_CASE", "")
    selected = only.split() or list(FAULTS)
    unknown = [name for name in selected if name not in FAULTS]
    if unknown or (case and len(selected) != 1):
        print_line(f"CHAOS_ONLY is a list of {', '.join(FAULTS)}; with CHAOS_CASE it is one of these")
        return 2
    most = environ.get("CHAOS_TRIES", "")
    if most and not most.isdecimal():
        print_line("CHAOS_TRIES is a number of cases")
        return 2
    limit = int(most) if most else None
    print_line(f"chaos: seed {seed}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory(), prefix="chaos-")))
        places = Places(folder, stack, failing_disk(folder))
        if places.library is None:
            print_line("disk faults need Linux and a C compiler, and are skipped")
            selected = [name for name in selected if name != "disk"]
        rows = [run_cases(name, places, seed, limit, [case] if case else None) for name in selected]
    print_line(f"\n{'fault':16}{'tries':>8}{'held':>8}{'failed':>8}{'seconds':>9}")
    for name, tries, failed, seconds in rows:
        print_line(f"{name:16}{tries:8}{tries - failed:8}{failed:8}{seconds:9.0f}")
    return int(any(failed for _, _, failed, _ in rows))


def run_cases(
    name: str, places: Places, seed: str, limit: int | None, selected: list[str] | None
) -> tuple[str, int, int, float]:
    """Name, tries, failures and seconds of one kind of fault."""
    cases, hold = FAULTS[name]
    factor = owners.PROCESSES if name == "owners" else 1
    started = reported = monotonic()
    tried = failed = 0

    def report() -> float:
        now = monotonic()
        print_line(f"{name}: {tried * factor} tried, {failed} failed, {now - started:.0f} s")
        return now

    found = selected or islice(cases(places, Random(f"{seed} {name}")), MOST[name])
    for case in found if limit is None else pick(found, limit):
        tried += 1
        try:
            hold(places, case)
        except AssertionError as error:
            failed += 1
            print_line(f"\n{name}: {case}\n{error}\nrepeat: make chaos CHAOS_ONLY={name} CHAOS_CASE='{case}'")
        if monotonic() - reported > REPORT_SECONDS:
            reported = report()
    return name, tried * factor, failed, report() - started


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(dict(os.environ)))
