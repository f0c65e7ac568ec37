"""What was sent in a run, had again: `render --run`."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from skillrun.models.messages import Request
from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.conftest import Call

pytestmark = pytest.mark.row("A2")


def test_what_was_sent_is_had_again_byte_for_byte(run: Path, skillrun: Call) -> None:
    with closing(SqliteJournal.open(run)) as journal:
        sent = {(entry.address, entry.fingerprint): entry.body for entry in journal.entries("sent")}
    again = skillrun("render", "--run", "it", "look", "seen/looker:close/2.1", "--json").json
    body = sent[again["address"], again["fingerprint"]]
    assert {key: again[key] for key in body} == body
    assert again["is_exact"] is True
    assert Request.from_dict(again).fingerprint() == again["fingerprint"]
    out = skillrun("render", "--run", "it", "look", "seen", "close").out
    for message in again["messages"][:1]:
        assert all(f"\n{block['text']}\n" in out for block in message["blocks"])
    assert out.startswith("w/look/seen/looker:close/1.1 · scripted:default")


def test_a_later_turn_has_the_calls_and_results_before_it(run: Path, skillrun: Call) -> None:
    done = skillrun("render", "--run", "it", "look", "seen/looker:close/2.1")
    assert '──── calls Read {"path": "a.py"} ────' in done.out
    assert "line_39 = 39" in done.out
    assert done.err.splitlines() == ["there is also w/look/seen/looker:close/1.1"]
    refused = skillrun("render", "--run", "it", "look", "seen/looker:close/7.1")
    assert (refused.code, refused.err.splitlines()[-1]) == (2, "hint: the last turn is 2")


def test_what_was_sent_stays_though_the_files_are_other_ones_now(run: Path, skillrun: Call) -> None:
    before = skillrun("render", "--run", "it", "judge", "verdict", "--version", "1").out
    assert "Judge, in round 1." in before
    (Path.cwd() / "skills/w/judge.md").unlink()
    (Path.cwd() / "workflows/w.md").write_text("broken")
    assert skillrun("render", "--run", "it", "judge", "verdict", "--version", "1").out == before
    assert "Judge, in round 2." in skillrun("render", "--run", "it", "judge", "verdict").out


def test_a_request_that_was_changed_on_record_is_told(run: Path, skillrun: Call) -> None:
    with closing(SqliteJournal.open(run)) as journal:
        entry = next(entry for entry in journal.entries("sent") if "verdict" in entry.address)
        body = {**entry.body, "system": [{"text": "You are careless."}]}
        asyncio.run(journal.record("sent", "w/judge/other/clerk/1.1", entry.fingerprint, body))
    done = skillrun("render", "--run", "it", "judge", "other")
    assert (done.code, "fingerprint does not match" in done.err) == (0, True)
    assert "fingerprint does not match" not in skillrun("render", "--run", "it", "judge", "verdict").err


def test_what_a_terminal_would_obey_is_in_the_json_alone(run: Path, skillrun: Call) -> None:
    with closing(SqliteJournal.open(run)) as journal:
        body = {**next(iter(journal.entries("sent"))).body, "system": [{"text": "red \x1b[31m\x7f"}]}
        asyncio.run(journal.record("sent", "w/look/red/clerk/1.1", Request.from_dict(body).fingerprint(), body))
    place = ("render", "--run", "it", "look", "red")
    shown, whole = skillrun(*place), skillrun(*place, "--json")
    assert "\x1b" not in shown.out
    assert "are not shown; `--json` prints all characters" in shown.err
    assert Request.from_dict(whole.json).fingerprint() == whole.json["fingerprint"]


def test_options_of_the_one_are_none_of_the_other(run: Path, skillrun: Call) -> None:
    assert skillrun("render", "--run", "it", "look", "-i", "request=x").code == 2
    assert skillrun("render", "--run", "it", "look", "seen", "close", "more").code == 2
    assert skillrun("render", "w", "look", "--version", "1").code == 2
    nameless = skillrun("render", "w")
    assert (nameless.code, nameless.err.splitlines()[-1]) == (2, "hint: allowed: ask, look, judge")
