"""Bug reports of comparable programs, tried on this one: docs/contributing/reports.md lists them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import Call, Done, Make
from tests.servers import openai
from tests.servers.wire import Answer, serve

CLERK = "---\nname: clerk\ntools: [Read, Grep]\n---\nYou write.\n"
WORKFLOW = """---
name: w
description: A test.
inputs: {request: string, folder: {type: path, default: src}}
repository: "{{ inputs.folder }}"
phases:
  one:
---
"""
PHASE = """---
kind: phase
steps:
  - {id: talk, agent: clerk}
  - {id: again, agent: clerk}
  - {id: end, ask: Fine?}
  - {id: out, write: out.md}
---
## talk
Say it.

## again
Say it.

## out
{{ talk.text }} {{ again.text }}
"""
MODELS = """providers: {{local: {{kind: openai, base_url: "{url}/v1", key: ""}}}}
tiers: {{strong: "local:m", fast: "local:m"}}
retry: {{attempts: 1, seconds: 5, first: 0.01}}
"""
TALK, AGAIN = "w/one/talk/clerk/1.1", "w/one/again/clerk/1.1"
Start = Callable[..., Done]


@pytest.fixture
def folder(project: Make) -> Path:
    """A project whose run asks two calls with one prompt, and then a question."""
    folder = project()
    files = {"roles/clerk.md": CLERK, "workflows/w.md": WORKFLOW, "skills/w/one.md": PHASE, "src/a.txt": "a\n"}
    for name, text in files.items():
        write(folder / name, text)
    return folder


@pytest.fixture
def start(folder: Path, skillrun: Call) -> Start:
    """Starts the run `r`, which then waits for the answer to its question."""
    return lambda *options: skillrun("w", "hi", "--name", "r", *(options or ("--model", "scripted:default")))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def calls_of_a_resume(skillrun: Call, *options: str) -> list[str]:
    """Return the addresses of the calls that `resume --preview` lists."""
    done = skillrun("resume", "r", "--preview", "--json", *options)
    assert done.code == 0, done.err
    return [call["address"] for call in done.json["would_ask"]]


@pytest.mark.finding("FR1")
def test_a_call_whose_tools_change_is_made_again(folder: Path, start: Start, skillrun: Call) -> None:
    start()
    assert calls_of_a_resume(skillrun) == []
    edit(folder / "roles/clerk.md", "[Read, Grep]", "[Read]")
    assert calls_of_a_resume(skillrun) == [TALK, AGAIN]


@pytest.mark.finding("FR2")
def test_two_steps_with_one_prompt_have_their_own_replies(folder: Path, start: Start, skillrun: Call) -> None:
    rules = '- {address: "*/talk/*", text: Tea.}\n- {address: "*/again/*", text: Milk.}\n'
    write(folder / "replies.yaml", rules)
    write(folder / "answers.yaml", "one/end: yes\n")
    start("--script", "replies.yaml")
    done = skillrun("resume", "r", "--script", "replies.yaml", "--answers", "answers.yaml")
    assert "0 calls made, 2 reused" in done.out
    assert (folder / "runs/r/out.md").read_text("utf-8").split() == ["Tea.", "Milk."]


ERROR_BODIES = {
    "an error": {"error": {"message": "rate limit exceeded", "code": 429}},
    "an error as text": {"error": "rate limit exceeded"},
    "an error without choices": {"choices": [], "error": {"message": "overloaded"}},
    "no choices": {"choices": []},
}


@pytest.mark.finding("FR3")
@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize("kind", ERROR_BODIES)
def test_an_error_with_status_200_is_no_reply_and_is_not_reused(kind: str, folder: Path, skillrun: Call) -> None:
    answers = [Answer(ERROR_BODIES[kind])]

    def respond(path: str) -> Answer:
        return openai.models("m") if path.endswith("/models") else answers[0]

    with serve(lambda asked: respond(asked.path)) as wire:
        write(folder / "config/models.yaml", MODELS.format(url=wire.url))
        done = skillrun("w", "hi", "--name", "r", "--trust-project")
        assert (done.code, "failed: one: `talk` was not answered" in done.out) == (1, True), done.out
        answers[0] = openai.completion("Tea.")
        done = skillrun("resume", "r", "--trust-project")
    assert (done.code, "2 calls made, 0 reused" in done.out) == (75, True), done.out + done.err


PER_RUN = ("run.name", "run.started_at", "run.environment", "run.models", "run.window", "run.round", "inputs.folder")


@pytest.mark.finding("FR4")
@pytest.mark.parametrize("name", PER_RUN)
@pytest.mark.parametrize("option", ["", "--from-start"])
def test_a_value_of_the_run_in_a_prompt_does_not_change_between_processes(
    name: str, option: str, folder: Path, start: Start, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(folder / "skills/w/one.md", "Say it.", f"Say it to {{{{ {name} | tojson }}}}.")
    start()
    monkeypatch.setenv("CI", "1")
    assert calls_of_a_resume(skillrun, *([option] if option else [])) == []
    assert "0 calls made, 2 reused" in skillrun("resume", "r").out


@pytest.mark.finding("FR4")
def test_the_preview_of_a_rerun_reads_the_other_runs_that_the_run_reads(
    folder: Path, start: Start, skillrun: Call
) -> None:
    write(folder / "answers.yaml", "one/end: yes\n")
    skillrun("w", "hi", "--name", "old", "--model", "scripted:default", "--answers", "answers.yaml")
    edit(folder / "skills/w/one.md", "steps:", "steps:\n  - {id: old, read: out.md, from: old}")
    edit(folder / "skills/w/one.md", "Say it.", "Say it after {{ old.text }}")
    start()
    done = skillrun("resume", "r", "--from-start", "--preview")
    assert "all 2 are reused" in done.out
    edit(folder / "skills/w/one.md", "## again\nSay it.", "## again\nSay more.")
    assert calls_of_a_resume(skillrun, "--from-start") == [AGAIN]


@pytest.mark.finding("FR5")
def test_replies_belong_to_steps_and_not_to_positions(folder: Path, start: Start, skillrun: Call) -> None:
    start()
    phase = folder / "skills/w/one.md"
    edit(phase, "  - {id: talk, agent: clerk}\n", "")
    edit(phase, "again, agent: clerk}\n", "again, agent: clerk}\n  - {id: talk, agent: clerk}\n")
    assert calls_of_a_resume(skillrun) == []
    edit(phase, "steps:", "steps:\n  - {id: plan, agent: clerk}")
    edit(phase, "## talk", "## plan\nPlan it.\n\n## talk")
    assert calls_of_a_resume(skillrun) == ["w/one/plan/clerk/1.1"]


KEPT = "warning: the run keeps its models: strong = scripted:one (now {now})"


@pytest.mark.finding("FR6")
@pytest.mark.parametrize(
    ("variable", "tiers", "now"),
    [
        ("scripted:two", "scripted:one", "scripted:two"),
        ("", "scripted:two", "scripted:two"),
        ("nowhere", "scripted:one", "nothing"),
        ("", "scripted:one", ""),
        ("scripted:one", "scripted:two", ""),
    ],
)
def test_a_resume_says_that_other_models_are_selected_now(
    variable: str, tiers: str, now: str, folder: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiers_of = 'tiers: {{strong: "{0}", fast: "{0}", critic: "{0}"}}\n'.format
    write(folder / "config/models.yaml", tiers_of("scripted:one"))
    skillrun("w", "hi", "--name", "r")
    write(folder / "config/models.yaml", tiers_of(tiers))
    monkeypatch.setenv("SKILLRUN_MODEL", variable)
    for options in (["--preview"], ["--yes"]):
        done = skillrun("resume", "r", *options)
        text = done.out + done.err
        assert ("keeps its models" in text) == bool(now), text
        assert not now or KEPT.format(now=now) in text
        assert not now or "hint: start a new run to use the other models" in text


@pytest.mark.finding("FR6")
def test_the_model_with_which_a_run_began_is_no_other_model(start: Start, skillrun: Call) -> None:
    start()
    assert "keeps its models" not in skillrun("resume", "r", "--preview").out


@pytest.mark.finding("FR7")
@pytest.mark.parametrize(
    ("file", "old", "new", "key"),
    [
        ("skills/w/one.md", "talk, agent: clerk", "talk, agent: clerk, model: opus", "model"),
        ("skills/w/one.md", "talk, agent: clerk", "talk, agent: clerk, tools: [Read]", "tools"),
        ("skills/w/one.md", "kind: phase", "kind: phase\nparallel: true", "parallel"),
        ("skills/w/one.md", "kind: phase", "kind: phase\nretry: judges", "retry"),
        ("workflows/w.md", "  one:", "  one: {default: yes}", "default"),
        ("workflows/w.md", "phases:", "at_least: 2\nphases:", "at_least"),
    ],
)
def test_a_key_of_another_place_is_an_error(
    file: str, old: str, new: str, key: str, folder: Path, skillrun: Call
) -> None:
    edit(folder / file, old, new)
    done = skillrun("validate")
    assert (done.code, f"error[unknown-key]: unknown key `{key}`" in done.out) == (1, True), done.out


MISTAKES = {
    "a role without text": ("roles/clerk.md", "You write.", "", "empty-section"),
    "a role's text in a key": ("roles/clerk.md", "tools:", "prompt: You write.\ntools:", "unknown-key"),
    "text above the sections": ("skills/w/one.md", "## talk", "Be kind.\n\n## talk", "unused-section"),
    "a section of the workflow": ("workflows/w.md", "---\n", "---\n## Rules\nBe kind.\n", "unused-section"),
    "a file": ("skills/w/one.md", "Say it.", "Say it.\n@src/a.txt", "placeholder"),
    "an import": ("skills/w/one.md", "Say it.", "Say it.\n@import a.txt", "placeholder"),
    "a file in braces": ("skills/w/one.md", "Say it.", "Say it.\n{file:src/a.txt}", "placeholder"),
    "arguments": ("skills/w/one.md", "Say it.", "Say $ARGUMENTS.", "placeholder"),
}


@pytest.mark.finding("FR7", "FR12", "FR13")
@pytest.mark.parametrize("kind", MISTAKES)
def test_a_text_that_reaches_no_prompt_causes_a_warning(kind: str, folder: Path, skillrun: Call) -> None:
    assert skillrun("validate").out.startswith("0 errors, 0 warnings")
    file, old, new, code = MISTAKES[kind]
    text = (folder / file).read_text("utf-8")
    at = text.rindex(old)
    write(folder / file, text[:at] + new + text[at + len(old) :])
    done = skillrun("validate")
    assert (done.code, f"warning[{code}]" in done.out) == (0, True), done.out


@pytest.mark.finding("FR10")
def test_two_phases_at_the_same_time_that_set_one_variable_are_an_error(folder: Path, skillrun: Call) -> None:
    edit(folder / "workflows/w.md", "phases:", "parallel: true\nstate: {n: {type: integer, default: 0}}\nphases:")
    edit(folder / "workflows/w.md", "  one:", "  one:\n  two: {after: one}\n  three: {after: one}")
    for name in ("two", "three"):
        write(folder / f"skills/w/{name}.md", '---\nkind: phase\nsteps:\n  - set: {n: "{{ state.n + 1 }}"}\n---\n')
    done = skillrun("validate")
    assert (done.code, "error[unordered]: `two` and `three` both set `state.n`" in done.out) == (1, True), done.out


GATE = """---
kind: phase
steps:
  - {id: gate, agent: clerk, output: {verdict(enum): [go, stop]}}
  - {id: review, when: gate.data.verdict == 'go', agent: clerk, writes: review.md}
---
## gate
Shall we?

## review
Review it.
"""


@pytest.mark.finding("FR8")
def test_a_condition_on_an_unreadable_reply_fails_the_run_and_skips_nothing(folder: Path, skillrun: Call) -> None:
    write(folder / "skills/w/one.md", GATE)
    write(folder / "replies.yaml", '- {address: "*/gate/*", text: Let me think. I say go.}\n')
    done = skillrun("w", "hi", "--name", "r", "--script", "replies.yaml")
    assert (done.code, "failed: one: `gate` was not answered" in done.out) == (1, True), done.out
    edit(folder / "skills/w/one.md", "gate.data.verdict ==", "gate.data.verdct ==")
    assert "error[unknown-field]: `gate.data` has no `verdct`" in skillrun("validate").out


@pytest.mark.finding("FR9")
@pytest.mark.parametrize("name", ["phases.two.outputs.a", "phases.two.artifacts['a.md']", "phases.two.summary"])
def test_an_output_of_a_phase_that_may_be_skipped_is_an_error_before_the_run(
    name: str, folder: Path, skillrun: Call
) -> None:
    edit(folder / "workflows/w.md", "phases:\n  one:", "phases:\n  one:\n  two: {when: \"inputs.request == 'x'\"}")
    edit(folder / "workflows/w.md", "repository:", f'outputs: {{result: "Result: {{{{ {name} }}}}"}}\nrepository:')
    phase = '---\nkind: phase\nsteps:\n  - {id: a, write: a.md}\noutputs: {a: "{{ a.text }}"}\n---\n## a\nA.\n'
    write(folder / "skills/w/two.md", phase)
    done = skillrun("w", "hi", "--model", "scripted:default")
    assert (done.code, f"error[absent]: `{name}" in done.err) == (1, True), done.err
    assert "Nothing was run and nothing was spent." in done.err


@pytest.mark.finding("FR14")
def test_dollar_signs_braces_and_digits_reach_the_model_as_they_are_written(folder: Path, skillrun: Call) -> None:
    text = "A call costs $0.01, not $1.2M or ${2}: awk '!seen[$0]++ {print $1}' and $& $$ \\1 %s %(a)s stay."
    request = f"{text} {{{{ 7 * 7 }}}} {{% raw %}} {{request}}"
    edit(folder / "skills/w/one.md", "Say it.", f"Say it. {text}\n{{{{ inputs.request }}}}")
    edit(folder / "roles/clerk.md", "You write.", f"You write. {text}")
    assert skillrun("w", request, "--name", "r", "--model", "scripted:default").code == 75
    prompt = skillrun("render", "--run", "r", "one", "talk").out
    assert (prompt.count(text), prompt.count(request)) == (4, 2)  # the request is in the section too


@pytest.mark.finding("FR15")
def test_phases_of_an_earlier_process_keep_their_status_after_a_resume(folder: Path, skillrun: Call) -> None:
    edit(folder / "workflows/w.md", "  one:", "  zero:\n  one:\n  two: {when: \"inputs.request == 'x'\"}\n  three:")
    for name in ("zero", "two", "three"):
        write(folder / f"skills/w/{name}.md", "---\nkind: phase\nsteps:\n  - {say: Here.}\n---\n")
    skillrun("w", "hi", "--name", "r", "--model", "scripted:default")
    write(folder / "answers.yaml", "one/end: yes\n")
    done = skillrun("resume", "r", "--answers", "answers.yaml", "--json")
    expected = {"zero": "completed", "one": "completed", "two": "skipped", "three": "completed"}
    for report in (done.json, skillrun("show", "r", "--json").json):
        assert {phase["phase"]: phase["status"] for phase in report["phases"]} == expected


LOOP = """---
kind: phase
steps:
  - id: passes
    until: pass.index == {enough}
    at_most: 3
    repeat:
      - set: {{n: "{{{{ pass.index }}}}"}}
  - {{id: out, write: out.md}}
---
## out
{{{{ passes.times }}}} {{{{ passes.exhausted }}}}
"""


@pytest.mark.parametrize(("enough", "expected"), [(2, "2 false"), (3, "3 false"), (4, "3 true")])
def test_a_loop_that_succeeds_in_its_last_pass_is_not_exhausted(
    enough: int, expected: str, folder: Path, skillrun: Call
) -> None:
    write(folder / "skills/w/one.md", LOOP.format(enough=enough))
    assert skillrun("w", "hi", "--name", "r", "--model", "scripted:default").code == 0
    assert (folder / "runs/r/out.md").read_text("utf-8").strip().lower() == expected


@pytest.mark.parametrize("home", [None, "", "relative", "/dev/null"])
def test_a_run_needs_no_home_folder(
    home: str | None, start: Start, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    assert start().code == 75
    assert skillrun("resume", "r", "--preview").code == 0


@pytest.mark.slow  # starts interpreters
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_a_terminal_that_is_not_utf_8_prints_every_text(
    encoding: str, folder: Path, process: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = process("w", "Grüße, 世界 🙂", "--name", "r", "--model", "scripted:default")
    assert (done.code, "Traceback" in done.err) == (75, False), done.err
    assert (folder / "runs/r").exists()
    assert process("show", "r").code == 0
