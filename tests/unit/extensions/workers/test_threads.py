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
def often() -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def loaded(_project: Path, workflow: str) -> LoadedWorkflow:
    found = load_from_project(EXAMPLES / "greeting", workflow)
    assert isinstance(found, LoadedWorkflow)
    return found


def place(folder: Path, load: Any = loaded) -> WorkerHost:
    for number in range(40):
        (folder / str(number)).mkdir()
    return WorkerHost(cast("PostgresStore", None), cast("RunQueue", None), folder, load, CommitCache(folder))


def wanted(bundle: object) -> SubmittedRun:
    return SubmittedRun("greeting", str(bundle), {}, 0, "queued")


def test_what_one_run_looks_up_is_not_seen_by_another_of_the_same_project(tmp_path: Path) -> None:
    times: list[str] = []

    def load(project: Path, workflow: str) -> LoadedWorkflow:
        times.append(project.name)
        return loaded(project, workflow)

    workplace = place(tmp_path, load)
    first, second = workplace.load_workflow(wanted(1)).program, workplace.load_workflow(wanted(1)).program
    assert times == ["1"]
    before = dict(second.library.files)
    assert dict(first.library.files) == before
    for name in first.library.names("roles"):
        assert first.library.role(name) is not None
    assert first.library.files.keys() > before.keys()
    assert second.library.files == before
    assert workplace.load_workflow(wanted(1)).program.library.files == before
    assert [*second.library.problems] == [*first.library.problems]


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_many_threads_load_and_forget_many_projects_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "MAX_LOADED_WORKFLOWS", 2)
    one = loaded(tmp_path, "greeting")
    workplace = place(tmp_path, lambda _project, _workflow: one)
    with ThreadPoolExecutor(16) as threads:
        found = [*threads.map(lambda number: workplace.load_workflow(wanted(number % 40)), range(2000))]
    assert len(found) == 2000
    assert len(workplace.loaded_workflows) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_many_threads_look_up_everything_of_one_project_and_find_the_same(tmp_path: Path) -> None:
    workplace = place(tmp_path)

    def everything(_number: int) -> tuple[dict[str, str], object]:
        library = workplace.load_workflow(wanted(1)).program.library
        roles = [role.name for name in library.names("roles") if (role := library.role(name)) is not None]
        texts = [library.text(name) is None for name in ("system/summarise", "system/tools", "none/such")]
        config = library.config("skillrun")
        assert config is not None
        files = {f"{root}:{path}": source.label for (root, path), source in library.files.items()}
        return files, (roles, texts, config.data)

    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(everything, range(40))]
    assert all(each == found[0] for each in found)
