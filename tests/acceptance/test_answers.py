"""`skillrun answers`: answers a run's open questions from another terminal, once."""

import json
from pathlib import Path

import pytest

from skillrun.store.inbox import AnswerInbox
from skillrun.store.local.local_run import LocalRun
from skillrun.store.run_history import read_history
from tests.acceptance.conftest import Call, Make
from tests.acceptance.dev.conftest import SCRIPT, Watch, edit, watch
from tests.acceptance.terminal import Terminal

__all__ = ["watch"]

pytestmark = pytest.mark.row("A1")

RUN = ("pair", "tea", "--script", "script.yaml")


@pytest.fixture
def folder(project: Make) -> Path:
    folder = project("pair")
    (folder / "script.yaml").write_text(SCRIPT.replace("delay: 2", "delay: 0.1").replace("delay: 0.3", "delay: 0"))
    (folder / "answers.yaml").write_text("which: right\n")
    return folder


@pytest.fixture
def waiting(folder: Path, skillrun: Call) -> Path:
    """A run that has ended at a question."""
    assert skillrun(*RUN, "--name", "tea").code == 75
    return folder / "runs" / "tea"


def recorded_answers(run: Path) -> list[tuple[str, str]]:
    with LocalRun(run) as folder:
        entries = list(folder.read_journal().entries("answer"))
    return [(answer["answer"], answer["answered_by"]) for entry in entries for answer in entry.body["answers"]]


@pytest.mark.slow
def test_a_waiting_run_uses_its_answers_when_it_resumes(waiting: Path, skillrun: Call) -> None:
    done = skillrun("answers", "tea", "--answers", "answers.yaml")
    assert (done.code, done.out) == (0, "answered: 1 question\nnext: `skillrun resume tea --script script.yaml`\n")
    done = skillrun("resume", "tea", "--script", "script.yaml")
    assert (done.code, "answered from the prepared answers: which = right" in done.out) == (0, True)
    assert (waiting / "choice.md").read_text() == "It is right.\n"
    assert recorded_answers(waiting) == [("right", "prepared")]


def test_an_answered_question_cannot_be_answered_again(waiting: Path, folder: Path, skillrun: Call) -> None:
    assert skillrun("answers", "tea", "--answers", "answers.yaml").code == 0
    (folder / "answers.yaml").write_text("which: left\n")
    second = skillrun("answers", "tea", "--answers", "answers.yaml")
    assert second.code == 1
    assert second.err.splitlines()[0] == "error: the questions of `tea` are already answered"
    assert skillrun("resume", "tea", "--script", "script.yaml").code == 0
    assert (waiting / "choice.md").read_text() == "It is right.\n"


def test_the_first_of_two_concurrent_answers_counts(waiting: Path) -> None:
    with LocalRun(waiting) as run:
        (question,) = read_history(run.events()).waiting
        inboxes = [AnswerInbox(LocalRun(waiting).data().files) for _ in range(2)]
        assert inboxes[0].put(question, [{"answer": "left"}])
        assert not inboxes[1].put(question, [{"answer": "right"}])
        assert inboxes[1].answers(question.address, question.fingerprint, question.questions) == [{"answer": "left"}]


@pytest.mark.slow
def test_dev_continues_after_an_answer(folder: Path, watch: Watch, process: Call) -> None:
    dev = watch(*RUN)
    dev.until("\nwatching")
    done = process("answers", "dev-pair", "--answers", "answers.yaml")
    assert (done.code, done.out) == (
        0,
        "choice: answered from the prepared answers: which = right\nthe run continues\n",
    )
    output = dev.until("\nwatching")
    assert ("choice: wrote choice.md" in output, "2 reused, 0 made; 1 artifact changed" in output) == (True, True)
    assert dev.end() == 130


@pytest.mark.slow
def test_a_question_in_one_terminal_can_be_answered_in_another(folder: Path, process: Call) -> None:
    terminal = Terminal(*RUN, "--name", "tea")
    terminal.until("2\\) right")
    done = process("answers", "tea", "--answers", "answers.yaml")
    assert (done.code, done.out.splitlines()[-1]) == (0, "the run continues"), done.err
    assert "completed" in terminal.until("completed")
    assert terminal.end() == 0
    assert (folder / "runs" / "tea" / "choice.md").read_text() == "It is right.\n"


@pytest.mark.slow
def test_a_user_is_asked_in_a_terminal(waiting: Path, skillrun: Call) -> None:
    terminal = Terminal("answers", "tea")
    terminal.until("2\\) right")
    terminal.type("\x1b[B\r")
    assert "next: `skillrun resume tea --script script.yaml`" in terminal.until("next: .*")
    assert terminal.end() == 0
    assert skillrun("resume", "tea", "--script", "script.yaml").code == 0
    assert recorded_answers(waiting) == [("right", "person")]


def test_an_answer_to_a_question_that_has_changed_is_not_used(waiting: Path, folder: Path, skillrun: Call) -> None:
    assert skillrun("answers", "tea", "--answers", "answers.yaml").code == 0
    edit(folder / "skills" / "pair" / "choice.md", "Which one?", "Which of the two?")
    done = skillrun("resume", "tea", "--script", "script.yaml", "--yes")
    assert (done.code, "choice has a question: Which of the two?" in done.out) == (75, True)
    assert not (waiting / "choice.md").exists()


def test_the_questions_of_a_form_can_be_answered(folder: Path, skillrun: Call) -> None:
    edit(
        folder / "skills" / "pair" / "choice.md",
        "{id: which, ask: {text: Which one?, choices: [left, right]}}",
        "{id: which, ask: [{id: which, text: Which one?, choices: [left, right]}], form: which.md}",
    )
    edit(folder / "skills" / "pair" / "choice.md", "which.answer |", "which.answers[0].answer |")
    assert skillrun(*RUN, "--name", "tea").code == 75
    assert (folder / "runs" / "tea" / "which.md").is_file()
    assert skillrun("answers", "tea", "--answers", "answers.yaml").code == 0
    done = skillrun("resume", "tea", "--script", "script.yaml")
    assert done.code == 0, done.out
    assert (folder / "runs" / "tea" / "choice.md").read_text() == "It is right.\n"


def test_errors_include_a_next_step(waiting: Path, folder: Path, skillrun: Call) -> None:
    unattended = skillrun("answers", "tea")
    assert (unattended.code, unattended.err) == (
        2,
        """error: answering questions needs a terminal: `choice/which`: Which one? (left, right)
hint: run this command in a terminal, or give answers with `--answers FILE`
""",
    )
    (folder / "answers.yaml").write_text("which: rigt\n")
    invalid = skillrun("answers", "tea", "--answers", "answers.yaml")
    assert (invalid.code, invalid.err.splitlines()[-1]) == (1, "hint: did you mean `right`? allowed: left, right")
    (folder / "answers.yaml").write_text("witch: right\n")
    unused = skillrun("answers", "tea", "--answers", "answers.yaml")
    assert unused.code == 1
    assert "no open question used the prepared answer `witch`" in unused.err
    assert not (waiting / ".run" / "inbox").exists()
    assert skillrun("answers", "toe").code == 2
    (data,) = skillrun("answers", "tea", "--json").json["questions"]
    assert (data["phase"], data["questions"][0]["choices"]) == ("choice", ["left", "right"])
    (folder / "answers.yaml").write_text("which: right\n")
    assert skillrun("resume", "tea", "--script", "script.yaml", "--answers", "answers.yaml").code == 0
    finished = skillrun("answers", "tea")
    assert (finished.code, finished.err.splitlines()[0]) == (1, "error: `tea` has no open questions (it is completed)")


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"address": "pair/choice/which@1"}', '{"address": "x", "answers": [{"answer": "right"}]}', "\xff" * 9],
)
def test_an_invalid_answer_file_is_named(waiting: Path, skillrun: Call, content: str) -> None:
    assert skillrun("answers", "tea", "--answers", "answers.yaml").code == 0
    (file,) = (waiting / ".run" / "inbox").iterdir()
    assert json.loads(file.read_text())["answers"] == [{"answer": "right", "answered_by": "prepared"}]
    file.write_text(content, encoding="latin-1")
    done = skillrun("resume", "tea", "--script", "script.yaml")
    assert (done.code, "contains no valid answers to `pair/choice/which@1`" in done.out) == (75, True), done.out
    assert "next: remove it, answer again, and resume with `skillrun resume tea --script script.yaml`" in done.out
    file.unlink()
    assert skillrun("answers", "tea", "--answers", "answers.yaml").code == 0
