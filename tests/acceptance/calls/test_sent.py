"""`render --run`: prints the exact request that a run sent."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from skillrun.models.messages import Request
from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.conftest import Call

pytestmark = pytest.mark.row("A2")


def test_a_sent_request_is_reproduced_byte_for_byte(run: Path, skillrun: Call) -> None:
    with closing(SqliteJournal.open(run)) as journal:
        sent = {(entry.address, entry.fingerprint): entry.body for entry in journal.entries("sent")}
    rendered = skillrun("render", "--run", "it", "look", "seen/looker:close/2.1", "--json").json
    body = sent[rendered["address"], rendered["fingerprint"]]
    assert {key: rendered[key] for key in body} == body
    assert rendered["is_exact"] is True
    assert Request.from_dict(rendered).fingerprint() == rendered["fingerprint"]
    out = skillrun("render", "--run", "it", "look", "seen", "close").out
    for message in rendered["messages"][:1]:
        assert all(f"\n{block['text']}\n" in out for block in message["blocks"])
    assert out.startswith("w/look/seen/looker:close/1.1 · scripted:default")


def test_a_later_turn_includes_earlier_tool_calls_and_results(run: Path, skillrun: Call) -> None:
    done = skillrun("render", "--run", "it", "look", "seen/looker:close/2.1")
    assert '──── calls Read {"path": "a.py"} ────' in done.out
    assert "line_39 = 39" in done.out
    assert done.err.splitlines() == ["there is also w/look/seen/looker:close/1.1"]
    refused = skillrun("render", "--run", "it", "look", "seen/looker:close/7.1")
    assert (refused.code, refused.err.splitlines()[-1]) == (2, "hint: the last turn is 2")


def test_a_sent_request_is_independent_of_later_edits(run: Path, skillrun: Call) -> None:
    before = skillrun("render", "--run", "it", "judge", "verdict", "--version", "1").out
    assert "Judge, in round 1." in before
    (Path.cwd() / "skills/w/judge.md").unlink()
    (Path.cwd() / "workflows/w.md").write_text("broken")
    assert skillrun("render", "--run", "it", "judge", "verdict", "--version", "1").out == before
    assert "Judge, in round 2." in skillrun("render", "--run", "it", "judge", "verdict").out


def test_a_modified_record_is_reported(run: Path, skillrun: Call) -> None:
    with closing(SqliteJournal.open(run)) as journal:
        entry = next(entry for entry in journal.entries("sent") if "verdict" in entry.address)
        body = {**entry.body, "system": [{"text": "You are careless."}]}
        asyncio.run(journal.record("sent", "w/judge/other/clerk/1.1", entry.fingerprint, body))
    done = skillrun("render", "--run", "it", "judge", "other")
    assert (done.code, "fingerprint does not match" in done.err) == (0, True)
    assert "fingerprint does not match" not in skillrun("render", "--run", "it", "judge", "verdict").err


def test_control_characters_appear_only_in_the_json(run: Path, skillrun: Call) -> None:
    with closing(SqliteJournal.open(run)) as journal:
        body = {**next(iter(journal.entries("sent"))).body, "system": [{"text": "red \x1b[31m\x7f"}]}
        asyncio.run(journal.record("sent", "w/look/red/clerk/1.1", Request.from_dict(body).fingerprint(), body))
    command = ("render", "--run", "it", "look", "red")
    text, report = skillrun(*command), skillrun(*command, "--json")
    assert "\x1b" not in text.out
    assert "are not shown as they are; `--json` prints all characters" in text.err
    assert Request.from_dict(report.json).fingerprint() == report.json["fingerprint"]


def test_options_of_the_two_forms_cannot_be_mixed(run: Path, skillrun: Call) -> None:
    assert skillrun("render", "--run", "it", "look", "-i", "request=x").code == 2
    assert skillrun("render", "--run", "it", "look", "seen", "close", "more").code == 2
    assert skillrun("render", "w", "look", "--version", "1").code == 2
    without_phase = skillrun("render", "w")
    assert (without_phase.code, without_phase.err.splitlines()[-1]) == (2, "hint: allowed: ask, look, judge")
