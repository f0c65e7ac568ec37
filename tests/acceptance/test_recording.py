"""`skillrun test --record`: a run becomes a case that holds, and what would make it another one is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
SCRIPTED = ("--model", "scripted:default")

WORKFLOW = (
    "---\nname: notes\ndescription: Takes notes.\ninputs: {topic: string, tone?: string}\nphases:\n  note:\n---\n"
)
PHASE = """---
kind: phase
steps:
  - {id: size, ask: [{id: width, text: How wide?}, {id: sides, text: Which?, choices: [left, right], multiple: true}]}
  - repeat:
      - {id: sure, ask: [{id: sure, text: Sure?, choices: ["yes", "no"]}]}
    until: sure.answer == 'yes'
    at_most: 3
  - {id: note, agent: [clerk, clerk:second], at_least: 1, writes: note.md}
---
## note
Write about {{ inputs.topic }}, {{ size.answers | map(attribute='answer') | list }},
{{ inputs.tone | default('plain') }}.
"""
ROLE = "---\nname: clerk\ndescription: Writes.\nvariants: {second: what is left out}\n---\nYou write.\n"
SCRIPT = """- {address: "notes/note/note/clerk/*", text: "# On\\n\\n- 'no'  \\n## Not a section\\nyes: [x\\n"}
- {address: "*:second/*", fail: overloaded, message: busy}
"""
ANSWERS = "width: 12 cm\nsides: [left, right]\nsure: ['no', 'yes']\n"


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call) -> Path:
    """A project with a run: answers of several kinds, a reply, and a member who failed."""
    files = {
        "workflows/notes.md": WORKFLOW,
        "skills/notes/note.md": PHASE,
        "roles/clerk.md": ROLE,
        "script.yaml": SCRIPT,
        "answers.yaml": ANSWERS,
    }
    folder = tmp_path / "project"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    done = skillrun("notes", "locks", "--name", "first", "--script", "script.yaml", "--answers", "answers.yaml")
    assert done.code == 0, done.out + done.err
    return folder


@pytest.mark.slow
@pytest.mark.row("A3")
def test_a_run_becomes_a_case_that_holds(noted: Path, skillrun: Call) -> None:
    done = skillrun("test", "--record", "first", "--as", "locks")
    assert done.code == 0, done.out + done.err
    assert done.err == ""
    assert done.out.startswith(
        "wrote tests/notes/locks.md, and 1 artifact in tests/notes/locks\nnotes/locks: passed (3 calls"
    )
    text = (noted / "tests" / "notes" / "locks.md").read_text()
    for part in ("topic: locks", "name: first", "width: 12 cm", "fail: overloaded", "equals: locks/note.md"):
        assert part in text
    assert "tone" not in text  # it is what it is by default
    artifact = (noted / "runs" / "first" / "note.md").read_text()
    assert (noted / "tests" / "notes" / "locks" / "note.md").read_text() == artifact
    assert skillrun("test").code == 0


@pytest.mark.slow
@pytest.mark.row("A3")
def test_a_recorded_case_misses_what_an_edit_changes(noted: Path, skillrun: Call) -> None:
    assert skillrun("test", "--record", "first").code == 0
    (noted / "skills" / "notes" / "note.md").write_text(PHASE.replace("writes: note.md", "writes: notes.md"))
    done = skillrun("test", "notes", "first")
    assert done.code == 1
    assert "`note.md` was not written" in done.out
    assert "did you mean `notes.md`?" in done.out


@pytest.mark.row("A3")
def test_a_run_of_another_version_or_changed_by_hand_says_so(noted: Path, skillrun: Call) -> None:
    (noted / "skills" / "notes" / "note.md").write_text(PHASE.replace("Write about", "Write all about"))
    (noted / "runs" / "first" / "note.md").write_text("mine\n")
    done = skillrun("test", "--record", "first")
    assert done.code == 0
    assert "`first` ran another version: skills/notes/note.md has changed since" in done.err
    assert "note.md was edited in `first`" in done.err
    assert not (noted / "tests" / "notes" / "first" / "note.md").exists()
    assert "notes/first: passed (3 calls, $0.0000; 3 prompts differ from the recording)\n" in done.out.replace(
        "$0.00;", "$0.0000;"
    )


@pytest.mark.slow
@pytest.mark.row("A3")
def test_rounds_have_a_reply_each(project: Call, skillrun: Call) -> None:
    folder = project("visit")
    (folder / "answers.yaml").write_text("where: the lake\n")
    assert skillrun("visit", "--name", "lake", "--answers", "answers.yaml", *SCRIPTED).code == 0
    done = skillrun("test", "--record", "lake")
    assert done.code == 0, done.out
    text = (folder / "tests" / "visit" / "lake.md").read_text()
    assert text.count("  - check\n") == 2
    assert "model: scripted:default\n" in text


@pytest.mark.row("A3")
def test_nothing_is_written_over_and_a_name_is_one(noted: Path, skillrun: Call) -> None:
    (noted / "tests" / "notes").mkdir(parents=True)
    (noted / "tests" / "notes" / "first.md").write_text("mine\n")
    for arguments, words in (
        (("--record", "first"), "tests/notes/first.md already exists"),
        (("--record", "first", "--as", "../first"), "`../first` is not a valid case name"),
        (("--record", "frst"), "first"),
        (("notes", "--record", "first"), "remove the workflow"),
        (("--as", "locks"), "add `--record RUN`"),
    ):
        done = skillrun("test", *arguments)
        assert done.code == 2
        assert words in done.err
    assert (noted / "tests" / "notes" / "first.md").read_text() == "mine\n"
    assert sorted(path.name for path in (noted / "tests" / "notes").iterdir()) == ["first.md"]


@pytest.mark.row("A3")
def test_a_run_that_has_not_ended_is_no_case(noted: Path, skillrun: Call) -> None:
    state = noted / "runs" / "first" / "state.md"
    state.write_text(state.read_text().replace("status: completed", "status: interrupted"))
    done = skillrun("test", "--record", "first")
    assert done.code == 1
    assert "the run `first` has not ended: its status is interrupted" in done.err
    assert "skillrun resume first" in done.err
    assert not (noted / "tests").exists()


@pytest.mark.slow
@pytest.mark.row("A3")
def test_a_miss_of_a_recorded_case_shows_the_difference_of_the_prompts(
    noted: Path, skillrun: Call, tmp_path: Path
) -> None:
    done = skillrun("test", "--record", "first", "--as", "locks")
    assert "differ from the recording" not in done.out
    note = noted / "skills" / "notes" / "note.md"
    note.write_text(PHASE.replace("Write about", "Write all about"))
    done = skillrun("test")
    assert done.code == 0
    assert "3 prompts differ from the recording)" in done.out
    assert "+Write all about" not in done.out
    assert "+Write all about" in skillrun("test", "--prompts").out
    note.write_text(note.read_text().replace("writes: note.md", "writes: notes.md"))
    done = skillrun("test", "--junit", str(tmp_path / "report.xml"))
    assert done.code == 1
    expected = "3 prompts differ from the recording\n  notes/note/note/clerk/1.1\n    @@ "
    assert expected in done.out
    assert "\n    -Write about locks" in done.out
    assert "\n    +Write all about locks" in done.out
    assert "+Write all about" in (tmp_path / "report.xml").read_text()
    told = (noted / "tests" / "notes" / "locks.md").read_text()
    untaken = told.replace("replies:\n", "replies:\n- {address: '*/nobody/*', text: Lost.}\n", 1)
    (noted / "tests" / "notes" / "locks.md").write_text(untaken)
    out = skillrun("test").out
    assert out.index("error[") < out.index("from the recording\n") < out.index("warning[untaken]"), "misses come first"
    [told] = skillrun("test", "--json").json["cases"]
    first = told["prompts"][0]
    assert (first["address"], first["status"]) == ("notes/note/note/clerk/1.1", "differs")
    note.write_text(PHASE.replace("agent: [clerk, clerk:second], at_least: 1", "agent: clerk:first"))
    (noted / "roles" / "clerk.md").write_text(ROLE.replace("{second:", "{first: what is there, second:"))
    out = skillrun("test", "--prompts").out
    assert "note/clerk:first/1.1: not in the recording" in out
    assert "note/clerk/1.1: no longer sent" in out


@pytest.mark.slow
@pytest.mark.row("A3")
def test_a_file_of_prompts_that_is_none_is_told(noted: Path, skillrun: Call) -> None:
    assert skillrun("test", "--record", "first", "--as", "locks").code == 0
    kept = noted / "tests" / "notes" / "locks" / ".prompts.json"
    for text, words in (
        ("{}", "not a file of recorded prompts"),
        ("[1", "locks/.prompts.json: "),
        ('{"prompts": [{}], "texts": {}}', "no"),
    ):
        kept.write_text(text)
        done = skillrun("test")
        assert done.code == 2
        assert words in done.out
        assert "remove this line, or record" in done.out
    kept.unlink()
    assert skillrun("test").code == 2


@pytest.mark.slow
@pytest.mark.row("A3")
def test_replies_that_no_file_has_room_for_stand_in_several(noted: Path, skillrun: Call) -> None:
    (noted / "script.yaml").write_text(
        "".join(
            f"- {{address: '*/{member}/*', text: '{letter * 480_000}'}}\n"
            for member, letter in (("clerk", "a"), ("clerk:second", "b"))
        )
    )
    command = ("notes", "locks", "--name", "long", "--script", "script.yaml", "--answers", "answers.yaml")
    assert skillrun(*command).code == 0
    done = skillrun("test", "--record", "long")
    assert done.code == 0, done.out[:2000] + done.err
    case = noted / "tests" / "notes" / "long.md"
    assert "- long/replies-1.yaml\n- long/replies-2.yaml\n" in case.read_text()
    assert case.stat().st_size < 10_000
    (noted / "tests" / "notes" / "long" / "replies-2.yaml").unlink()
    assert "long/replies-2.yaml: the file cannot be read" in skillrun("test").out


@pytest.mark.slow
@pytest.mark.row("A3")
def test_a_case_of_a_run_that_reads_another_run_has_what_it_read(noted: Path, skillrun: Call) -> None:
    phase = noted / "skills" / "notes" / "note.md"
    more = "  - {id: earlier, read: note.md, from: first}\n  - {id: again, write: again.md}\n"
    phase.write_text(
        PHASE.replace("---\n## note", f"{more}---\n## note")
        + "\n## again\n{{ earlier.text }}, from {{ earlier.files }}.\n"
    )
    command = ("notes", "keys", "--name", "other", "--script", "script.yaml", "--answers", "answers.yaml")
    assert skillrun(*command).code == 0
    done = skillrun("test", "--record", "other")
    assert done.code == 0, done.out + done.err
    kept = noted / "tests" / "notes" / "other" / ".runs" / "first" / "note.md"
    assert kept.read_text() == (noted / "runs" / "first" / "note.md").read_text()
    kept.write_text("# Another one\n")
    done = skillrun("test")
    assert done.code == 1
    assert "+# Another one\n" in done.out
    case = noted / "tests" / "notes" / "other.md"
    case.write_text(case.read_text().replace("runs: other/.runs\n", ""))
    assert "no run is named `first`" in skillrun("test").out
    case.write_text(case.read_text().replace("replies:", "runs: other/.gone\nreplies:"))
    assert skillrun("test").code == 2
