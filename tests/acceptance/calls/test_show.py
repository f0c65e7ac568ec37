"""`show RUN PHASE`: shows the calls of a run."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import time
from contextlib import closing
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest

from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.calls.conftest import REPLIES
from tests.acceptance.conftest import Call, Done, Make
from tests.launcher import start_skillrun

pytestmark = pytest.mark.row("A2")


def single_call(done: Done) -> Any:
    assert done.code == 0, done
    (call,) = done.json["calls"]
    return call


def test_a_phase_is_shown_as_a_table_of_its_calls(run: Path, skillrun: Call) -> None:
    lines = skillrun("show", "it", "look").out.splitlines()
    names = [line.split("  ")[0] for line in lines[1:6]]
    assert names == [
        "seen/looker:close",
        "seen/looker:far",
        "seen/looker:far, attempt 2",
        "talks#1/seen-again@1/clerk",
        "talks#2/seen-again@1/clerk",
    ]
    failed = "failed: too far away"
    assert [line.split("  ")[-1] for line in lines[1:5]] == ["replied", failed, failed, "replied"]
    assert lines[1].split()[2] == "2", "a turn with a tool, and the reply"


def test_a_call_is_shown_part_by_part(run: Path, skillrun: Call) -> None:
    call = single_call(skillrun("show", "it", "look", "seen", "close", "--json"))
    names = [part["part"] for part in call["parts"]]
    assert names == ["preamble", "request", "on record", "criteria", "The letter", "task", "role", "tools"]
    parts = {part["part"]: part for part in call["parts"]}
    assert parts["preamble"]["text"] == "You are careful."
    assert parts["task"]["text"].endswith("Look.")
    assert "You look." in parts["role"]["text"]
    assert all(part["tokens"] > 0 for part in parts.values() if part["text"])
    (left_out,) = parts["The letter"]["left_out"]
    assert re.match(r"about [\d,]+ of [\d,]+ tokens, under Part", left_out)
    lines = skillrun("show", "it", "look", "seen", "close").out.splitlines()
    assert lines[0] == "look: seen/looker:close · scripted:default"
    assert lines[1] == "w/look/seen/looker:close/2.1 · replied"
    assert any(line.startswith("    left out: about ") for line in lines)
    assert ["task", f"{parts['task']['tokens']:,}"] in [line.split()[:2] for line in lines]


def test_tool_calls_are_shown_with_arguments_and_results(run: Path, skillrun: Call) -> None:
    call = single_call(skillrun("show", "it", "look", "seen", "close", "--json"))
    (use,) = call["turns"][0]["tools"]
    assert (use["tool"], use["arguments"]) == ("Read", {"path": "a.py"})
    assert "line_39 = 39" in use["result"]
    assert call["usage"]["input"] == sum(turn["usage"]["input"] for turn in call["turns"])
    brief = skillrun("show", "it", "look", "seen", "close").out
    assert 'tool Read: {"path": "a.py"}\n' in brief
    assert "line_39" not in brief
    assert "more lines" in brief
    assert "line_39" in skillrun("show", "it", "look", "seen", "close", "--full").out


def test_a_reply_cannot_imitate_program_output(run: Path, skillrun: Call) -> None:
    out = skillrun("show", "it", "look", "seen", "close").out
    assert "\n  It is code.\n  error: not a line of the program's\n" in out
    assert "\x1b" not in out


def test_a_failed_member_is_shown_with_the_reason(run: Path, skillrun: Call) -> None:
    assert "failed: too far away" in skillrun("show", "it", "look", "seen", "far").out.splitlines()[1]
    call = single_call(skillrun("show", "it", "look", "seen/looker:far/1.2", "--json"))
    assert call["attempt"] == 2
    assert (call["status"], call["reply"]) == ("failed", None)
    assert call["turns"][0]["failed"] == "too far away"


def test_a_repair_is_shown_with_its_message(run: Path, skillrun: Call) -> None:
    call = single_call(skillrun("show", "it", "judge", "verdict", "--version", "1", "--json"))
    first, second = call["turns"]
    assert (first["reply"], first["asks_again"]) == ("I will not say.", "")
    assert "score" in second["asks_again"]
    assert json.loads(call["reply"]) == {"score": 1}
    lines = skillrun("show", "it", "judge", "verdict", "--version", "1").out.splitlines()
    assert "called again:" in lines
    assert lines.index("called again:") < lines.index('  {"score": 1}')


def test_a_prompt_of_a_later_round_is_the_next_version(run: Path, skillrun: Call) -> None:
    done = skillrun("show", "it", "judge", "verdict")
    assert done.out.splitlines()[0] == "judge: verdict/clerk, version 2 of 2 · round 2 · scripted:default"
    assert "--version 1" in done.err
    call = single_call(skillrun("show", "it", "judge", "verdict", "--json"))
    assert (call["round"], call["version"], len(call["turns"])) == ("2", 2, 1), "only the first version was repaired"
    assert "better" in call["reply"]
    refused = skillrun("show", "it", "judge", "verdict", "--version", "3")
    assert (refused.code, refused.err.splitlines()[-1]) == (2, "hint: use a version from 1 (the first) to 2")


@pytest.mark.parametrize(
    ("selector", "number"),
    [
        (("look", "seen-again"), 2),
        (("look", "talks"), 2),
        (("look", "talks#2"), 1),
        (("look", "talks#2/seen-again"), 1),
        (("look", "talks/seen-again/clerk"), 2),
        (("look", "talks#1/seen-again/clerk/1.1"), 1),
        (("w/look/talks#1/seen-again/clerk/1.1",), 1),
        (("look/talks#1",), 1),
        (("look", "seen"), 3),
        (("look", "seen", "looker"), 3),
        (("look", "seen", "far"), 2),
        (("look", "seen/looker:far/1.2"), 1),
    ],
)
def test_a_step_is_selected_by_id_or_address(run: Path, skillrun: Call, selector: tuple[str, ...], number: int) -> None:
    done = skillrun("show", "it", *selector, "--json")
    assert done.code == 0, done
    assert len(done.json["calls"]) == number


@pytest.mark.parametrize(
    ("selector", "message", "hint"),
    [
        (("lok",), "it has no phase `lok`", "did you mean `look`?"),
        (("ask",), "`ask` of it has made no calls", "phases with calls: look, judge"),
        (("look", "sean"), "`look` of it has no call at `sean`", "did you mean `seen`?"),
        (("look", "seen", "near"), "`look` of it has no call at `seen/near`", "allowed: seen/looker:close"),
        (("look", "talks#3"), "`look` of it has no call at `talks#3`", "did you mean `talks#"),
    ],
)
def test_an_unknown_selector_is_refused_with_a_hint(
    run: Path, skillrun: Call, selector: tuple[str, ...], message: str, hint: str
) -> None:
    done = skillrun("show", "it", *selector)
    error, help_ = done.err.splitlines()[-2:]
    assert (done.code, error) == (2, f"error: {message}")
    assert help_.startswith(f"hint: {hint}")


def test_earlier_replies_of_a_member_are_parts_of_its_prompt(project: Make, skillrun: Call) -> None:
    project("climb")
    skillrun("climb", "Alp", "--name", "it", "--model", "scripted:default", "--unattended")
    parts = single_call(skillrun("show", "it", "plan", "pace", "--json"))["parts"]
    earlier_call = single_call(skillrun("show", "it", "plan", "start", "--json"))
    names = [part["part"] for part in parts]
    assert names[-3:] == ["role", "earlier reply", "task"]
    assert parts[-2]["text"] == earlier_call["reply"]


def test_a_model_name_with_slashes_is_part_of_the_member(project: Make, skillrun: Call) -> None:
    folder = project("voices")
    (folder / "replies.yaml").write_text("- {text: Said.}\n")
    done = skillrun("voices", "hi", "--models", "openai:meta/llama", "--name", "it", "--script", "replies.yaml")
    assert done.code == 0, done
    (call, *_) = skillrun("show", "it", "saying", "--json").json["calls"]
    assert (call["step"], call["member"]) == (call["address"].split("/")[2], "speaker@openai:meta/llama")
    assert single_call(skillrun("show", "it", "saying", call["step"], "openai:meta/llama", "--json")) == call


def test_full_and_version_require_a_phase(run: Path, skillrun: Call) -> None:
    for option in (("--full",), ("--version", "1")):
        assert skillrun("show", "it", *option).code == 2


def test_a_run_is_shown_without_its_project(
    run: Path, tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = skillrun("show", "it", "look", "seen", "close").out
    folder = tmp_path / "elsewhere"
    shutil.copytree(run, folder / "copy")
    for name in ("workflows", "skills", "roles"):
        shutil.rmtree(tmp_path / name)
    monkeypatch.chdir(folder)
    assert skillrun("show", "./copy", "look", "seen", "close").out == expected
    before = {path: path.stat().st_mtime_ns for path in (folder / "copy").rglob("*")}
    skillrun("show", "./copy", "look")
    assert {path: path.stat().st_mtime_ns for path in (folder / "copy").rglob("*")} == before


def test_a_run_without_a_journal_is_refused(run: Path, skillrun: Call) -> None:
    shutil.rmtree(run / ".run")
    done = skillrun("show", "it", "look")
    assert done.code == 1
    assert "has no journal" in done.err


def test_invalid_request_records_are_skipped_and_counted(run: Path, skillrun: Call) -> None:
    with closing(SqliteJournal.open(run)) as journal:
        body = next(iter(journal.entries("sent"))).body
        asyncio.run(
            journal.record("sent", "w/look/seen/looker:close/1.1", "f", {**body, "messages": [{"role": "user"}]})
        )
        asyncio.run(journal.record("sent", "nowhere", "f", body))
    done = skillrun("show", "it", "look")
    assert done.code == 0, done
    assert "2 records of requests are invalid" in done.err


@pytest.mark.slow
def test_a_running_run_is_shown_up_to_its_current_call(library: Path, skillrun: Call) -> None:
    slow = [{"address": "*/talks*", "delay": 60}, *REPLIES]
    (library / "replies.yaml").write_text(json.dumps(slow))
    letter = ("--letter", "short", "--model", "scripted:default", "--script", "replies.yaml", "--name", "it")
    command = ("w", "see", "--repo", "code", *letter, "--unattended")
    with start_skillrun(*command, stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            out = ""
            while "talks#1" not in out and time.monotonic() < deadline:
                time.sleep(0.1)
                out = skillrun("show", "it", "look").out
            assert "talks#1/seen-again@1/clerk" in out
            assert "no reply yet" in out
            assert "It is code." in skillrun("show", "it", "look", "seen", "close").out
            assert "made no calls" in skillrun("show", "it", "judge").err
        finally:
            process.kill()
    assert "no reply" in skillrun("show", "it", "look", "talks").out, "the process has ended"


def test_estimated_and_counted_tokens_are_distinguished(run: Path, skillrun: Call) -> None:
    out = skillrun("show", "it", "judge", "verdict").out
    [shown] = skillrun("show", "it", "judge", "verdict", "--json").json["calls"]
    counted = shown["turns"][0]["usage"]["input"]
    assert sum(part["tokens"] for part in shown["parts"]) != counted
    assert f"  estimated from the text; the provider counted {counted:,}, as shown below\n" in out
