"""`skillrun skill`: the Agent Skill for authors, printed or written; nothing is written over."""

import re
from pathlib import Path

import pytest

from tests.acceptance.conftest import Call

pytestmark = pytest.mark.row("A4")
FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_printed_whole_and_by_its_parts(skillrun: Call) -> None:
    out = skillrun("skill").out
    assert out.startswith("---\nname: skillrun-author\n")
    keys = skillrun("skill", "keys").out
    assert keys.startswith("# Keys of files\n")
    assert skillrun("skill", "keys.md").out == keys
    assert skillrun("skill", "steps", "--json").json["text"].startswith("# Steps\n")
    done = skillrun("skill", "kyes")
    assert (done.code, "did you mean `keys`?" in done.err) == (2, True)


def test_it_is_written_and_nothing_is_written_over(place: Path, skillrun: Call) -> None:
    done = skillrun("skill", "--to", ".claude/skills")
    assert (done.code, done.out) == (0, "wrote .claude/skills/skillrun-author\n")
    main = place / ".claude" / "skills" / "skillrun-author" / "SKILL.md"
    assert main.read_text() == skillrun("skill").out
    (main.parent / "references" / "keys.md").unlink()
    assert skillrun("skill", "--to", ".claude/skills", "--json").json["made"] == ["skillrun-author/references/keys.md"]
    assert "already exists and is up to date" in skillrun("skill", "--to", ".claude/skills").out
    main.write_text("mine\n")
    (main.parent / "references" / "keys.md").unlink()
    done = skillrun("skill", "--to", ".claude/skills")
    assert (done.code, "already exists with different content" in done.err) == (2, True)
    assert main.read_text() == "mine\n"
    assert not (main.parent / "references" / "keys.md").exists(), "it is all or nothing"
    assert skillrun("skill", "keys", "--to", "x").code == 2


@pytest.mark.slow
def test_what_it_shows_validates_and_its_case_holds(place: Path, skillrun: Call) -> None:
    for name, text in FILE.findall(skillrun("skill").out):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    assert skillrun("validate").out.startswith("0 errors, 0 warnings")
    done = skillrun("test")
    assert (done.code, done.err) == (0, ""), done.out


def test_a_finding_that_cannot_be_read_does_not_pass_its_gate(place: Path, skillrun: Call) -> None:
    for name, text in FILE.findall(skillrun("skill").out):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    case = place / "tests" / "announce" / "mended.md"
    case.write_text(
        case.read_text()
        .replace("severity: BLOCKING, ", "severity: HUGE, ")
        .replace('"BLOCKING: A promise nobody can keep"', "'(mend: a finding could not be read)'"),
        encoding="utf-8",
    )
    done = skillrun("test")
    assert (done.code, "warning[unfit]" in done.out) == (0, True), done.out
