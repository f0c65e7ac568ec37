"""`dev`: saves during a turn, spending limits, `--to`, projects that are broken at the start, and rounds."""

import json
import re
import sqlite3
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import Call, Make
from tests.acceptance.dev.conftest import SCRIPT, Watch, edit
from tests.servers import openai
from tests.servers.wire import Answer, Wire, WireRequest, serve

WATCHING = "\nwatching for changes, Ctrl-C quits\n"


@pytest.fixture
def pair(project: Make) -> Path:
    folder = project("pair")
    (folder / "script.yaml").write_text(SCRIPT)
    return folder


def sent_addresses(run: Path) -> list[str]:
    """The addresses of the sent calls in the journal, in order."""
    with sqlite3.connect(run / ".run" / "journal.db") as journal:
        rows = journal.execute("SELECT address FROM records WHERE kind = 'sent' ORDER BY seq").fetchall()
    return [address for (address,) in rows]


@pytest.mark.slow
@pytest.mark.row("A1")
def test_a_save_cancels_obsolete_calls_and_keeps_the_others(pair: Path, watch: Watch, skillrun: Call) -> None:
    (pair / "script.yaml").write_text(SCRIPT.replace("delay: 0.3", "delay: 1.5").replace("delay: 2", "delay: 2.5"))
    dev = watch("pair", "tea", "--script", "script.yaml")
    dev.until(r"makes 2 calls")
    dev.until(r"left/draft/writer, right/draft/writer\n")
    time.sleep(0.3)
    edit(pair / "skills" / "pair" / "left.md", "Write the left", "Kindly write the left")
    output = dev.until(WATCHING)
    assert "cancelled: pair/left/draft/writer/1.1, obsolete\n" in output
    assert "kept: pair/right/draft/writer/1.1, still in progress\n" in output
    assert "makes 1 call, " in output
    assert "0 reused, 2 made; 2 artifacts changed" in output
    assert dev.end() == 130
    run = pair / "runs" / "dev-pair"
    assert sorted(sent_addresses(run)) == [f"pair/{side}/draft/writer/1.1" for side in ("left", "left", "right")]
    assert (run / "right.md").read_text() == "Score 4: good\n", "the reply to the call of the first turn"
    calls = skillrun("show", "dev-pair", "left", "draft", "--version", "1", "--json").json["calls"]
    assert [call["turns"][0]["status"] for call in calls] == ["unanswered"]


def test_the_next_command_of_a_run_that_has_failed_has_its_script(pair: Path, watch: Watch, skillrun: Call) -> None:
    (pair / "script.yaml").write_text('- {address: "*/left/*", fail: invalid_request}\n')
    dev = watch("pair", "tea", "--script", "script.yaml")
    dev.until(r"next: [^\n]*`skillrun resume dev-pair --script script.yaml`\n")
    assert skillrun("show", "dev-pair").out.endswith("`skillrun resume dev-pair --script script.yaml`\n")


@pytest.mark.slow
@pytest.mark.row("A1")
def test_a_broken_save_does_not_affect_the_running_turn(pair: Path, watch: Watch) -> None:
    dev = watch("pair", "tea", "--script", "script.yaml")
    dev.until(r"left/draft/writer, right/draft/writer\n")
    edit(pair / "skills" / "pair" / "choice.md", "which.answer", "which.answr")
    output = dev.until(WATCHING)
    assert "still using the last valid version" in output
    assert "0 reused, 2 made; 2 artifacts changed" in output
    assert len(sent_addresses(pair / "runs" / "dev-pair")) == 2


@pytest.mark.slow
@pytest.mark.row("A1")
def test_a_project_that_is_broken_at_the_start_is_watched_until_it_is_fixed(pair: Path, watch: Watch) -> None:
    choice, workflow = pair / "skills" / "pair" / "choice.md", pair / "workflows" / "pair.md"
    edit(choice, "which.answer", "which.answr")
    whole = workflow.read_text()
    edit(workflow, "phases:", "phases: [")
    dev = watch("pair", "tea", "--script", "script.yaml")
    output = dev.until(WATCHING)
    assert ("workflows/pair.md:" in output, "nothing was run yet; fix the file and save it" in output) == (True, True)
    workflow.write_text(whole)
    output = dev.until(WATCHING)
    assert "`which` has no `answr`" in output
    assert not (pair / "runs").exists()
    edit(choice, "which.answr", "which.answer")
    assert dev.until(WATCHING).count("Which one?") == 1


@pytest.mark.slow
@pytest.mark.row("A1")
def test_turns_end_after_the_selected_phase(pair: Path, watch: Watch, skillrun: Call) -> None:
    dev = watch("pair", "tea", "--script", "script.yaml", "--to", "left")
    assert re.search(r"waiting: ended before `right`, which was not selected \(\d+\.\d\d s\); ", dev.until(WATCHING))
    edit(pair / "skills" / "pair" / "left.md", "Score", "Points")
    assert "1 reused, 0 made; 1 artifact changed" in dev.until(WATCHING)
    assert dev.end() == 130
    assert sent_addresses(pair / "runs" / "dev-pair") == ["pair/left/draft/writer/1.1"]
    done = skillrun("resume", "dev-pair", "--script", "script.yaml")
    assert (done.code, "right" in done.out, "choice has a question" in done.out) == (75, True, True)
    wrong = skillrun("dev", "pair", "tea", "--to", "lift")
    assert (wrong.code, wrong.err) == (2, "error: `pair` has no phase `lift`\nhint: did you mean `left`?\n")


@pytest.mark.slow
@pytest.mark.row("A1")
def test_structured_replies_are_compared_field_by_field(pair: Path, watch: Watch) -> None:
    dev = watch("pair", "tea", "--script", "script.yaml")
    dev.until(WATCHING)
    edit(pair / "skills" / "pair" / "right.md", "Write the right", "Kindly write the right")
    output = dev.until(WATCHING)
    assert "changed: the reply of pair/right/draft/writer/1.1\n  score: 4 → 5\n  remark: good → better\n" in output
    assert "changed: right.md\n  @@ -1 +1 @@\n  -Score 4: good\n  +Score 5: better\n" in output


@pytest.mark.slow
@pytest.mark.row("A1")
def test_calls_of_later_rounds_are_marked(project: Make, watch: Watch) -> None:
    folder = project("greeting")
    send = folder / "skills" / "greeting" / "send.md"
    edit(
        send,
        "steps:\n",
        "steps:\n  - {id: more, agent: writer}\n  - {when: run.round == 1, goto: draft, at_most: 1}\n",
    )
    send.write_text(send.read_text() + "\n## more\nSay more in round {{ run.round }}.\n")
    dev = watch("greeting", "Ada", "--model", "scripted:default")
    output = dev.until(WATCHING)
    assert ", in round 2; " in output
    edit(send, "Say more", "Say much more")
    output = dev.until(WATCHING)
    assert "calling greeting/send/more/writer/1.1\n" in output
    assert "send: back to draft, for round 2\n" in output
    assert "calling greeting/send/more/writer/1.1 (round 2)\n" in output
    assert "changed: the reply of greeting/send/more/writer/1.1 (round 2)\n" in output


def configure_prices(folder: Path, wire: Wire, price: str) -> None:
    """Send calls to the server, with this price configuration."""
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "models.yaml").write_text(
        f'providers:\n  x: {{kind: openai, base_url: "{wire.url}/v1"}}\ntiers: {{strong: "x:m", fast: "x:m"}}\n{price}'
    )


def reply_with_score(_: WireRequest) -> Answer:
    return openai.completion(json.dumps({"score": 1, "remark": "so"}))


@pytest.mark.slow
@pytest.mark.row("A1")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_save_shows_its_cost_and_makes_no_calls_above_the_limit(pair: Path, watch: Watch) -> None:
    with serve(reply_with_score) as wire:
        configure_prices(pair, wire, "models:\n  x:m: {window: 32000, max_output: 1000, input: 1000, output: 1000}\n")
        dev = watch("pair", "tea", "--ask-above", "0.40")
        first = dev.until(WATCHING)
        assert "makes 2 calls, about " in first
        assert "2 made" in first, "the first turn needs no confirmation"
        edit(pair / "skills" / "pair" / "left.md", "Write the left", "Kindly write the left")
        second = dev.until(WATCHING)
        assert "makes 1 call, about " in second
        assert "$0.3" in second
        assert "1 reused, 1 made" in second
        edit(pair / "roles" / "writer.md", "You write.", "You write a lot.")
        third = dev.until(WATCHING)
        assert "makes 2 calls, about " in third
        assert "this exceeds `--ask-above 0.4,calls=10` and cannot be confirmed" in third
        assert len(wire.asked) == 3
        edit(pair / "roles" / "writer.md", "You write a lot.", "You write.")
        assert "2 reused, 0 made" in dev.until(WATCHING)
        assert dev.end() == 130


@pytest.mark.slow
@pytest.mark.row("A1")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_an_explicit_limit_on_calls_applies_whatever_they_cost(pair: Path, watch: Watch) -> None:
    with serve(reply_with_score) as wire:
        configure_prices(pair, wire, "models:\n  x:m: {window: 32000, max_output: 1000, input: 1, output: 1}\n")
        dev = watch("pair", "tea", "--ask-above", "calls=0")
        dev.until(WATCHING)
        edit(pair / "skills" / "pair" / "left.md", "Write the left", "Kindly write the left")
        output = dev.until(WATCHING)
        assert ("makes 1 call, about " in output, "this exceeds `--ask-above 0.5,calls=0`" in output) == (True, True)
        assert len(wire.asked) == 2


@pytest.mark.slow
@pytest.mark.row("A1")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_calls_with_an_unknown_price_count_towards_the_limit(pair: Path, watch: Watch) -> None:
    with serve(reply_with_score) as wire:
        configure_prices(pair, wire, "")
        dev = watch("pair", "tea", "--ask-above", "calls=1")
        dev.until(WATCHING)
        edit(pair / "roles" / "writer.md", "You write.", "You write a lot.")
        output = dev.until(WATCHING)
        assert ("price unknown" in output, "this exceeds `--ask-above 0.5,calls=1`" in output) == (True, True)
        assert len(wire.asked) == 2


@pytest.mark.row("A1")
def test_an_invalid_limit_is_refused(pair: Path, skillrun: Call) -> None:
    for amount in ("much", "-1", "price=x", "cents=3"):
        done = skillrun("dev", "pair", "tea", f"--ask-above={amount}")
        assert (done.code, f"`{amount}` is not a valid limit; use dollars (`0.50`)" in done.err) == (2, True), done.err


@pytest.mark.slow
@pytest.mark.row("A1")
def test_json_lists_every_difference(pair: Path, watch: Watch) -> None:
    dev = watch("pair", "tea", "--script", "script.yaml", "--json")
    dev.until(WATCHING)
    edit(pair / "skills" / "pair" / "right.md", "Write the right", "Kindly write the right")
    output = dev.until(WATCHING)
    report = json.loads(output[output.rindex("\n{\n") :].partition(WATCHING)[0])
    assert report["asked"] == ["pair/right/draft/writer/1.1"]
    assert [field["path"] for field in report["replies"][0]["fields"]] == ["score", "remark"]
    assert report["changed"] == ["right.md"]


@pytest.mark.slow
@pytest.mark.row("A1")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_kill_before_any_call_loses_nothing(pair: Path, watch: Watch, skillrun: Call) -> None:
    with serve(reply_with_score) as wire:
        configure_prices(pair, wire, "")
        dev = watch("pair", "tea", "--ask-above", "calls=1")
        dev.until(WATCHING)
        edit(pair / "roles" / "writer.md", "You write.", "You write a lot.")
        dev.until(WATCHING)
        dev.process.kill()
        dev.process.wait()
        edit(pair / "roles" / "writer.md", "You write a lot.", "You write.")
        (pair / "answers.yaml").write_text("which: left\n")
        done = skillrun("resume", "dev-pair", "--answers", "answers.yaml")
        assert (done.code, "completed" in done.out) == (0, True), done.err
        assert len(wire.asked) == 2
    assert (pair / "runs" / "dev-pair" / "choice.md").read_text() == "It is left.\n"


@pytest.mark.slow
@pytest.mark.row("A1")
def test_a_completed_form_is_read_automatically(pair: Path, watch: Watch) -> None:
    choice = pair / "skills" / "pair" / "choice.md"
    edit(
        choice,
        "{id: which, ask: {text: Which one?, choices: [left, right]}}",
        "{id: which, ask: [{id: which, text: Which one?, choices: [left, right]}], form: which.md}",
    )
    edit(choice, "which.answer |", "which.answers[0].answer |")
    dev = watch("pair", "tea", "--script", "script.yaml")
    assert "questions are waiting in which.md" in dev.until(WATCHING)
    edit(pair / "runs" / "dev-pair" / "which.md", "- [ ] B. right", "- [x] B. right")
    output = dev.until(WATCHING)
    assert "changed in the run's folder: which.md\n" in output
    assert "2 reused, 0 made; 1 artifact changed" in output
    assert (pair / "runs" / "dev-pair" / "choice.md").read_text() == "It is right.\n"


@pytest.mark.slow
@pytest.mark.row("A1")
def test_the_announced_call_is_the_one_that_is_made(project: Make, watch: Watch, process: Call) -> None:
    """A plan reads code, and its recorded prompts contain that code."""
    folder = project()
    (folder / "code").mkdir()
    (folder / "code" / "shelf.py").write_text("def lend(book: str) -> None: ...\n")
    dev = watch("plan", "Remind people", "--repo", "code", "--mode", "standard", "--model", "scripted:default")
    dev.until(WATCHING)
    (waiting,) = process("answers", "dev-plan", "--json").json["questions"]
    answers = {question["id"]: (question.get("choices") or ["so"])[0] for question in waiting["questions"]}
    (folder / "answers.yaml").write_text(json.dumps(answers))
    assert process("answers", "dev-plan", "--answers", "answers.yaml").code == 0
    output = dev.until(WATCHING)
    (announced,) = [line.rpartition(": ")[2] for line in output.splitlines() if line.startswith("makes 1 call, ")]
    (calling,) = [line for line in output.splitlines() if line.startswith("calling ")]
    assert calling == f"calling plan/{announced}/1.1"
    assert "question" not in output.partition("makes 1 call")[0], "an answered question is asked only once"


@pytest.mark.row("A1")
def test_each_turn_reads_the_files_of_the_project_again(project: Make, watch: Watch) -> None:
    folder = project()
    workflow, phase = folder / "workflows" / "look.md", folder / "skills" / "look" / "look.md"
    for path in (workflow, phase):
        path.parent.mkdir(parents=True)
    workflow.write_text("---\nname: look\ndescription: x\nrepository: .\nphases:\n  look:\n---\n")
    phase.write_text(
        "---\nkind: phase\nsteps:\n  - {id: files, find: plan.md}\n  - {id: out, write: out.md}\n---\n"
        "## out\nFound: {{ files.found | length }}\n"
    )
    dev = watch("look", "--model", "scripted:default")
    dev.until(WATCHING)
    (folder / "plan.md").write_text("x")
    edit(phase, "Found:", "Now found:")
    assert "+Now found: 1\n" in dev.until(WATCHING)
