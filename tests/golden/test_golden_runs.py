"""Runs that older commits have left go on today: nothing is asked again, and they end as those commits ended them."""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from pathlib import Path

import pytest

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.models.catalogue import Catalogue
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime import session
from skillrun.runtime.run import Session
from skillrun.store.journal import Kind
from skillrun.store.local.journal import read_journal
from skillrun.store.local.local_files import open_run_data
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.signing_key import key_folder
from skillrun.store.seal import compute_seal
from tests.acceptance.conftest import Call, skillrun  # noqa: F401 (a fixture)
from tests.golden.runs import CASES, KEY, NAME, RUNS, described, fill_in, make_project, unpack


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of these runs, with the key of the user who began them."""
    folder = tmp_path / "project"
    make_project(folder)
    monkeypatch.chdir(folder)
    key_folder().mkdir(parents=True, mode=0o700)
    (key_folder() / "seal.key").write_bytes(KEY)
    (key_folder() / "seal.key").chmod(0o600)
    return folder


def program_of(project: Path) -> tuple[Program, Catalogue]:
    library = Library(search_path(project))
    program, models = check_workflow(library, "trek"), library.config("models")
    assert program is not None
    assert models is not None
    return program, Catalogue.from_config(models.data)


def moved_here(run: Path, project: Path) -> None:
    """Have the state say that its project is this one, under a seal of today; the old seal has to fit before."""
    path = run / "state.md"
    program, _ = program_of(project)
    state, _ = open_run_data(run).state.read()
    assert state.seal == compute_seal(program, state, KEY)
    state.project = str(project)
    text = re.sub(r"(?m)^project: .*$", f"project: {project}", path.read_text(encoding="utf-8"))
    path.write_text(text.replace(state.seal, compute_seal(program, state, KEY)), encoding="utf-8")


def calls(run: Path, kind: Kind) -> list[tuple[str, str]]:
    """The addresses and fingerprints of a kind of records, oldest first."""
    with closing(read_journal(run)) as journal:
        return [(entry.address, entry.fingerprint) for entry in journal.entries(kind)]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_a_run_of_before_goes_on_as_the_older_commit_went_on(name: str, place: Path, skillrun: Call) -> None:  # noqa: F811
    case, run = CASES[name], unpack(name, place / "runs")
    if not case.first_version:
        moved_here(run, place)
    left = unpack(name, place / "left")
    if (run / "questions.md").exists() and not case.answered:
        fill_in(run)
    for code in case.ends:
        done = skillrun("resume", NAME, "--script", "script.yaml", "--yes")
        assert done.code == code, done.err + done.out
        if code:
            fill_in(run)
    sent = calls(run, "sent")[len(calls(left, "sent")) :]
    assert not set(sent) & set(calls(left, "reply")), "what the journal answers is asked again"
    assert described(run) == (RUNS / name / "end.txt").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.first_version])
def test_evaluated_again_from_the_start_it_asks_nobody(name: str, place: Path, skillrun: Call) -> None:  # noqa: F811
    """Every answer that the older commit has paid for is found, whatever has been moved since."""
    case, run = CASES[name], unpack(name, place / "runs")
    moved_here(run, place)
    if (run / "questions.md").exists() and not case.answered:
        fill_in(run)
    for code in case.ends:
        assert skillrun("resume", NAME, "--script", "script.yaml", "--yes").code == code
        if code:
            fill_in(run)
    program, catalogue = program_of(place)
    gateway = ScriptedGateway()
    setting = Session(
        program, catalogue, gateway, open_responder(unattended=True), project=place, override="scripted:default"
    )
    before = described(run)
    folder = LocalRun(run)
    with folder.lease.hold(), closing(folder.open_journal()) as journal:
        outcome = asyncio.run(session.reevaluate_run(setting, folder, journal, folder.state().inputs))
    assert (outcome.status, gateway.calls) == ("completed", [])
    assert files(described(run)) == files(before)


def files(described: str) -> list[str]:
    """What is said of a run's files but its state, and of what was recorded anew when they were written again."""
    return [part for part in described.split("=== ") if not part.startswith(("state.md", "the journal"))]
