"""Runs from the command line: inputs, refusals before the start, outcomes and output."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.launcher import start_skillrun

Call = Callable[..., Any]
SCRIPTED = ("--model", "scripted:default")


@pytest.mark.row("X1")
def test_a_workflow_runs_with_its_inputs_as_argument_and_flags(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    done = skillrun(
        "greeting", "Ada", "--tone", "formal", "--loud", "--topics", "tea", "--topics", "the sea", *SCRIPTED
    )
    assert done.code == 0
    record = skillrun("show", "ada", "--json").json
    assert record["inputs"] == {"person": "Ada", "tone": "formal", "loud": True, "topics": ["tea", "the sea"]}
    assert (folder / "runs" / "ada" / "envelope.md").read_text().startswith("To Ada:\n\n# ")


def test_a_run_prints_its_models_progress_and_next_command(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    lines = skillrun("greeting", "Ada", *SCRIPTED).out.splitlines()
    assert lines[:4] == [
        f"starting ada in {folder}/runs/ada",
        "models: strong = scripted:default, fast = scripted:default",
        "draft: started",
        "draft: A warm greeting for Ada.",
    ]
    end = lines[lines.index("completed") :]
    assert end[:4] == ["completed", f"folder: {folder}/runs/ada", "  greeting.md", "  envelope.md"]
    assert end[4].startswith("2 calls, ")
    assert end[4].endswith(", $0.00")
    assert end[5] == "next: `skillrun show ada` shows the details"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "`person` is missing"),
        (["Ada", "--tone", "wrm"], "`tone` is `wrm`; did you mean `warm`?"),
        (["Ada", "--lines", "9"], "from 1 to 5"),
        (["Ada", "--budget", "call=1"], "`call` is not a valid budget; did you mean `calls`?"),
        (["Ada", "--budget", "calls=-1"], "`calls` cannot be `-1`; use a number from 0 to 10^18"),
        (["Ada", "--budget", "price=nan"], "`price` cannot be `nan`; use a number from 0 to 10^18"),
        (["-Ada"], "write a text that begins with `-` after `--`: `skillrun greeting -- TEXT`"),
        (["Ada \udcff"], "`person` is not UTF-8"),
        (["Ada", "Lovelace"], "put a text of several words in quotes"),
        (["Ada", "--name", "Not a slug"], "`Not a slug` is not a valid name"),
    ],
)
def test_invalid_arguments_are_refused_with_the_allowed_values(
    project: Call, skillrun: Call, arguments: list[str], message: str
) -> None:
    folder = project("greeting")
    done = skillrun("greeting", *arguments, *SCRIPTED)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not (folder / "runs").exists()


@pytest.mark.row("X2")
def test_every_problem_is_shown_and_nothing_is_started(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    draft, send = folder / "skills" / "greeting" / "draft.md", folder / "skills" / "greeting" / "send.md"
    draft.write_text(draft.read_text().replace("inputs.person }} in", "inputs.persn }} in"))
    send.write_text(send.read_text().replace("phases.draft", "phases.draff"))
    done = skillrun("greeting", "Ada", *SCRIPTED)
    assert (done.code, done.out) == (1, "")
    assert "skills/greeting/draft.md:13:" in done.err
    assert "skills/greeting/send.md:13:" in done.err
    assert done.err.endswith("Nothing was run and nothing was spent.\n")
    assert not (folder / "runs").exists()
    assert {problem["path"] for problem in skillrun("greeting", "Ada", "--json").json["problems"]} == {
        "skills/greeting/draft.md",
        "skills/greeting/send.md",
    }


def test_json_is_alone_on_standard_output(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("greeting", "Ada", "--json", *SCRIPTED)
    record = done.json
    assert {key: record[key] for key in ("run", "workflow", "status", "exit_code", "artifacts")} == {
        "run": "ada",
        "workflow": "greeting",
        "status": "completed",
        "exit_code": 0,
        "artifacts": ["greeting.md", "envelope.md"],
    }
    assert record["usage"]["calls"] == 2
    assert "draft: started" in done.err


@pytest.mark.slow
def test_a_run_waits_for_an_answer_and_resumes_with_prepared_answers(project: Call, skillrun: Call) -> None:
    folder = project("visit")
    done = skillrun("visit", *SCRIPTED)
    assert done.code == 75
    assert "waiting: choose has a question: Where do you want to go? (the museum, the lake)" in done.out
    assert "resume with `skillrun resume visit`" in done.out.splitlines()[-1]
    (folder / "answers.yaml").write_text("choose/where: the lake\n")
    done = skillrun("resume", "visit", "--answers", "answers.yaml")
    assert done.code == 0
    assert "choose: answered from the prepared answers: where = the lake" in done.out
    assert "Planned in 2 rounds." in (folder / "runs" / "visit" / "note.md").read_text()


def test_an_unused_prepared_answer_is_reported(project: Call, skillrun: Call) -> None:
    folder = project("visit")
    (folder / "answers.yaml").write_text("where: the lake\nwere: the lake\n")
    done = skillrun("visit", "--answers", "answers.yaml", *SCRIPTED)
    assert [line for line in done.out.splitlines() if "no question used" in line] == [
        "warning: no question used the prepared answer `were`"
    ]


@pytest.mark.finding("FL9")
def test_an_unused_script_reply_is_reported(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    (folder / "script.yaml").write_text(
        "- {address: 'greeting/draft/*', text: Hello.}\n- {address: '*/darft/*', text: So}\n"
    )
    done = skillrun("greeting", "Ada", "--script", "script.yaml")
    assert done.code == 0
    assert done.err == "warning: no call used the script's reply for `*/darft/*`\n"


@pytest.mark.parametrize("arguments", [("--model", "gpt-99"), ("--out", "/proc/nothing", *SCRIPTED)])
def test_a_run_that_cannot_work_is_a_plain_error_and_creates_no_files(
    project: Call, skillrun: Call, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project("greeting")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = skillrun("greeting", "Ada", *arguments)
    assert done.code == 1
    assert done.err.startswith("error: ")
    assert "bug" not in done.err
    assert not (folder / "runs").exists()


@pytest.mark.slow
def test_a_run_continues_when_its_output_is_closed(project: Call, skillrun: Call) -> None:
    project("greeting")
    with start_skillrun("greeting", "Ada", *SCRIPTED, stdout=PIPE, stderr=PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        errors = run.stderr.read()
    assert (run.returncode, errors) == (0, "the output was closed; the run continues\n")
    assert skillrun("show", "ada", "--json").json["status"] == "completed"


def test_resuming_a_completed_run_changes_nothing(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    skillrun("greeting", "Ada", *SCRIPTED)
    state = (folder / "runs" / "ada" / "state.md").read_bytes()
    draft = folder / "skills" / "greeting" / "draft.md"
    draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
    done = skillrun("resume", "ada")
    assert (done.code, done.out.splitlines()[0]) == (0, "ada is completed; `skillrun show ada` shows the details")
    assert (folder / "runs" / "ada" / "state.md").read_bytes() == state


@pytest.mark.row("X6")
def test_an_unattended_run_with_questions_is_refused_before_it_starts(project: Call, skillrun: Call) -> None:
    folder = project("visit")
    done = skillrun("visit", "--unattended", *SCRIPTED)
    assert (done.code, done.out) == (1, "")
    assert "skills/visit/choose.md:" in done.err
    assert not (folder / "runs").exists()
    (folder / "answers.yaml").write_text("where: the museum\n")
    assert skillrun("visit", "--unattended", "--answers", "answers.yaml", *SCRIPTED).code == 0


def test_a_failed_run_gives_the_reason_and_the_resume_command(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    (folder / "script.yaml").write_text(
        "- {address: 'greeting/draft/words/*', fail: invalid_request, message: no such luck}\n"
    )
    done = skillrun("greeting", "Ada", "--script", "script.yaml")
    assert done.code == 1
    assert "failed: draft: " in done.out
    assert "no such luck" in done.out
    assert "skillrun resume ada" in done.out.splitlines()[-1]
    assert skillrun("runs").out.splitlines()[1].split()[:3] == ["ada", "greeting", "failed"]
    (folder / "script.yaml").write_text("- {address: 'greeting/draft/words/*', text: Hello Ada}\n")
    assert skillrun("resume", "ada", "--script", "script.yaml").code == 0
    assert (folder / "runs" / "ada" / "greeting.md").read_text() == "Hello Ada\n"


def test_an_exhausted_budget_pauses_the_run(project: Call, skillrun: Call) -> None:
    folder = project("visit")
    (folder / "answers.yaml").write_text("where: the lake\n")
    done = skillrun("visit", "--answers", "answers.yaml", "--budget", "calls=1", *SCRIPTED)
    assert done.code == 75
    assert "skillrun resume visit --answers answers.yaml --budget calls=2" in done.out
    done = skillrun("resume", "visit", "--budget", "calls=9", "--json")
    assert (done.code, done.json["usage"]["calls"]) == (0, 4)


def test_model_output_cannot_control_the_terminal(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    draft = folder / "skills" / "greeting" / "draft.md"
    draft.write_text(draft.read_text().replace("outputs:", "  - {say: 'It says {{ words.text }}'}\noutputs:"))
    (folder / "script.yaml").write_text(
        '- {address: "greeting/draft/words/*", text: "\\e[2J\\e]0;title\\aHello \\u202eAda\\u2069 \\b\\x07there"}\n'
    )
    done = skillrun("greeting", "Ada", "--script", "script.yaml")
    assert "draft: It says Hello Ada there\n" in done.out
    assert not set("\x1b\x07\x08\u202e\u2069") & set(
        done.out + skillrun("logs", "ada").out + skillrun("show", "ada").out
    )


def test_a_script_with_an_unknown_key_is_refused(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    (folder / "script.yaml").write_text("- {adress: '*', text: x}\n")
    done = skillrun("greeting", "Ada", "--script", "script.yaml")
    assert done.code == 1
    assert "unknown key `adress`" in done.err
    assert "did you mean `address`?" in done.err


@pytest.mark.slow
def test_the_same_name_twice_is_refused(project: Call, skillrun: Call) -> None:
    project("greeting")
    skillrun("greeting", "Ada", "--name", "first", *SCRIPTED)
    done = skillrun("greeting", "Ada", "--name", "first", *SCRIPTED)
    assert done.code == 2
    assert "`skillrun resume first`" in done.err
    assert "runs/ada" in skillrun("greeting", "Ada", *SCRIPTED).out
    assert "runs/ada-2" in skillrun("greeting", "Ada", *SCRIPTED).out


@pytest.mark.slow
@pytest.mark.row("X4")
def test_ctrl_c_keeps_completed_calls_and_resume_makes_only_the_rest(project: Call, skillrun: Call) -> None:
    folder = project("visit")
    (folder / "script.yaml").write_text("- {address: 'visit/plan/summary/*', delay: 60}\n")
    (folder / "answers.yaml").write_text("where: the lake\n")
    answers = ("--answers", "answers.yaml")
    command = ("visit", *answers, "--script", "script.yaml")
    with start_skillrun(*command, unbuffered=True, stdout=PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("plan: wrote"):
                break
        end = time.monotonic() + 30
        while "visit/plan/summary" not in _transcript(folder) and time.monotonic() < end:
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        rest = run.stdout.read()
    assert run.returncode == 130
    assert rest.endswith("next: resume with `skillrun resume visit --answers answers.yaml --script script.yaml`\n")
    assert skillrun("runs").out.splitlines()[1].split()[:3] == ["visit", "visit", "interrupted"]
    done = skillrun("resume", "visit", "--json")
    assert done.code == 0
    assert "its reply is unknown" in done.err
    calls = [line for line in _transcript(folder).splitlines() if '"CallStarted"' in line]
    assert sum("steps" in line for line in calls) == 2, "once in each round"


def _transcript(folder: Path) -> str:
    return (folder / "runs" / "visit" / ".run" / "transcript.ndjson").read_text()


def test_a_new_version_does_not_overwrite_edited_files(project: Call, skillrun: Call) -> None:
    folder = project()
    for path, text in {
        "workflows/log.md": "---\nname: log\ninputs: {topic: string}\nphases:\n  first:\n  second:\n---\n",
        "skills/log/first.md": "---\nkind: phase\nsteps:\n  - {id: note, write: notes.md}\n---\n## note\nOne.\n",
        "skills/log/second.md": (
            "---\nkind: phase\nsteps:\n  - {id: sure, ask: Continue?}\n"
            "  - {id: note, write: notes.md}\n---\n## note\nTwo.\n"
        ),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    run = folder / "runs" / "r"
    assert skillrun("log", "tea", "--name", "r", *SCRIPTED).code == 75
    (run / "notes.md").write_text("Mine.\n", encoding="utf-8")
    (run / "notes.new.md").write_text("Mine as well.\n", encoding="utf-8")
    (folder / "answers.yaml").write_text("sure: yes\nkeep-notes.md: keep mine\n", encoding="utf-8")
    done = skillrun("resume", "r", "--answers", "answers.yaml")
    assert done.code == 0, done.out + done.err
    assert "notes.md was edited manually and is kept; the new version is in notes.new-2.md" in done.out
    texts = {path.name: path.read_text(encoding="utf-8") for path in run.glob("notes*")}
    assert texts == {"notes.md": "Mine.\n", "notes.new.md": "Mine as well.\n", "notes.new-2.md": "Two.\n"}


def test_an_edited_file_is_asked_about_again_for_each_new_version(project: Call, skillrun: Call) -> None:
    folder = project()
    second = "---\nkind: phase\nsteps:\n  - {id: note, write: notes.md}\n  - {id: sure, ask: Sure?}\n---\n## note\n"
    for path, text in {
        "workflows/log.md": "---\nname: log\ninputs: {topic: string}\nphases:\n  first:\n  second:\n---\n",
        "skills/log/first.md": "---\nkind: phase\nsteps:\n  - {id: note, write: notes.md}\n"
        "  - {id: go, ask: Continue?}\n---\n## note\nOne.\n",
        "skills/log/second.md": f"{second}Two.\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    notes = folder / "runs" / "r" / "notes.md"
    assert skillrun("log", "tea", "--name", "r", *SCRIPTED).code == 75
    notes.write_text("Mine.\n", encoding="utf-8")
    (folder / "answers.yaml").write_text("go: yes\nkeep-notes.md: take the new one\n", encoding="utf-8")
    assert skillrun("resume", "r", "--answers", "answers.yaml").code == 75
    assert notes.read_text(encoding="utf-8") == "Two.\n"
    notes.write_text("Mine again.\n", encoding="utf-8")
    (folder / "skills" / "log" / "second.md").write_text(f"{second}Three.\n", encoding="utf-8")
    done = skillrun("resume", "r")
    assert "notes.md was edited manually" in done.out, done.out
    assert notes.read_text(encoding="utf-8") == "Mine again.\n"


@pytest.mark.slow
def test_a_run_with_a_different_request_is_not_reported_as_a_duplicate(project: Call, skillrun: Call) -> None:
    project("greeting")
    assert skillrun("greeting", "tea", *SCRIPTED, "--budget", "calls=1").code == 75
    assert "the same request" not in skillrun("greeting", "tea time", *SCRIPTED).err
    assert "the run `tea` has the same request" in skillrun("greeting", "tea", *SCRIPTED).err


@pytest.mark.finding("FD7")
@pytest.mark.parametrize("limit", ["9" * 400, "-1", "true", "lots"])
def test_a_configured_budget_is_a_number_that_a_run_can_compare(project: Any, skillrun: Any, limit: str) -> None:
    folder = project("greeting")
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "skillrun.yaml").write_text(f"budgets: {{calls: {limit}}}\n")
    done = skillrun("greeting", "Ada", "--model", "scripted:default")
    assert done.code == 1
    assert done.err.count("config/skillrun.yaml:1:18: error[type]") == 1
