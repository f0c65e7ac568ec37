"""The runs of a worker execute in threads, and those of one project share the loaded workflow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from skillrun.cli.loading import LoadedWorkflow, load_from_project
from skillrun.extensions.workers import work
from skillrun.extensions.workers.fetching import CommitCache
from skillrun.extensions.workers.postgres.queue import RunQueue, SubmittedRun
from skillrun.extensions.workers.postgres.stored_run import PostgresStore
from skillrun.extensions.workers.work import WorkerHost
from tests.acceptance.conftest import EXAMPLES

pytestmark = pytest.mark.row("W2")


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def load_example(_project: Path, name: str) -> LoadedWorkflow:
    workflow = load_from_project(EXAMPLES / "greeting", name)
    assert isinstance(workflow, LoadedWorkflow)
    return workflow


def worker_host(folder: Path, load: Any = load_example) -> WorkerHost:
    for number in range(40):
        (folder / f"{number:064}").mkdir()
    return WorkerHost(cast("PostgresStore", None), cast("RunQueue", None), folder, load, CommitCache(folder))


def submitted_run(bundle: int) -> SubmittedRun:
    return SubmittedRun("greeting", f"{bundle:064}", "{}", 0, "queued")


def test_lookups_of_one_run_do_not_affect_another_run_of_the_same_project(tmp_path: Path) -> None:
    loaded_projects: list[str] = []

    def load(project: Path, workflow: str) -> LoadedWorkflow:
        loaded_projects.append(project.name)
        return load_example(project, workflow)

    host = worker_host(tmp_path, load)
    first, second = host.load_workflow(submitted_run(1)).program, host.load_workflow(submitted_run(1)).program
    assert loaded_projects == [f"{1:064}"]
    before = dict(second.library.files)
    assert dict(first.library.files) == before
    for name in first.library.names("roles"):
        assert first.library.role(name) is not None
    assert first.library.files.keys() > before.keys()
    assert second.library.files == before
    assert host.load_workflow(submitted_run(1)).program.library.files == before
    assert [*second.library.problems] == [*first.library.problems]


@pytest.mark.slow
@pytest.mark.usefixtures("frequent_switches")
def test_many_threads_load_and_evict_many_projects_concurrently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "MAX_LOADED_WORKFLOWS", 2)
    workflow = load_example(tmp_path, "greeting")
    host = worker_host(tmp_path, lambda _project, _workflow: workflow)
    with ThreadPoolExecutor(16) as threads:
        loaded = [*threads.map(lambda number: host.load_workflow(submitted_run(number % 40)), range(2000))]
    assert len(loaded) == 2000
    assert len(host.loaded_workflows) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_lookups_in_one_project_find_the_same_files(tmp_path: Path) -> None:
    host = worker_host(tmp_path)

    def look_up_all(_number: int) -> tuple[dict[str, str], object]:
        library = host.load_workflow(submitted_run(1)).program.library
        roles = [role.name for name in library.names("roles") if (role := library.role(name)) is not None]
        texts = [library.text(name) is None for name in ("system/summarise", "system/tools", "none/such")]
        config = library.config("skillrun")
        assert config is not None
        files = {f"{root}:{path}": source.label for (root, path), source in library.files.items()}
        return files, (roles, texts, config.data)

    with ThreadPoolExecutor(8) as threads:
        results = [*threads.map(look_up_all, range(40))]
    assert all(result == results[0] for result in results)
