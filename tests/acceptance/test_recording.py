"""`skillrun test --record`: a run becomes a passing case, and differences from the run are reported."""

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
ROLE = "---\nname: clerk\ndescription: Writes.\nvariants: {second: the omitted part}\n---\nYou write.\n"
SCRIPT = """- {address: "notes/note/note/clerk/*", text: "# On\\n\\n- 'no'  \\n## Not a section\\nyes: [x\\n"}
- {address: "*:second/*", fail: overloaded, message: busy}
"""
ANSWERS = "width: 12 cm\nsides: [left, right]\nsure: ['no', 'yes']\n"


@pytest.fixture
def notes_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call) -> Path:
    """A project with one run: answers of several kinds, a reply, and a failed member."""
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
def test_a_run_becomes_a_passing_case(notes_project: Path, skillrun: Call) -> None:
    done = skillrun("test", "--record", "first", "--as", "locks")
    assert done.code == 0, done.out + done.err
    assert done.err == ""
    assert done.out.startswith(
        "wrote tests/notes/locks.md, and 1 artifact in tests/notes/locks\nnotes/locks: passed (3 calls"
    )
    text = (notes_project / "tests" / "notes" / "locks.md").read_text()
    for part in ("topic: locks", "name: first", "width: 12 cm", "fail: overloaded", "equals: locks/note.md"):
        assert part in text
    assert "tone" not in text  # default values are omitted
    artifact = (notes_project / "runs" / "first" / "note.md").read_text()
    assert (notes_project / "tests" / "notes" / "locks" / "note.md").read_text() == artifact
    assert skillrun("test").code == 0


@pytest.mark.slow
@pytest.mark.row("A3")
def test_a_recorded_case_fails_after_an_edit(notes_project: Path, skillrun: Call) -> None:
    assert skillrun("test", "--record", "first").code == 0
    (notes_project / "skills" / "notes" / "note.md").write_text(PHASE.replace("writes: note.md", "writes: notes.md"))
    done = skillrun("test", "notes", "first")
    assert done.code == 1
    assert "`note.md` was not written" in done.out
    assert "did you mean `notes.md`?" in done.out


@pytest.mark.row("A3")
def test_recording_reports_changed_files_and_edited_artifacts(notes_project: Path, skillrun: Call) -> None:
    (notes_project / "skills" / "notes" / "note.md").write_text(PHASE.replace("Write about", "Write all about"))
    (notes_project / "runs" / "first" / "note.md").write_text("mine\n")
    done = skillrun("test", "--record", "first")
    assert done.code == 0
    assert "`first` ran a different version: skills/notes/note.md has changed since" in done.err
    assert "note.md was edited in `first`" in done.err
    assert not (notes_project / "tests" / "notes" / "first" / "note.md").exists()
    assert "notes/first: passed (3 calls, $0.0000; 3 prompts differ from the recording)\n" in done.out.replace(
        "$0.00;", "$0.0000;"
    )


@pytest.mark.slow
@pytest.mark.row("A3")
def test_each_round_has_its_own_reply(project: Call, skillrun: Call) -> None:
    folder = project("visit")
    (folder / "answers.yaml").write_text("where: the lake\n")
    assert skillrun("visit", "--name", "lake", "--answers", "answers.yaml", *SCRIPTED).code == 0
    done = skillrun("test", "--record", "lake")
    assert done.code == 0, done.out
    text = (folder / "tests" / "visit" / "lake.md").read_text()
    assert text.count("  - check\n") == 2
    assert "model: scripted:default\n" in text


@pytest.mark.row("A3")
def test_recording_overwrites_nothing_and_checks_the_case_name(notes_project: Path, skillrun: Call) -> None:
    (notes_project / "tests" / "notes").mkdir(parents=True)
    (notes_project / "tests" / "notes" / "first.md").write_text("mine\n")
    for arguments, message in (
        (("--record", "first"), "tests/notes/first.md already exists"),
        (("--record", "first", "--as", "../first"), "`../first` is not a valid case name"),
        (("--record", "frst"), "first"),
        (("notes", "--record", "first"), "remove the workflow"),
        (("--as", "locks"), "add `--record RUN`"),
    ):
        done = skillrun("test", *arguments)
        assert done.code == 2
        assert message in done.err
    assert (notes_project / "tests" / "notes" / "first.md").read_text() == "mine\n"
    assert sorted(path.name for path in (notes_project / "tests" / "notes").iterdir()) == ["first.md"]


@pytest.mark.row("A3")
def test_an_unfinished_run_cannot_be_recorded(notes_project: Path, skillrun: Call) -> None:
    state = notes_project / "runs" / "first" / "state.md"
    state.write_text(state.read_text().replace("status: completed", "status: interrupted"))
    done = skillrun("test", "--record", "first")
    assert done.code == 1
    assert "the run `first` has not ended: its status is interrupted" in done.err
    assert "skillrun resume first" in done.err
    assert not (notes_project / "tests").exists()


@pytest.mark.slow
@pytest.mark.row("A3")
def test_a_failed_recorded_case_shows_the_prompt_differences(
    notes_project: Path, skillrun: Call, tmp_path: Path
) -> None:
    done = skillrun("test", "--record", "first", "--as", "locks")
    assert "differ from the recording" not in done.out
    note = notes_project / "skills" / "notes" / "note.md"
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
    text = (notes_project / "tests" / "notes" / "locks.md").read_text()
    unused = text.replace("replies:\n", "replies:\n- {address: '*/nowhere/*', text: Lost.}\n", 1)
    (notes_project / "tests" / "notes" / "locks.md").write_text(unused)
    out = skillrun("test").out
    assert out.index("error[") < out.index("from the recording\n") < out.index("warning[untaken]"), (
        "failed expectations come first"
    )
    [result] = skillrun("test", "--json").json["cases"]
    first = result["prompts"][0]
    assert (first["address"], first["status"]) == ("notes/note/note/clerk/1.1", "differs")
    note.write_text(PHASE.replace("agent: [clerk, clerk:second], at_least: 1", "agent: clerk:first"))
    (notes_project / "roles" / "clerk.md").write_text(ROLE.replace("{second:", "{first: the main part, second:"))
    out = skillrun("test", "--prompts").out
    assert "note/clerk:first/1.1: not in the recording" in out
    assert "note/clerk/1.1: no longer sent" in out


@pytest.mark.slow
@pytest.mark.row("A3")
def test_an_invalid_prompts_file_is_reported(notes_project: Path, skillrun: Call) -> None:
    assert skillrun("test", "--record", "first", "--as", "locks").code == 0
    prompts_file = notes_project / "tests" / "notes" / "locks" / ".prompts.json"
    for text, message in (
        ("{}", "not a file of recorded prompts"),
        ("[1", "locks/.prompts.json: "),
        ('{"prompts": [{}], "texts": {}}', "no"),
    ):
        prompts_file.write_text(text)
        done = skillrun("test")
        assert done.code == 2
        assert message in done.out
        assert "remove this line, or record" in done.out
    prompts_file.unlink()
    assert skillrun("test").code == 2


@pytest.mark.slow
@pytest.mark.row("A3")
def test_long_replies_are_split_over_several_files(notes_project: Path, skillrun: Call) -> None:
    (notes_project / "script.yaml").write_text(
        "".join(
            f"- {{address: '*/{member}/*', text: '{letter * 480_000}'}}\n"
            for member, letter in (("clerk", "a"), ("clerk:second", "b"))
        )
    )
    command = ("notes", "locks", "--name", "long", "--script", "script.yaml", "--answers", "answers.yaml")
    assert skillrun(*command).code == 0
    done = skillrun("test", "--record", "long")
    assert done.code == 0, done.out[:2000] + done.err
    case = notes_project / "tests" / "notes" / "long.md"
    assert "- long/replies-1.yaml\n- long/replies-2.yaml\n" in case.read_text()
    assert case.stat().st_size < 10_000
    (notes_project / "tests" / "notes" / "long" / "replies-2.yaml").unlink()
    assert "long/replies-2.yaml: the file cannot be read" in skillrun("test").out


@pytest.mark.slow
@pytest.mark.row("A3")
def test_a_case_includes_the_files_read_from_another_run(notes_project: Path, skillrun: Call) -> None:
    phase = notes_project / "skills" / "notes" / "note.md"
    more = "  - {id: earlier, read: note.md, from: first}\n  - {id: again, write: again.md}\n"
    phase.write_text(
        PHASE.replace("---\n## note", f"{more}---\n## note")
        + "\n## again\n{{ earlier.text }}, from {{ earlier.files }}.\n"
    )
    command = ("notes", "keys", "--name", "other", "--script", "script.yaml", "--answers", "answers.yaml")
    assert skillrun(*command).code == 0
    done = skillrun("test", "--record", "other")
    assert done.code == 0, done.out + done.err
    copied = notes_project / "tests" / "notes" / "other" / ".runs" / "first" / "note.md"
    assert copied.read_text() == (notes_project / "runs" / "first" / "note.md").read_text()
    copied.write_text("# Another one\n")
    done = skillrun("test")
    assert done.code == 1
    assert "+# Another one\n" in done.out
    case = notes_project / "tests" / "notes" / "other.md"
    case.write_text(case.read_text().replace("runs: other/.runs\n", ""))
    assert "no run is named `first`" in skillrun("test").out
    case.write_text(case.read_text().replace("replies:", "runs: other/.gone\nreplies:"))
    assert skillrun("test").code == 2


USED_BY_TOOLS = [
    *("conftest.py", "test_it.py", "src/it_test.go", "setup.cfg", "pyproject.toml", "pytest.ini", "test-notes.txt"),
    *("test.yaml", "package.json", "AGENTS.md", "skill.md", "Makefile", "it.spec.ts", "data.JSON5", ".gitignore"),
]
UNUSED_BY_TOOLS = ["plan.md", "test-plan.md", "data/items.json", "items.csv", "notes.txt"]


@pytest.mark.slow
@pytest.mark.row("A3")
@pytest.mark.finding("FD5")
def test_no_program_that_scans_tests_runs_the_files_of_a_case(notes_project: Path, skillrun: Call) -> None:
    names = [*USED_BY_TOOLS, *UNUSED_BY_TOOLS, "conftest.py.md"]
    steps = "".join(f"  - {{id: w{number}, write: {name}}}\n" for number, name in enumerate(names))
    texts = "".join(f"## w{number}\nimport os\n" for number in range(len(names)))
    (notes_project / "skills" / "notes" / "note.md").write_text(f"---\nkind: phase\nsteps:\n{steps}---\n{texts}")
    done = skillrun("notes", "keys", "--name", "code", "--unattended", "--model", "scripted:default")
    assert done.code == 0, done.err
    done = skillrun("test", "--record", "code")
    assert (done.code, "does not include" in done.err) == (0, False), done.out + done.err
    folder = notes_project / "tests" / "notes" / "code"
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written - {".prompts.json"} == {f"{name}.md" for name in USED_BY_TOOLS} | {
        *UNUSED_BY_TOOLS,
        "conftest.py.md.md",
    }
    (folder / "setup.cfg.md").write_text("edited")
    assert "-edited" in skillrun("test").out, "the texts are compared"


@pytest.mark.slow
@pytest.mark.row("A3")
@pytest.mark.finding("FD5")
@pytest.mark.parametrize("name", ["conftest.py", "test_it.txt", ".envrc", "node/.npmrc", "AGENTS.md"])
def test_files_of_other_runs_that_programs_use_are_left_out(notes_project: Path, skillrun: Call, name: str) -> None:
    file = notes_project / "runs" / "first" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("import os\n")
    phase = notes_project / "skills" / "notes" / "note.md"
    phase.write_text(f"---\nkind: phase\nsteps:\n  - {{id: it, read: {name}, from: first}}\n---\n")
    done = skillrun("notes", "keys", "--name", "other", "--unattended", "--model", "scripted:default")
    assert done.code == 0, done.err
    done = skillrun("test", "--record", "other")
    assert f"the case does not include `{name}` of the run `first`: other programs, such as pytest" in done.err
    assert not [path for path in notes_project.glob("tests/**/*") if path.name == Path(name).name]
