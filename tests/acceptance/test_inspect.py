"""Commands that inspect runs and workflows: runs, show, logs, resume --preview, render, models, doctor, validate."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.local.journal import SqliteJournal
from skillrun.store.local.lock import LocalLease

Call = Callable[..., Any]
EXAMPLES = Path(__file__).parents[1] / "examples" / "valid"
SCRIPTED = ("--model", "scripted:default")


@pytest.fixture
def visit(project: Call, skillrun: Call) -> Any:
    """A project with a completed run of `visit`, in its second round."""
    folder = project("visit")
    (folder / "answers.yaml").write_text("where: the lake\n")
    assert skillrun("visit", "--answers", "answers.yaml", *SCRIPTED).code == 0
    return folder


def test_show_prints_the_history_of_a_run(visit: Any, skillrun: Call) -> None:
    (visit / "runs" / "visit" / "visit.md").write_text("mine\n")
    lines = skillrun("show", "visit").out.splitlines()
    assert lines[0] == "visit · visit · completed"
    phases = lines[lines.index("") :]
    table = [line.split()[:3] for line in lines if line.startswith(("choose ", "plan ", "check "))]
    assert table == [
        ["choose", "completed", "1"],
        ["plan", "completed", "1"],
        ["check", "went", "back"],
        ["plan", "completed", "2"],
        ["check", "completed", "2"],
    ]
    for line in (
        "  place: the lake",
        "  strong = scripted:default",
        "  choose: place = the lake",
        "  plan: outdoors = true",
        "  lunch: off, not in short mode",
        "  rain: off, not enabled",
        "  check (round 2): warning: The plan could be better.",
        "  check: back to plan, for round 2",
    ):
        assert line in phases
    assert lines[lines.index("edited:") + 1] == "  visit.md"
    assert lines[-1].startswith("4 calls, ")


@pytest.mark.row("P15")
def test_show_keeps_the_features_of_the_run_when_the_files_change(visit: Any, skillrun: Call) -> None:
    before = skillrun("show", "visit").out
    for file in (visit / "config").iterdir():
        file.write_text(file.read_text().replace("enabled: false", "enabled: true"))
    assert skillrun("show", "visit").out == before
    features = skillrun("show", "visit", "--json").json["features"]
    assert {"name": "rain", "on": False, "because": "not enabled"} in features


def test_show_shortens_long_values(visit: Any, skillrun: Call) -> None:
    summary = visit / "runs" / "visit" / "summaries" / "plan.md"
    text = summary.read_text()
    items = [f"item {number} of a long list" for number in range(12)]
    record = {"level": "low", "score": 0.2, "empty": [], "items": items}
    outputs = json.dumps({"items": items, "record": record, "text": "word " * 40})
    changed = re.sub(r"^outputs:.*\n(?:  .*\n|- .*\n)*", f"outputs: {outputs}\n", text, flags=re.MULTILINE)
    assert changed != text
    summary.write_text(changed)
    line = next(
        line for line in skillrun("show", "visit").out.splitlines() if line.startswith("  plan (round 2): items")
    )
    assert line == (
        f"  plan (round 2): items = 12 items; record = {{level: low, score: 0.2}}; text = {('word ' * 40)[:100]}…"
    )


def test_a_run_is_found_by_the_path_of_its_folder(visit: Any, skillrun: Call) -> None:
    assert skillrun("show", "runs/visit").out == skillrun("show", "visit").out
    done = skillrun("show", "vist")
    assert (done.code, done.err.splitlines()[1]) == (2, "hint: did you mean `visit`?")


def test_runs_lists_the_runs(visit: Any, skillrun: Call) -> None:
    header, row = skillrun("runs").out.splitlines()
    assert header.split() == ["run", "workflow", "status", "phase", "round", "started", "request"]
    assert row.split()[:4] == ["visit", "visit", "completed", "2"]
    row = skillrun("runs", "--json").json[0]
    assert (row["run"], row["round"]) == ("visit", 2)
    assert skillrun("runs", "--out", "another").out == "there are no runs in another\n"


def test_logs_shows_the_events(visit: Any, skillrun: Call) -> None:
    lines = [line.split("  ", 1)[1] for line in skillrun("logs", "visit").out.splitlines()]
    assert "choose: answered from the prepared answers: where = the lake" in lines
    assert "check: back to plan, for round 2" in lines
    assert lines[-1] == "completed"
    assert skillrun("logs", "visit", "-f").out.endswith("completed\n")
    events = [json.loads(line) for line in skillrun("logs", "visit", "--json").out.splitlines()]
    assert events[-1]["event"] == "RunEnded"


def test_show_prints_values_as_yaml(project: Call, skillrun: Call) -> None:
    project("greeting")
    skillrun("greeting", "Ada", "--no-loud", "--topics", "tea", *SCRIPTED)
    lines = skillrun("show", "ada").out.splitlines()
    assert lines[lines.index("inputs:") + 1 : lines.index("state:") - 1] == [
        "  person: Ada",
        "  tone: warm",
        "  loud: false",
        "  topics: [tea]",
    ]


@pytest.fixture
def waiting(project: Call, skillrun: Call) -> Any:
    """A project with a run of `greeting` that waits for an answer after its first call."""
    folder = project("greeting")
    draft = folder / "skills" / "greeting" / "draft.md"
    draft.write_text(draft.read_text().replace("outputs:", "  - {id: fine, ask: 'Is it fine?'}\noutputs:"))
    assert skillrun("greeting", "Ada", *SCRIPTED).code == 75
    (folder / "answers.yaml").write_text("fine: it is\n")
    return folder


SURE: Final = """---
kind: phase
description: Draft it and be sure.
steps:
  - {id: sure, ask: Is it sure?, choices: [yes, no]}
  - {say: This may be wrong., level: warn}
  - {id: first, agent: writer, writes: first.md}
  - {id: second, agent: writer}
outputs:
  fine: "{{ sure.answer }}"
---
## first
The first.
## second
The second.
"""


@pytest.fixture
def asking(project: Call) -> Any:
    """A project whose workflow starts with a question, a warning and two calls."""
    folder = project("greeting")
    (folder / "skills" / "greeting" / "sure.md").write_text(SURE)
    (folder / "workflows" / "unsure.md").write_text(
        "---\nname: unsure\ndescription: Be sure.\nphases:\n  sure: {skill: greeting/sure}\n---\nIs sure.\n"
    )
    (folder / "answers.yaml").write_text("sure: yes\n")
    return folder


def read_open_phase(shown: Any) -> Any:
    (one,) = shown["phases"]
    return one["phase"], one["status"], one["usage"].get("calls"), one["warnings"], one["artifacts"]


def test_show_includes_the_phase_that_a_spent_budget_stopped(asking: Any, skillrun: Call) -> None:
    run = ("--answers", "answers.yaml", "--budget", "calls=1", "--name", "it", *SCRIPTED)
    assert skillrun("unsure", *run).code == 75
    shown = skillrun("show", "it", "--json").json
    assert read_open_phase(shown) == ("sure", "waiting", 1, ["This may be wrong."], ["first.md"])
    assert {one["text"] for one in shown["happened"]} == {
        "answered from the prepared answers: sure = yes",
        "warning: This may be wrong.",
    }
    lines = skillrun("show", "it").out.splitlines()
    assert next(line for line in lines if line.startswith("sure ")).split()[:4] == ["sure", "waiting", "1", "1"]


def test_show_includes_the_phase_in_which_a_run_was_killed(asking: Any, skillrun: Call) -> None:
    run = ("--answers", "answers.yaml", "--budget", "calls=1", "--name", "it", *SCRIPTED)
    assert skillrun("unsure", *run).code == 75
    state = asking / "runs" / "it" / "state.md"
    state.write_text(
        re.sub("^reason: .*\n", "", state.read_text().replace("status: waiting", "status: running"), flags=re.MULTILINE)
    )
    shown = skillrun("show", "it", "--json").json
    assert read_open_phase(shown) == ("sure", "interrupted", 1, ["This may be wrong."], ["first.md"])
    with LocalLease(ConfinedFolder(asking / "runs" / "it")).hold():
        shown = skillrun("show", "it", "--json").json
    assert read_open_phase(shown)[:2] == ("sure", "running")


def test_a_resumed_phase_has_the_status_of_its_run(asking: Any, skillrun: Call) -> None:
    assert skillrun("unsure", "--name", "it", *SCRIPTED).code == 75
    (one,) = skillrun("show", "it", "--json").json["phases"]
    assert one["status"] == "needs-user-input"
    assert skillrun("resume", "it", "--answers", "answers.yaml", "--budget", "calls=1").code == 75
    (one,) = skillrun("show", "it", "--json").json["phases"]
    assert (one["status"], one["flags"]) == ("waiting", {})


def test_an_interrupted_run_is_reported_as_interrupted_once(asking: Any, skillrun: Call) -> None:
    run = ("--answers", "answers.yaml", "--budget", "calls=1", "--name", "it", *SCRIPTED)
    assert skillrun("unsure", *run).code == 75
    state = asking / "runs" / "it" / "state.md"
    text = re.sub("^reason: .*$", "reason: interrupted", state.read_text(), flags=re.MULTILINE)
    state.write_text(text.replace("status: waiting", "status: interrupted"))
    assert skillrun("show", "it").out.startswith("it · unsure · interrupted\n")


def test_show_lists_manually_removed_artifacts(visit: Any, skillrun: Call) -> None:
    assert skillrun("show", "visit", "--json").json["removed_by_hand"] == []
    (visit / "runs" / "visit" / "visit.md").unlink()
    lines = skillrun("show", "visit").out.splitlines()
    assert lines[lines.index("edited:") + 1] == "  visit.md (removed)"
    shown = skillrun("show", "visit", "--json").json
    assert (shown["changed_by_hand"], shown["removed_by_hand"]) == ([], ["visit.md"])


def test_calls_without_a_reply_are_counted_separately(asking: Any, skillrun: Call) -> None:
    (asking / "script.yaml").write_text("- {address: '*/second/*', fail: invalid_request, message: no}\n")
    done = skillrun("unsure", "--answers", "answers.yaml", "--name", "it", "--script", "script.yaml")
    assert done.code == 1
    lost = skillrun("show", "it", "--json").json["usage"]["without_answer"]
    assert lost > 0
    assert f"$0.00; {lost} more without a reply" in done.out
    assert skillrun("show", "it").out.splitlines()[-2].endswith(f"; {lost} more without a reply")
    spent = skillrun("resume", "it", "--answers", "answers.yaml", "--budget", f"calls={1 + lost}")
    assert f"the budget of {1 + lost} calls is spent" in spent.out  # it counts the same calls


def test_resume_lists_the_calls_that_an_edit_repeats_and_asks_for_confirmation(waiting: Any, skillrun: Call) -> None:
    draft = waiting / "skills" / "greeting" / "draft.md"
    draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
    done = skillrun("resume", "ada", "--answers", "answers.yaml")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("changed since the run last executed: skills/greeting/draft.md\n")
    assert "  greeting/draft/words/writer/1.1 (scripted:default, " in done.err
    assert "`skillrun resume ada --answers answers.yaml --yes`" in done.err
    done = skillrun("resume", "ada", "--preview")
    assert (done.code, "called again" in done.out) == (0, True)
    done = skillrun("resume", "ada", "--yes", "--answers", "answers.yaml", "--json")
    assert (done.code, done.json["usage"]["calls"]) == (0, 3)


def test_resume_continues_when_an_edit_repeats_no_call(waiting: Any, skillrun: Call) -> None:
    send = waiting / "skills" / "greeting" / "send.md"
    send.write_text(send.read_text().replace("To ", "For "))
    assert skillrun("resume", "ada", "--answers", "answers.yaml").code == 0
    assert (waiting / "runs" / "ada" / "envelope.md").read_text().startswith("For Ada")


def test_render_shows_a_prompt_as_it_would_be_sent(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    done = skillrun("render", "greeting", "draft", "words", "-i", "person=Ada", "-i", "topics=tea", *SCRIPTED)
    assert done.code == 0
    assert done.out.startswith("greeting/draft/words/writer/1.1 · scripted:default · reply limit ")
    assert "Greet Ada in a warm tone, in 2 lines.\nMention tea." in done.out
    assert "You write greetings." in done.out
    skillrun("greeting", "Ada", "--topics", "tea", *SCRIPTED)
    shown = skillrun(
        "render", "greeting", "draft", "words", "-i", "person=Ada", "-i", "topics=tea", "--json", *SCRIPTED
    )
    request = shown.json
    assert request.pop("address") == "greeting/draft/words/writer/1.1"
    assert request == _sent_request(folder / "runs" / "ada", "greeting/draft/words/writer/1.1")


def test_render_lists_the_prompts(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("render", "greeting", "draft", "wrds")
    assert done.code == 1
    assert "greeting/draft/words/writer/1.1" in done.err
    assert "did you mean `draft`?" in skillrun("render", "greeting", "draf").err


def test_models_shows_what_each_name_means(project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    project()
    found = {one["name"]: one for one in skillrun("models", "--json").json}
    assert found["strong"]["model"] == "embedded:smollm2-135m"
    assert "no provider key is set" in found["strong"]["why"]
    monkeypatch.setenv("SKILLRUN_MODEL", "scripted:default")
    assert "scripted:default" in skillrun("models", "fast").out
    assert skillrun("models", "nobody-knows-this").code == 1


@pytest.mark.slow
def test_doctor_reports_that_a_key_is_set_and_not_its_value(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    project()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-value")
    done = skillrun("doctor")
    assert done.code == 0
    assert "ANTHROPIC_API_KEY  set" in done.out
    assert "sk-secret-value" not in done.out + done.err
    assert "no problems" in done.out


def test_doctor_warns_about_a_distribution_that_overwrites_this_one(
    project: Call, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project("greeting")
    other = tmp_path / "site" / "skillrun-0.0.6.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.4\nName: skillrun\nVersion: 0.0.6\n")
    monkeypatch.syspath_prepend(other.parent)
    done = skillrun("doctor", "--json")
    (warning,) = [one for one in done.json if one["state"] == "warning"]
    assert (done.code, warning["text"].split(" is ")[0]) == (0, "skillrun 0.0.6")
    assert "pip uninstall skillrun" in warning["hint"]


def test_a_dry_run_counts_the_calls_that_summarise_a_phase(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("greeting", "Ada", "--model", "scripted:default", "--dry-run")
    assert "1 of the calls summarises a phase for the phases after it" in done.out


def test_without_a_key_and_the_local_model_doctor_and_a_run_suggest_a_fix(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project("greeting")
    monkeypatch.setattr("skillrun.installation.find_spec", lambda _name: None)
    done = skillrun("doctor", "--json")
    missing = [one["what"] for one in done.json if one["state"] == "missing"]
    assert (done.code, missing) == (1, ["strong", "fast", "critic"])
    (outlines,) = (one for one in done.json if one["what"] == "outlines")
    assert (outlines["state"], outlines["text"]) == ("note", "not installed")
    assert outlines["hint"].startswith("to show models what source files define: `")
    done = skillrun("greeting", "Ada", "--unattended")
    assert (done.code, "it is embedded:smollm2-135m, which needs xllamacpp" in done.err) == (1, True)
    assert "hint: set ANTHROPIC_API_KEY or OPENAI_API_KEY" in done.err
    assert not (folder / "runs").exists()
    assert skillrun("greeting", "Ada", "--unattended", "--dry-run").code == 0


@pytest.mark.slow
def test_doctor_fails_on_a_broken_library(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    (folder / "workflows" / "greeting.md").write_text("---\nphases: 5\n---\n")
    done = skillrun("doctor", "--json")
    assert done.code == 1
    assert [one["what"] for one in done.json if one["state"] == "missing"] == ["library"]


@pytest.mark.slow
@pytest.mark.row("X2")
def test_validate_reports_each_problem_with_its_position(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    assert skillrun("validate").out.startswith("0 errors, 0 warnings in ")
    send = folder / "skills" / "greeting" / "send.md"
    send.write_text(send.read_text().replace("outputs:", "output:"))
    (folder / "roles" / "writer.md").write_text("---\nname: writer\nskills: [poetry]\n---\nYou write.\n")
    done = skillrun("validate", str(folder))
    assert done.code == 1
    assert done.out.startswith("roles/writer.md:3:10: error[unknown-skill]: there is no skill `poetry`\n")
    assert "skills/greeting/send.md:6:1: error[unknown-key]: unknown key `output`\n  output:\n  ^\nhint: " in done.out
    shown = skillrun("validate", "--json").json
    assert {(one["path"], one["line"]) for one in shown["problems"]} >= {
        ("roles/writer.md", 3),
        ("skills/greeting/send.md", 6),
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(path.name for path in EXAMPLES.iterdir()))
def test_every_valid_example_is_valid(project: Call, skillrun: Call, case: str) -> None:
    project(case)
    done = skillrun("validate", "--strict")
    assert done.code == 0, done.out


@pytest.mark.slow
def test_validate_fails_on_warnings_when_it_is_strict(project: Call, skillrun: Call) -> None:
    folder = project("greeting")
    text = (folder / "skills" / "greeting" / "send.md").read_text()
    (folder / "skills" / "greeting" / "spare.md").write_text(
        text.replace("phases.draft.outputs.words", "inputs.person")
    )
    assert "warning[unused-phase]" in skillrun("validate").out
    assert skillrun("validate").code == 0
    assert skillrun("validate", "--strict").code == 1


@pytest.mark.slow
@pytest.mark.row("X1", "X2")
@pytest.mark.parametrize("name", ["runs", "validate", "list"])
def test_a_workflow_named_like_a_command_is_a_problem(project: Call, skillrun: Call, name: str) -> None:
    folder = project("greeting")
    text = (folder / "workflows" / "greeting.md").read_text()
    (folder / "workflows" / f"{name}.md").write_text(
        text.replace("name: greeting", f"name: {name}").replace("  draft:\n", "  draft: {skill: greeting/draft}\n")
    )
    done = skillrun("validate")
    assert done.code == 1
    assert f"workflows/{name}.md:2:" in done.out
    assert f"`{name}` is a command of skillrun" in done.out


def _sent_request(folder: Any, address: str) -> dict[str, Any]:

    journal = SqliteJournal.open(folder)
    try:
        body = next((entry.body for entry in journal.entries("sent") if entry.address == address), None)
    finally:
        journal.close()
    assert body is not None
    return body


@pytest.mark.row("P15")
def test_a_report_with_too_many_long_prompts_leaves_out_the_last_calls(
    visit: Any, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillrun.store.rows.MAX_TEXTS", 100)
    monkeypatch.setattr("skillrun.extensions.report.report_data.MAX_CALL_CHARS", 1_000)
    done = skillrun("report", "visit", "--output", "page.html")
    assert done.code == 0
    assert re.search(r"more than 1,000 characters; the report leaves out the last \d of 4 calls", done.err), done.err
    assert len(json.loads(skillrun("show", "visit", "plan", "--json").out)["calls"]) == 2


@pytest.mark.row("P15")
@pytest.mark.parametrize(("limit", "value"), [("MAX_RECORDS", 10), ("Journal.max_bytes", 2_000)])
def test_a_run_whose_journal_is_full_stops_and_stays_readable(
    visit: Any, skillrun: Call, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    with monkeypatch.context() as limits:
        limits.setattr(f"skillrun.store.journal.{limit}", value)
        done = skillrun("visit", "--answers", "answers.yaml", "--name", "full", *SCRIPTED)
    assert (done.code, "so no call is sent" in done.out) == (1, True), done
    shown = skillrun("show", "full")
    assert (shown.code, "failed" in shown.out) == (0, True)
    assert skillrun("resume", "full", "--answers", "answers.yaml").code == 0
