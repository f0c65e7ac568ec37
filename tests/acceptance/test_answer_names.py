"""Prepared answers by short names: which question they answer, and which names are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import Call, Make

WORKFLOW = """---
name: gate
parallel: true
phases:
  left:
  right: {after: []}
  end: {after: [left, right]}
---
Gates.
"""
SIDE = """---
kind: phase
steps:
  - {id: text, agent: host}
  - {id: ok, ask: "May it go?", choices: [approve, reject]}
---
## text
Write a note.
"""
END = """---
kind: phase
steps:
  - id: rounds
    until: sure.answer == 'approve'
    at_most: 3
    repeat:
      - {id: sure, ask: "Is it good?", choices: [approve, reject]}
  - {id: final, ask: "Publish?", choices: [approve, reject]}
  - {goto: end, when: "final.answer == 'reject'", at_most: 1}
  - {id: out, write: out.md}
---
## out
{{ rounds.times }} {{ final.answer }}
"""
RUN = ("gate", "--name", "g", "--model", "scripted:default")
RESUME = ("resume", "g", "--answers", "answers.yaml")
SIDES = "left/ok: approve\nright/ok: approve\n"


@pytest.fixture
def folder(project: Make) -> Path:
    folder = project()
    (folder / "roles").mkdir()
    (folder / "roles" / "host.md").write_text("---\nname: host\ndescription: Writes.\nmodel: fast\n---\nYou write.\n")
    files = {"left": SIDE, "right": SIDE, "end": END}
    for path, text in {"workflows/gate.md": WORKFLOW, **{f"skills/gate/{n}.md": t for n, t in files.items()}}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.mark.finding("FX2")
def test_an_answer_to_a_question_in_several_phases_is_refused(folder: Path, skillrun: Call) -> None:
    (folder / "answers.yaml").write_text("ok: approve\n")
    message = "answers.yaml:1:1: error[ambiguous]: `ok` may mean `left/ok` or `right/ok`"
    started = skillrun(*RUN, "--answers", "answers.yaml")
    assert (started.code, message in started.err, (folder / "runs").exists()) == (1, True, False)
    waiting = skillrun(*RUN)
    assert (waiting.code, "put `left/ok: approve` (or: reject) into answers.yaml" in waiting.out) == (75, True)
    resumed = skillrun(*RESUME)
    assert (resumed.code, message in resumed.err) == (2, True)
    answered = skillrun("answers", "g", "--answers", "answers.yaml")
    assert (answered.code, message in answered.err) == (2, True)
    listed = skillrun("questions").out
    assert ("g  left/ok: May it go?" in listed, "g  right/ok: May it go?" in listed) == (True, True)


@pytest.mark.finding("FX2")
def test_an_answer_to_a_pass_that_waited_does_not_answer_the_next_pass(folder: Path, skillrun: Call) -> None:
    answers = folder / "answers.yaml"
    answers.write_text(SIDES)
    assert "put `end/rounds#1/sure: approve`" in skillrun(*RUN, "--answers", "answers.yaml").out
    answers.write_text(SIDES + "sure: reject\n")
    for _ in range(2):  # the second time, the second pass has been shown, but the answer is the same as before
        waiting = skillrun(*RESUME)
        assert (waiting.code, "put `end/rounds#2/sure: approve`" in waiting.out) == (75, True), waiting
        line = "warning: `sure` answers an earlier question, so it does not answer `end/rounds#2/sure`"
        assert line in waiting.out
    answers.write_text(SIDES + "sure: approve\n")  # written after the second pass was shown
    assert "put `end/final: approve`" in skillrun(*RESUME).out


@pytest.mark.finding("FX2")
def test_an_answer_to_a_question_that_waited_does_not_answer_it_in_the_next_round(folder: Path, skillrun: Call) -> None:
    answers = folder / "answers.yaml"
    answers.write_text(SIDES + "end/rounds/sure: approve\n")
    assert "put `end/final: approve`" in skillrun(*RUN, "--answers", "answers.yaml").out
    answers.write_text(SIDES + "end/rounds/sure: approve\nend/final: reject\n")
    waiting = skillrun(*RESUME)
    assert (waiting.code, "put `end/final@2: approve`" in waiting.out) == (75, True), waiting
    answers.write_text(answers.read_text() + "end/final@2: approve\n")
    assert skillrun(*RESUME).code == 0
    assert (folder / "runs" / "g" / "out.md").read_text() == "1 approve\n"


@pytest.mark.finding("FX2")
def test_an_answer_prepared_before_the_start_answers_each_pass(folder: Path, skillrun: Call) -> None:
    (folder / "answers.yaml").write_text(SIDES + "sure: reject\nfinal: approve\n")
    assert skillrun(*RUN, "--answers", "answers.yaml").code == 0
    assert (folder / "runs" / "g" / "out.md").read_text() == "3 approve\n"
