"""The environment of every test: no network, an empty home, no provider keys, a fixed terminal and environment."""

import gc
import os
import re
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import hypothesis
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import strategies

LOOPBACK = ["127.0.0.1", "::1", "localhost"]
MARKED = {"row": re.compile(r"[A-Z][1-9][0-9]?"), "finding": re.compile(r"(?:F[A-Z]|NC)[1-9][0-9]{0,2}")}
USERS_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
HOMES = count(1)

FETCH = """
import asyncio, os
from skillrun.cli.loading import cache_folder, open_library
from skillrun.models.catalogue import Catalogue
from skillrun.models.weights import fetch_weights
embedded = Catalogue.from_config(open_library().config("models").data).embedded
asyncio.run(fetch_weights(embedded, cache_folder(), os.environ, print))
"""

# Variables that differ between developers' machines, editors and CI, or that make each process compile its imports.
AMBIENT = re.compile(
    r".*_API_KEY|ANTHROPIC_.*|OPENAI_.*|SKILLRUN_.*|XDG_.*|CI|GITHUB_ACTIONS|TERM_PROGRAM|VSCODE_.*|NO_COLOR|FORCE_COLOR"
    r"|PYTHONDONTWRITEBYTECODE"
)

# Examples have no deadline, because machines differ in speed, and are the same in every run unless
# SKILLRUN_EXAMPLES asks for more.
TIMES = int(os.environ.get("SKILLRUN_EXAMPLES") or 1)
hypothesis.settings.register_profile("times", deadline=None, max_examples=30 * TIMES, derandomize=TIMES == 1)
hypothesis.settings.load_profile("times")


# Seconds of CPU time that a test without the marker `slow` may use, its child processes included.
CPU_LIMIT = float(os.environ.get("SKILLRUN_TEST_CPU_LIMIT") or 1)
CPU_USED = pytest.StashKey[float]()


def cpu_seconds() -> float:
    """CPU seconds used so far by this process and by the child processes that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class SharedSetUp:
    """A plugin that measures fixtures that outlive a test, so that no single test is charged for them.

    pytest calls the hooks of this file only for what is in its folder, and a fixture of the scope `session` is not.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.depth = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Add the CPU seconds of a fixture to `seconds`."""
        if fixturedef.scope == "function" or self.depth:
            return (yield)
        self.depth += 1
        begin = cpu_seconds()
        try:
            return (yield)
        finally:
            self.depth -= 1
            self.seconds += cpu_seconds() - begin


SHARED_SET_UP = SharedSetUp()


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin that measures fixtures."""
    config.pluginmanager.register(SHARED_SET_UP)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test, and fail it if its set-up and call use more CPU time than `CPU_LIMIT`, unless it is marked `slow`.

    A test over the limit runs again, and the lower of both times counts: the first test of a process may be the one
    that imports a large library, and another program may have slowed the machine down. Nothing is measured under
    coverage, which inflates the time. The teardown is not counted: it may end servers that other tests used.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports, used = run_and_measure(item, nextitem)
    if used > CPU_LIMIT and "coverage" not in sys.modules and item.get_closest_marker("slow") is None:
        item._initrequest()  # type: ignore[attr-defined] # as pytest-rerunfailures does: fixtures are set up again
        reports, used_again = run_and_measure(item, nextitem)
        if (used := min(used, used_again)) > CPU_LIMIT:
            call = next(report for report in reports if report.when == "call")
            call.outcome = "failed"
            call.longrepr = (
                f"{item.nodeid} used {used:.1f} s of CPU time; the limit is {CPU_LIMIT:g} s. "
                "Make it cheaper, or mark it `slow`."
            )
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def run_and_measure(item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], float]:
    """The reports of one run of a test, and the CPU seconds of its set-up and call; 0 for a test that did not pass."""
    begin = cpu_seconds() - SHARED_SET_UP.seconds
    item.stash[CPU_USED] = begin
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    return reports, item.stash[CPU_USED] - begin


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the CPU time when the call of a test has passed."""
    report = yield
    if call.when == "call" and report.passed:
        item.stash[CPU_USED] = cpu_seconds() - SHARED_SET_UP.seconds
    return report


def find_rows_without_fast_test(items: list[pytest.Item]) -> list[str]:
    """The requirement rows, such as `P4`, whose tests are all marked `slow`."""
    rows: defaultdict[str, bool] = defaultdict(bool)
    for item in items:
        for marker in item.iter_markers("row"):
            for row in marker.args:
                rows[row] |= item.get_closest_marker("slow") is None
    return sorted(row for row, has_fast_test in rows.items() if not has_fast_test)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse markers that name no row or finding, and rows whose tests are all slow.

    Tests of the embedded model may use the loopback interface.
    """
    wrong = [
        f"{item.nodeid}: {name}{marker.args!r} names no {what}; allowed: ids such as {example!r}"
        for item in items
        for name, what, example in (("row", "requirement row", "P4"), ("finding", "finding", "FZ1"))
        for marker in item.iter_markers(name)
        if not marker.args or not all(isinstance(one, str) and MARKED[name].fullmatch(one) for one in marker.args)
    ]
    if wrong:
        raise pytest.UsageError(*wrong)
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and (rows := find_rows_without_fast_test(items)):
        raise pytest.UsageError(
            f"every test of these rows is marked `slow`, so `make test` runs none: {', '.join(rows)}"
        )
    for item in items:
        if item.get_closest_marker("embedded"):
            item.add_marker(pytest.mark.allow_hosts(LOOPBACK))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exclude existing objects from garbage collection: thousands of tests and their imports."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _warm_up_hypothesis(request: pytest.FixtureRequest) -> None:
    """Run an example, because Hypothesis collects garbage and builds its character table before the first one."""
    if any(item.get_closest_marker("hypothesis") for item in request.session.items):
        hypothesis.given(strategies.text())(lambda _: None)()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the home of each test."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="session")
def weights() -> None:
    """The weights of the embedded model in the user's cache, fetched in a separate process with network access."""
    subprocess.run([sys.executable, "-c", FETCH], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def postgres() -> None:
    """Start the Postgres server of this process, so that no single test is charged for it."""
    from tests.servers.postgres import shared

    shared()


@pytest.fixture
def home(surroundings: Path) -> Path:
    """The home of the test. Overriding this fixture does not disable `surroundings`."""
    return surroundings


@pytest.fixture(autouse=True)
def surroundings(homes: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The empty home of the test, with keys and variables of the caller removed from the environment."""
    folder = homes / str(next(HOMES))
    folder.mkdir()
    embedded = request.node.get_closest_marker("embedded")
    if embedded:
        request.getfixturevalue("weights")
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(AMBIENT.fullmatch, list(os.environ)):
            patch.delenv(name)
        for name, value in {
            "HOME": folder,
            "USERPROFILE": folder,
            "XDG_CONFIG_HOME": folder / ".config",
            "XDG_DATA_HOME": folder / ".local" / "share",
            "XDG_CACHE_HOME": USERS_CACHE if embedded else folder / ".cache",
            "COLUMNS": 120,
            "TERM": "dumb",
        }.items():
            patch.setenv(name, str(value))
        yield folder
