"""`skillrun skill` prints or writes the Agent Skill for authors, and overwrites nothing."""

import re
from pathlib import Path

import pytest

from tests.acceptance.conftest import Call

pytestmark = pytest.mark.row("A4")
FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_skill_is_printed_in_full_or_by_part(skillrun: Call) -> None:
    out = skillrun("skill").out
    assert out.startswith("---\nname: skillrun-author\n")
    keys = skillrun("skill", "keys").out
    assert keys.startswith("# Keys of files\n")
    assert skillrun("skill", "keys.md").out == keys
    assert skillrun("skill", "steps", "--json").json["text"].startswith("# Steps\n")
    done = skillrun("skill", "kyes")
    assert (done.code, "did you mean `keys`?" in done.err) == (2, True)


@pytest.mark.finding("FR11")
def test_the_skill_is_written_and_overwrites_nothing(folder: Path, skillrun: Call) -> None:
    done = skillrun("skill", "--to", ".claude/skills")
    assert (done.code, done.out) == (0, "wrote .claude/skills/skillrun-author\n")
    main = folder / ".claude" / "skills" / "skillrun-author" / "SKILL.md"
    assert main.read_text() == skillrun("skill").out
    (main.parent / "references" / "keys.md").unlink()
    assert skillrun("skill", "--to", ".claude/skills", "--json").json["made"] == ["skillrun-author/references/keys.md"]
    assert "already exists and is up to date" in skillrun("skill", "--to", ".claude/skills").out
    main.write_text("mine\n")
    (main.parent / "references" / "keys.md").unlink()
    done = skillrun("skill", "--to", ".claude/skills")
    assert (done.code, "already exists with different content" in done.err) == (2, True)
    assert main.read_text() == "mine\n"
    assert not (main.parent / "references" / "keys.md").exists(), "all files are written, or none"
    assert skillrun("skill", "keys", "--to", "x").code == 2


@pytest.mark.slow
def test_the_examples_of_the_skill_validate_and_their_case_passes(folder: Path, skillrun: Call) -> None:
    for name, text in FILE.findall(skillrun("skill").out):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    assert skillrun("validate").out.startswith("0 errors, 0 warnings")
    done = skillrun("test")
    assert (done.code, done.err) == (0, ""), done.out


def test_an_unreadable_finding_does_not_pass_its_gate(folder: Path, skillrun: Call) -> None:
    for name, text in FILE.findall(skillrun("skill").out):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    case = folder / "tests" / "announce" / "revision.md"
    case.write_text(
        case.read_text()
        .replace("severity: BLOCKING, ", "severity: HUGE, ")
        .replace('"BLOCKING: A promise nobody can keep"', "'(mend: a finding could not be read)'"),
        encoding="utf-8",
    )
    done = skillrun("test")
    assert (done.code, "warning[unfit]" in done.out) == (0, True), done.out
