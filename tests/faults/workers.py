"""Many workers on one store, killed, stopped and cut off while its server restarts: `make chaos-workers`.

`CHAOS_SEED` sets the seed; `CHAOS_RUNS` and the other fields of `Size` in capitals set the size.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any, Final

from skillrun.cli.main import main as skillrun
from skillrun.extensions.workers.bundle import pack_project
from skillrun.extensions.workers.commands.open_store import open_store
from skillrun.extensions.workers.dispatch import Dispatcher
from skillrun.extensions.workers.postgres.database import Database
from skillrun.extensions.workers.postgres.queue import RunSubmission
from tests.faults import watch, world
from tests.faults.processes import KEPT, ROOT, failing_disk
from tests.faults.watch import Provider
from tests.servers.postgres import Server, started
from tests.servers.proxy import Proxy, proxy
from tests.servers.wire import serve

PROJECT: Final = Path(__file__).with_name("many")
MODEL: Final = "openai:gpt-6.1-sol"
HOUR: Final = 3600.0  # seconds
OVER: Final = ("completed", "failed", "cancelled")
GRACE: Final = 15.0  # seconds after the end of a lease within which a run must be claimed


@dataclass(frozen=True)
class Size:
    """The size of a trial; times are in seconds."""

    runs: int = 500
    workers: int = 6
    lease: float = 12.0
    every: float = 3.0  # from one kill to the next
    call: float = 0.2
    each: int = 4  # runs at a time of one worker
    slots: int = 96  # calls at a time of all workers
    most: float = 3600.0

    @property
    def some(self) -> int:
        """The number of runs that pause, and of runs that are cancelled."""
        return max(1, self.runs // 10)


@dataclass
class Counts:
    """The number of faults and user actions."""

    kills: int = 0
    stops: int = 0
    polite: int = 0
    fast: int = 0
    immediate: int = 0
    answered: int = 0
    cancelled: int = 0
    full: int = 0


@dataclass
class TrialResult:
    """The figures and failures of a trial; each failure is a line."""

    table: list[tuple[str, object, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def expect_none(self, name: str, found: list[str]) -> None:
        self.table.append((name, len(found), "0"))
        self.failures += [f"{name}: {failure}" for failure in found[:10]]


class WorkerStarter:
    """Starts workers as forks of one process."""

    def __init__(self, home: Path, library: Path | None) -> None:
        kept = {name: value for name, value in os.environ.items() if name in KEPT}
        preload = {"LD_PRELOAD": str(library)} if library is not None else {}
        home.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.worker_process"],
            cwd=ROOT,
            env={**kept, "HOME": str(home), "COLUMNS": "120", **preload},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, job: Mapping[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class Bench:
    """A store, a provider and workers."""

    def __init__(self, folder: Path, size: Size, seed: str, stack: ExitStack) -> None:
        self.folder, self.size, self.random = folder, size, Random(seed)
        self.counts, self.provider = Counts(), Provider(size.call)
        self.project = folder / "project"
        shutil.copytree(PROJECT, self.project)
        wire = stack.enter_context(serve(self.provider.answer))
        self.environment = {"OPENAI_API_KEY": "sk-test-0123456789", "OPENAI_BASE_URL": wire.url}
        self.server: Server = stack.enter_context(started())
        self.proxy: Proxy = stack.enter_context(proxy(self.server.socket))
        self.url = f"postgresql://skillrun@127.0.0.1:{self.proxy.port}/postgres"
        self.library = failing_disk(folder)
        self.starter = stack.enter_context(closing(WorkerStarter(folder / "home", self.library)))
        self.workers: list[int] = []
        self.stopped: dict[int, float] = {}
        self.names = [f"run-{number + 1:04}" for number in range(size.runs)]
        chosen = self.random.sample(self.names, 2 * size.some)
        self.pausing, self.cancelling = set(chosen[: size.some]), set(chosen[size.some :])
        stack.enter_context(self._project_environment())
        assert self.skillrun("store", "migrate") == 0, self.output.getvalue()
        assert self.skillrun("worker", "limits", f"openai={size.slots}") == 0, self.output.getvalue()
        self.database = stack.enter_context(closing(Database(self.server.url)))
        self.database.script(watch.WATCH)

    @contextmanager
    def _project_environment(self) -> Iterator[None]:
        """Work in the project folder, with the store in the environment, as a user does."""
        old_folder, old_environment = Path.cwd(), dict(os.environ)
        os.chdir(self.project)
        os.environ.update({**self.environment, "SKILLRUN_STORE": self.server.url, "SKILLRUN_MODEL": MODEL})
        (self.project / "answers.yaml").write_text("person/wish: The lake\n")
        try:
            yield
        finally:
            open_store.cache_clear()
            os.chdir(old_folder)
            os.environ.clear()
            os.environ.update(old_environment)

    def skillrun(self, *words: str) -> int:
        """Run a command, and return its exit code."""
        self.output = io.StringIO()
        with contextlib.redirect_stdout(self.output), contextlib.redirect_stderr(self.output):
            return skillrun([*words])

    def run_undisturbed(self) -> dict[bool, Mapping[str, bytes]]:
        """The files of a run in a folder without faults, without and with a pause."""
        found: dict[bool, Mapping[str, bytes]] = {}
        store = os.environ.pop("SKILLRUN_STORE")
        for asks in (False, True):
            out = self.folder / f"alone-{asks}"
            code = self.skillrun(
                "many", f"Trip {watch.PLAIN}", f"--{'' if asks else 'no-'}asks", "--out", str(out), "--name", "r"
            )
            if asks:
                assert code == 75, self.output.getvalue()
                assert self.skillrun("answers", str(out / "r"), "--answers", "answers.yaml") == 0, (
                    self.output.getvalue()
                )
                code = self.skillrun("resume", str(out / "r"))
            assert code == 0, self.output.getvalue()
            found[asks] = {path: watch.plain(path, content) for path, content in world.files(out / "r").items()}
        os.environ["SKILLRUN_STORE"] = store
        return found

    def submit(self) -> None:
        """Queue all runs."""
        bundle = pack_project(self.project, ())
        queue = open_store(self.server.url).queue
        with closing(Dispatcher(self.server.url)) as dispatch:
            for name in self.names:
                inputs: dict[str, object] = {"request": f"Trip {name}", "asks": name in self.pausing}
                request = RunSubmission(inputs=inputs, model=MODEL).to_data()
                queue.submit(name, "many", request, bundle.sha, bundle.content)
                dispatch.wake(name)

    def start_worker(self, place: int) -> None:
        """Start the worker at an index: two of them have wrong clocks, and the disk of the first is often full."""
        cache = self.folder / f"cache-{place}"
        job: dict[str, Any] = {
            "folder": str(self.folder),
            "log": str(self.folder / f"worker-{place}.log"),
            "words": ["worker", "--runs", str(self.size.each), "--lease", str(self.size.lease)],
        }
        if place == 0 and self.library is not None and self.counts.kills % 2:
            self.counts.full += 1
            cache = self.folder / f"full-{self.counts.full}"
            job["full"] = str(cache)
        if place in (1, 2):
            job["off"] = HOUR if place == 1 else -HOUR
        cache.mkdir(exist_ok=True)
        job["environment"] = {**self.environment, "SKILLRUN_STORE": self.url, "XDG_CACHE_HOME": str(cache)}
        number = self.starter.start(job)
        if place == len(self.workers):
            self.workers.append(number)
        else:
            self.workers[place] = number

    # faults and user actions

    def kill(self) -> None:
        place = self.random.choice([at for at, number in enumerate(self.workers) if number not in self.stopped])
        polite = self.random.random() < 0.1
        with suppress(ProcessLookupError):
            os.kill(self.workers[place], signal.SIGTERM if polite else signal.SIGKILL)
        self.counts.polite += polite
        self.counts.kills += not polite
        self.start_worker(place)

    def stop(self) -> None:
        """Stop a worker for twice the lease; half of them keep running, so that runs are claimed in time."""
        if 2 * len(self.stopped) >= self.size.workers:
            return
        free = [number for number in self.workers if number not in self.stopped]
        number = self.random.choice(free)
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGSTOP)
            self.stopped[number] = time.monotonic() + 2 * self.size.lease
            self.counts.stops += 1

    def wake(self) -> None:
        for number, until in [*self.stopped.items()]:
            if time.monotonic() > until:
                del self.stopped[number]
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGCONT)

    def restart(self) -> None:
        fast = self.random.random() < 0.5
        self.counts.fast += fast
        self.counts.immediate += not fast
        self.server.again(signal.SIGINT if fast else signal.SIGQUIT, self.random.random())

    def cut(self) -> None:
        how = self.random.choice(("all", "before", "after", "after"))
        self.proxy.cut() if how == "all" else self.proxy.cut_next_commit(how)

    def act_as_users(self) -> None:
        """Answer the waiting runs, and sometimes cancel a run."""
        waiting = "SELECT name FROM runs WHERE status = 'waiting'"
        for (name,) in self.database.retry(lambda: self.database.rows(waiting), 10):
            if self.skillrun("answers", name, "--answers", "answers.yaml") == 0:
                self.counts.answered += 1
        for name in sorted(self.cancelling):
            if self.random.random() < 0.05:
                self.counts.cancelled += self.skillrun("cancel", name) == 0

    def run(self) -> TrialResult:
        """Run the trial until every run is over."""
        alone = self.run_undisturbed()
        self.submit()
        for place in range(self.size.workers):
            self.start_worker(place)
        started, every = time.monotonic(), self.size.every
        actions = {
            self.kill: every,
            self.cut: 1.7 * every,
            self.stop: 2.5 * every,
            self.restart: 6.3 * every,
            self.act_as_users: 0.5,
        }
        due = {action: started + every + pause * self.random.random() for action, pause in actions.items()}
        while not self._is_over():
            now = time.monotonic()
            if now - started > self.size.most:
                break
            self.wake()
            for action, pause in actions.items():
                if due[action] <= now:
                    due[action] = now + pause
                    action()
            time.sleep(0.05)
        self.seconds = time.monotonic() - started
        for number in self.workers:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)
                os.kill(number, signal.SIGKILL)
        return self._evaluate(alone)

    def _is_over(self) -> bool:
        unfinished = "SELECT count(*) FROM runs WHERE status <> ALL(%(over)s)"
        return self.database.retry(lambda: self.database.rows(unfinished, {"over": list(OVER)}), 10) == [(0,)]

    def _evaluate(self, alone: Mapping[bool, Mapping[str, bytes]]) -> TrialResult:
        result, statuses = TrialResult(), self.database.retry(lambda: watch.statuses(self.database), 10)
        completed = [name for name in self.names if statuses[name] == "completed"]
        cancelled = [name for name in self.names if statuses[name] == "cancelled" and name in self.cancelling]
        lost = [f"{name} is {statuses[name]}" for name in self.names if name not in {*completed, *cancelled}]
        result.expect_none("runs lost", lost)
        repeated, late_calls = watch.repeated_calls(self.database, self.provider, self.names)
        result.expect_none("acknowledged calls repeated", repeated)
        result.expect_none("stale writes accepted", ["a record"] * watch.stale_records(self.database))
        most_calls = self.provider.max_concurrent_calls()
        over = [f"{most_calls} concurrent calls"] if most_calls > self.size.slots else []
        result.expect_none(f"more concurrent calls than the limit of {self.size.slots}", over)
        files = watch.files(self.database)
        other = [
            f"{name}: {differences[0][:300]}"
            for name in completed
            if (differences := world.differences(files[name], alone[name in self.pausing]))
        ]
        result.expect_none("completed runs with different files", other)
        number, most, median = watch.takeovers(self.database)
        late = [f"{most:.1f} s after the end of its lease"] if most > GRACE else []
        result.expect_none(f"claimed later than the lease plus {GRACE:.0f} s", late)
        logs = "".join(path.read_text() for path in self.folder.glob("worker-*.log"))
        result.expect_none("tracebacks of workers", [line for line in logs.splitlines() if "Traceback" in line])
        counts, cuts = self.counts, self.proxy.cuts
        unique = sum(len(self.provider.requests(name)) for name in self.names)
        total = sum(self.provider.requests(name).total() for name in self.names)
        figures = {
            "runs completed": len(completed), "runs cancelled": len(cancelled), "pauses answered": counts.answered,
            "kills -9": counts.kills, "SIGTERMs": counts.polite, "stops of twice the lease": counts.stops,
            "restarts of Postgres, fast": counts.fast, "restarts, immediate": counts.immediate,
            "all connections cut": cuts["all"], "commits cut before they arrive": cuts["before"],
            "commits cut after they arrive": cuts["after"], "workers with a full disk": counts.full,
            "concurrent calls, max": most_calls, "calls": total,
            "of these repeated, without a known reply": total - unique,
            "late calls of stopped workers": late_calls,
            "runs claimed from others": number, "after the lease, median s": f"{median:.1f}",
            "after the lease, max s": f"{most:.1f}",
            "stale writers refused": logs.count("was taken up by"), "seconds": f"{self.seconds:.0f}",
        }  # fmt: skip
        result.table += [(name, value, "") for name, value in figures.items()]
        return result


def run_trial(size: Size, seed: str) -> TrialResult:
    """Run one trial with a new store."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True)))
        bench = Bench(folder, size, seed, stack)
        result = bench.run()
        if result.failures and (log_folder := os.environ.get("CHAOS_LOGS")):
            for path in folder.glob("worker-*.log"):
                shutil.copy(path, log_folder)
        return result


def main(environ: Mapping[str, str]) -> int:
    """Run a trial configured by the environment. Returns 1 if it has failures, 2 for an invalid size."""
    seed = environ.get("CHAOS_SEED") or "8"
    names = {field.name: {"int": int, "float": float}[str(field.type)] for field in fields(Size)}
    try:
        values = {name: kind(text) for name, kind in names.items() if (text := environ.get(f"CHAOS_{name.upper()}"))}
    except ValueError as error:
        print_line(f"invalid size: {error}")
        return 2
    size = Size(**values)
    print_line(f"chaos of workers: seed {seed}, {size}")
    result = run_trial(size, seed)
    for line in result.failures:
        print_line(line)
    print_line(f"\n{'':42}{'found':>8}{'limit':>8}")
    for name, value, limit in result.table:
        print_line(f"{name:42}{value!s:>8}{limit:>8}")
    return int(bool(result.failures))


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(dict(os.environ)))
