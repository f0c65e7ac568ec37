"""`dev` in control: saves while a turn runs, prices first, ends at a phase, broken from the start, rounds."""

import json
import re
import sqlite3
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import Call, Make
from tests.acceptance.dev.conftest import SCRIPT, Watch, edit
from tests.servers import openai
from tests.servers.wire import Answer, Asked, Wire, serve

WATCHING = "\nwatching; Ctrl-C ends\n"


@pytest.fixture
def pair(project: Make) -> Path:
    folder = project("pair")
    (folder / "script.yaml").write_text(SCRIPT)
    return folder


def sent(run: Path) -> list[str]:
    """The addresses of the calls on record as sent, in order."""
    with sqlite3.connect(run / ".run" / "journal.db") as journal:
        rows = journal.execute("SELECT address FROM records WHERE kind = 'sent' ORDER BY seq").fetchall()
    return [address for (address,) in rows]


@pytest.mark.slow
@pytest.mark.row("A1")
def test_a_save_ends_what_it_made_obsolete_and_keeps_the_calls_that_it_did_not_touch(
    pair: Path, watch: Watch, skillrun: Call
) -> None:
    (pair / "script.yaml").write_text(SCRIPT.replace("delay: 0.3", "delay: 1.5").replace("delay: 2", "delay: 2.5"))
    dev = watch("pair", "tea", "--script", "script.yaml")
    dev.until(r"asks 2 calls")
    dev.until(r"left/draft/writer, right/draft/writer\n")
    time.sleep(0.3)
    edit(pair / "skills" / "pair" / "left.md", "Write the left", "Kindly write the left")
    heard = dev.until(WATCHING)
    assert "ended: pair/left/draft/writer/1.1, which is obsolete\n" in heard
    assert "kept: pair/right/draft/writer/1.1, which is under way\n" in heard
    assert "asks 1 call, " in heard
    assert "0 reused, 2 asked, 2 artifacts changed" in heard
    assert dev.end() == 130
    run = pair / "runs" / "dev-pair"
    assert sorted(sent(run)) == [f"pair/{side}/draft/writer/1.1" for side in ("left", "left", "right")]
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
def test_a_broken_save_leaves_the_turn_alone_that_runs(pair: Path, watch: Watch) -> None:
    dev = watch("pair", "tea", "--script", "script.yaml")
    dev.until(r"left/draft/writer, right/draft/writer\n")
    edit(pair / "skills" / "pair" / "choice.md", "which.answer", "which.answr")
    heard = dev.until(WATCHING)
    assert "still using the last valid version" in heard
    assert "0 reused, 2 asked, 2 artifacts changed" in heard
    assert len(sent(pair / "runs" / "dev-pair")) == 2


@pytest.mark.slow
@pytest.mark.row("A1")
def test_a_project_that_is_broken_at_the_start_is_watched_until_it_is_mended(pair: Path, watch: Watch) -> None:
    choice, workflow = pair / "skills" / "pair" / "choice.md", pair / "workflows" / "pair.md"
    edit(choice, "which.answer", "which.answr")
    whole = workflow.read_text()
    edit(workflow, "phases:", "phases: [")
    dev = watch("pair", "tea", "--script", "script.yaml")
    heard = dev.until(WATCHING)
    assert ("workflows/pair.md:" in heard, "nothing was run yet; mend the file and save it" in heard) == (True, True)
    workflow.write_text(whole)
    heard = dev.until(WATCHING)
    assert "`which` has no `answr`" in heard
    assert not (pair / "runs").exists()
    edit(choice, "which.answr", "which.answer")
    assert dev.until(WATCHING).count("Which one?") == 1


@pytest.mark.slow
@pytest.mark.row("A1")
def test_turns_end_behind_the_phase_that_is_named(pair: Path, watch: Watch, skillrun: Call) -> None:
    dev = watch("pair", "tea", "--script", "script.yaml", "--to", "left")
    assert re.search(r"waiting: ended before `right`, which was left out \(\d+\.\d\d s\); ", dev.until(WATCHING))
    edit(pair / "skills" / "pair" / "left.md", "Score", "Points")
    assert "1 reused, 0 asked, 1 artifact changed" in dev.until(WATCHING)
    assert dev.end() == 130
    assert sent(pair / "runs" / "dev-pair") == ["pair/left/draft/writer/1.1"]
    done = skillrun("resume", "dev-pair", "--script", "script.yaml")
    assert (done.code, "right" in done.out, "choice has a question" in done.out) == (75, True, True)
    wrong = skillrun("dev", "pair", "tea", "--to", "lift")
    assert (wrong.code, wrong.err) == (2, "error: `pair` has no phase `lift`\nhint: did you mean `left`?\n")


@pytest.mark.slow
@pytest.mark.row("A1")
def test_structured_replies_differ_field_by_field(pair: Path, watch: Watch) -> None:
    dev = watch("pair", "tea", "--script", "script.yaml")
    dev.until(WATCHING)
    edit(pair / "skills" / "pair" / "right.md", "Write the right", "Kindly write the right")
    heard = dev.until(WATCHING)
    assert "changed: the reply of pair/right/draft/writer/1.1\n  score: 4 → 5\n  remark: good → better\n" in heard
    assert "changed: right.md\n  @@ -1 +1 @@\n  -Score 4: good\n  +Score 5: better\n" in heard


@pytest.mark.slow
@pytest.mark.row("A1")
def test_rounds_are_marked(project: Make, watch: Watch) -> None:
    folder = project("greeting")
    send = folder / "skills" / "greeting" / "send.md"
    edit(
        send,
        "steps:\n",
        "steps:\n  - {id: more, agent: writer}\n  - {when: run.round == 1, goto: draft, at_most: 1}\n",
    )
    send.write_text(send.read_text() + "\n## more\nSay more in round {{ run.round }}.\n")
    dev = watch("greeting", "Ada", "--model", "scripted:default")
    heard = dev.until(WATCHING)
    assert ", in round 2; " in heard
    edit(send, "Say more", "Say much more")
    heard = dev.until(WATCHING)
    assert "asking greeting/send/more/writer/1.1\n" in heard
    assert "send: back to draft, for round 2\n" in heard
    assert "asking greeting/send/more/writer/1.1 (round 2)\n" in heard
    assert "changed: the reply of greeting/send/more/writer/1.1 (round 2)\n" in heard


def priced(folder: Path, wire: Wire, price: str) -> None:
    """Calls go to that server, and have a price."""
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "models.yaml").write_text(
        f'providers:\n  x: {{kind: openai, base_url: "{wire.url}/v1"}}\ntiers: {{strong: "x:m", fast: "x:m"}}\n{price}'
    )


def scored(_: Asked) -> Answer:
    return openai.completion(json.dumps({"score": 1, "remark": "so"}))


@pytest.mark.slow
@pytest.mark.row("A1")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_what_a_save_asks_is_said_with_its_price_and_nothing_above_the_limit_is_asked(pair: Path, watch: Watch) -> None:
    with serve(scored) as wire:
        priced(pair, wire, "models:\n  x:m: {window: 32000, max_output: 1000, input: 1000, output: 1000}\n")
        dev = watch("pair", "tea", "--ask-above", "0.40")
        first = dev.until(WATCHING)
        assert "asks 2 calls, about " in first
        assert "2 asked" in first, "what was typed is wished for"
        edit(pair / "skills" / "pair" / "left.md", "Write the left", "Kindly write the left")
        one = dev.until(WATCHING)
        assert "asks 1 call, about " in one
        assert "$0.3" in one
        assert "1 reused, 1 asked" in one
        edit(pair / "roles" / "writer.md", "You write.", "You write a lot.")
        both = dev.until(WATCHING)
        assert "asks 2 calls, about " in both
        assert "that is above `--ask-above 0.4,calls=10`, and nobody is here to say yes" in both
        assert len(wire.asked) == 3
        edit(pair / "roles" / "writer.md", "You write a lot.", "You write.")
        assert "2 reused, 0 asked" in dev.until(WATCHING)
        assert dev.end() == 130


@pytest.mark.slow
@pytest.mark.row("A1")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_calls_that_were_typed_are_counted_whatever_they_cost(pair: Path, watch: Watch) -> None:
    with serve(scored) as wire:
        priced(pair, wire, "models:\n  x:m: {window: 32000, max_output: 1000, input: 1, output: 1}\n")
        dev = watch("pair", "tea", "--ask-above", "calls=0")
        dev.until(WATCHING)
        edit(pair / "skills" / "pair" / "left.md", "Write the left", "Kindly write the left")
        heard = dev.until(WATCHING)
        assert ("asks 1 call, about " in heard, "that is above `--ask-above 0.5,calls=0`" in heard) == (True, True)
        assert len(wire.asked) == 2


@pytest.mark.slow
@pytest.mark.row("A1")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_calls_of_an_unknown_price_are_counted(pair: Path, watch: Watch) -> None:
    with serve(scored) as wire:
        priced(pair, wire, "")
        dev = watch("pair", "tea", "--ask-above", "calls=1")
        dev.until(WATCHING)
        edit(pair / "roles" / "writer.md", "You write.", "You write a lot.")
        heard = dev.until(WATCHING)
        assert ("price unknown" in heard, "that is above `--ask-above 0.5,calls=1`" in heard) == (True, True)
        assert len(wire.asked) == 2


@pytest.mark.row("A1")
def test_a_limit_has_to_be_an_amount(pair: Path, skillrun: Call) -> None:
    for amount in ("much", "-1", "price=x", "cents=3"):
        done = skillrun("dev", "pair", "tea", f"--ask-above={amount}")
        assert (done.code, f"`{amount}` is none; write dollars (`0.50`)" in done.err) == (2, True), done.err


@pytest.mark.slow
@pytest.mark.row("A1")
def test_json_has_every_difference(pair: Path, watch: Watch) -> None:
    dev = watch("pair", "tea", "--script", "script.yaml", "--json")
    dev.until(WATCHING)
    edit(pair / "skills" / "pair" / "right.md", "Write the right", "Kindly write the right")
    heard = dev.until(WATCHING)
    ended = json.loads(heard[heard.rindex("\n{\n") :].partition(WATCHING)[0])
    assert ended["asked"] == ["pair/right/draft/writer/1.1"]
    assert [field["path"] for field in ended["replies"][0]["fields"]] == ["score", "remark"]
    assert ended["changed"] == ["right.md"]


@pytest.mark.slow
@pytest.mark.row("A1")
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_kill_before_anything_was_sent_loses_nothing(pair: Path, watch: Watch, skillrun: Call) -> None:
    with serve(scored) as wire:
        priced(pair, wire, "")
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
def test_a_form_that_is_filled_in_is_taken_by_itself(pair: Path, watch: Watch) -> None:
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
    heard = dev.until(WATCHING)
    assert "changed in the run's folder: which.md\n" in heard
    assert "2 reused, 0 asked, 1 artifact changed" in heard
    assert (pair / "runs" / "dev-pair" / "choice.md").read_text() == "It is right.\n"


@pytest.mark.slow
@pytest.mark.row("A1")
def test_what_is_said_to_be_asked_is_what_is_asked(project: Make, watch: Watch, process: Call) -> None:
    """A plan reads code: what it has read stands in prompts that are on record."""
    folder = project()
    (folder / "code").mkdir()
    (folder / "code" / "shelf.py").write_text("def lend(book: str) -> None: ...\n")
    dev = watch("plan", "Remind people", "--repo", "code", "--mode", "standard", "--model", "scripted:default")
    dev.until(WATCHING)
    (waiting,) = process("answers", "dev-plan", "--json").json["questions"]
    given = {question["id"]: (question.get("choices") or ["so"])[0] for question in waiting["questions"]}
    (folder / "answers.yaml").write_text(json.dumps(given))
    assert process("answers", "dev-plan", "--answers", "answers.yaml").code == 0
    heard = dev.until(WATCHING)
    (said,) = [line.rpartition(": ")[2] for line in heard.splitlines() if line.startswith("asks 1 call, ")]
    (asked,) = [line for line in heard.splitlines() if line.startswith("asking ")]
    assert asked == f"asking plan/{said}/1.1"
    assert "question" not in heard.partition("asks 1 call")[0], "what was answered is not put again"
