"""The folder of a run: valid artifact names, and files that an untrusted summary cannot move."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.artifacts import normalize_artifact_name
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.local_store import LocalStore
from skillrun.syntax.diagnostics import SkillrunError

SUMMARY = "---\nphase: one\nstatus: completed\nartifacts: ['../mine.md']\n---\n"


@pytest.mark.parametrize("name", ["state.md", "State.md", ".run/x", ".RUN/x", "summaries/a.md", "Round-1/a.md", "."])
def test_files_of_the_run_are_not_valid_artifact_names_on_any_file_system(name: str) -> None:
    with pytest.raises(SkillrunError, match="belongs to the run itself"):
        normalize_artifact_name(name)


@pytest.mark.parametrize("name", ["a\nb.md", "a\x1b[31m.md", "a\u202eb.md"])
def test_an_artifact_name_with_invisible_characters_is_refused(name: str) -> None:
    with pytest.raises(SkillrunError, match="non-printable"):
        normalize_artifact_name(name)


@pytest.mark.row("Z3")
@pytest.mark.finding("FZ4")
def test_a_summary_that_names_a_file_outside_moves_nothing(tmp_path: Path) -> None:
    outside, folder = tmp_path / "mine.md", tmp_path / "run"
    (folder / "summaries").mkdir(parents=True)
    outside.write_text("mine")
    (folder / "summaries" / "one.md").write_text(SUMMARY)
    files = LocalRun(folder).data()
    files.end_round(1, ["one"], [])
    assert outside.read_text() == "mine"
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*.md")] == ["round-1/summaries/one.md"]
    assert files.refusals.lines == ["summaries/one.md:4:13: `../mine.md` is not a valid artifact name"]


def test_a_full_disk_leaves_no_runs_folder_without_its_gitignore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ConfinedFolder, "create", fail)
        with pytest.raises(OSError, match="No space"):
            LocalStore(tmp_path / "runs").reserve_name("Ada")
    assert not (tmp_path / "runs").exists()
    assert LocalStore(tmp_path / "runs").reserve_name("Ada") == "ada"
    assert (tmp_path / "runs" / ".gitignore").is_file()


@pytest.mark.row("P9", "R4")
def test_an_edited_summary_keeps_its_valid_entries_and_each_other_is_reported_with_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "summaries").mkdir(parents=True)
    (folder / "summaries" / "one.md").write_text(
        "---\nstage: one\nstatus: completed\nstage_number: first\nartifacts_written:\n- a.md\n- 7\n"
        "key_decisions:\n- {id: D-1, decision: Use SQLite.}\n- Use Redis.\n- {id: D-2, decision: Split it.}\n-\n"
        "open_questions: none\nquality_warnings: [Thin., [Thinner.]]\nfailures:\n  first: 2\n  second: -1\n"
        "usage: {calls: 3, price: a lot}\ngoto: {target: zero}\n---\n"
    )
    run = LocalRun(folder).data()
    summary = run.summaries.find("one")
    assert summary is not None
    assert [record["id"] for record in summary.key_decisions] == ["D-1", "D-2"]
    assert (summary.artifacts, summary.quality_warnings) == (["a.md"], ["Thin."])
    assert (summary.failures, summary.usage) == ({"first": 2}, {"calls": 3})
    assert run.refusals.lines == [
        "summaries/one.md:4:15: `number` has the invalid value `first`",
        "summaries/one.md:7:3: `7` is not a valid artifact name",
        "summaries/one.md:10:3: `key_decisions` has the invalid entry `Use Redis.`",
        "summaries/one.md:12:2: `key_decisions` has the invalid entry `null`",
        "summaries/one.md:13:17: `open_questions` has the invalid value `none`",
        'summaries/one.md:14:27: `quality_warnings` has the invalid entry `["Thinner."]`',
        "summaries/one.md:17:11: `failures.second` has the invalid value `-1`",
        "summaries/one.md:18:26: `usage.price` has the invalid value `a lot`",
        'summaries/one.md:19:7: `goto` has the invalid value `{"target": "zero"}`',
    ]
