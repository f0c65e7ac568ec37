"""Unfinished runs of older commits can be resumed: no call is repeated, and they end as with those commits."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.models.catalogue import Catalogue
from skillrun.models.scripted import ScriptedGateway
from skillrun.questions.responder import open_responder
from skillrun.runtime import session
from skillrun.runtime.run import RunOptions, Services, Session
from skillrun.store.journal import Kind
from skillrun.store.local.journal import read_journal
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.signing_key import key_folder
from skillrun.store.seal import compute_seal
from tests.acceptance.conftest import Call, skillrun  # noqa: F401 (a fixture)
from tests.golden.runs import CASES, KEY, NAME, RUNS, describe, fill_in, make_project, unpack

UPDATE: Final = bool(os.environ.get("SKILLRUN_UPDATE_EXAMPLES"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of these runs, with the key of the user who started them."""
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


def move_run(run: Path, project: Path) -> None:
    """Check the seal of the state, then change its project to this one and seal it again."""
    path = run / "state.md"
    program, _ = program_of(project)
    state, _ = LocalRun(run).data().state.read()
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
def test_a_run_of_an_older_commit_resumes_with_the_same_result(name: str, project: Path, skillrun: Call) -> None:  # noqa: F811
    case, run = CASES[name], unpack(name, project / "runs")
    if not case.first_version:
        move_run(run, project)
    original = unpack(name, project / "original")
    if (run / "questions.md").exists() and not case.answered:
        fill_in(run)
    for code in case.exit_codes:
        result = skillrun("resume", NAME, "--script", "script.yaml", "--yes")
        assert result.code == code, result.err + result.out
        if code:
            fill_in(run)
    sent = calls(run, "sent")[len(calls(original, "sent")) :]
    assert not set(sent) & set(calls(original, "reply")), "a call with a recorded reply is sent again"
    expected = RUNS / name / "end.txt"
    if UPDATE:
        expected.write_text(describe(run), encoding="utf-8")
    assert describe(run) == expected.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.first_version])
def test_a_reevaluation_from_the_start_makes_no_calls(name: str, project: Path, skillrun: Call) -> None:  # noqa: F811
    """Every reply recorded by the older commit is found."""
    case, run = CASES[name], unpack(name, project / "runs")
    move_run(run, project)
    if (run / "questions.md").exists() and not case.answered:
        fill_in(run)
    for code in case.exit_codes:
        assert skillrun("resume", NAME, "--script", "script.yaml", "--yes").code == code
        if code:
            fill_in(run)
    program, catalogue = program_of(project)
    gateway = ScriptedGateway()
    services = Services(catalogue, gateway, open_responder(unattended=True))
    setting = Session(program, services, RunOptions(project, "scripted:default"))
    before = describe(run)
    folder = LocalRun(run)
    with folder.lease.hold(), closing(folder.open_journal()) as journal:
        outcome = asyncio.run(session.reevaluate_run(setting, folder, journal, folder.state().inputs))
    assert (outcome.status, gateway.calls) == ("completed", [])
    assert files(describe(run)) == files(before)


def files(description: str) -> list[str]:
    """The parts of a description about files, except the state, which is written again."""
    return [part for part in description.split("=== ") if not part.startswith(("state.md", "the journal"))]
