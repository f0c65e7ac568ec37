"""`skillrun answers`: what a run waits for is answered from another terminal, once."""

import json
from pathlib import Path

import pytest

from skillrun.store.inbox import AnswerInbox, pending_questions
from skillrun.store.local.local_run import LocalRun
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


def answered_by(run: Path) -> list[tuple[str, str]]:
    with LocalRun(run) as folder:
        entries = list(folder.read_only_journal().entries("answer"))
    return [(answer["answer"], answer["answered_by"]) for entry in entries for answer in entry.body["answers"]]


@pytest.mark.slow
def test_a_run_that_waits_takes_what_was_answered_when_it_goes_on(waiting: Path, skillrun: Call) -> None:
    done = skillrun("answers", "tea", "--answers", "answers.yaml")
    assert (done.code, done.out) == (0, "answered: 1 question\nnext: `skillrun resume tea --script script.yaml`\n")
    done = skillrun("resume", "tea", "--script", "script.yaml")
    assert (done.code, "answered from the prepared answers: which = right" in done.out) == (0, True)
    assert (waiting / "choice.md").read_text() == "It is right.\n"
    assert answered_by(waiting) == [("right", "prepared")]


def test_what_was_answered_once_is_not_answered_again(waiting: Path, folder: Path, skillrun: Call) -> None:
    assert skillrun("answers", "tea", "--answers", "answers.yaml").code == 0
    (folder / "answers.yaml").write_text("which: left\n")
    second = skillrun("answers", "tea", "--answers", "answers.yaml")
    assert second.code == 1
    assert second.err.splitlines()[0] == "error: what `tea` asks is answered already"
    assert skillrun("resume", "tea", "--script", "script.yaml").code == 0
    assert (waiting / "choice.md").read_text() == "It is right.\n"


def test_of_two_who_answer_at_a_time_the_first_one_counts(waiting: Path) -> None:
    with LocalRun(waiting) as run:
        (question,) = pending_questions(run.events())
        inboxes = [AnswerInbox(LocalRun(waiting).data().files) for _ in range(2)]
        assert inboxes[0].put(question, [{"answer": "left"}])
        assert not inboxes[1].put(question, [{"answer": "right"}])
        assert inboxes[1].answers(question.address, question.fingerprint, question.questions) == [{"answer": "left"}]


@pytest.mark.slow
def test_dev_goes_on_by_itself(folder: Path, watch: Watch, process: Call) -> None:
    dev = watch(*RUN)
    dev.until("\nwatching")
    done = process("answers", "dev-pair", "--answers", "answers.yaml")
    assert (done.code, done.out) == (0, "choice: answered from the prepared answers: which = right\nthe run goes on\n")
    heard = dev.until("\nwatching")
    assert ("choice: wrote choice.md" in heard, "2 reused, 0 asked, 1 artifact changed" in heard) == (True, True)
    assert dev.end() == 130


@pytest.mark.slow
def test_a_question_that_is_asked_in_one_terminal_is_answered_in_another(folder: Path, process: Call) -> None:
    terminal = Terminal(*RUN, "--name", "tea")
    terminal.until("2\\) right")
    done = process("answers", "tea", "--answers", "answers.yaml")
    assert (done.code, done.out.splitlines()[-1]) == (0, "the run goes on"), done.err
    assert "completed" in terminal.until("completed")
    assert terminal.end() == 0
    assert (folder / "runs" / "tea" / "choice.md").read_text() == "It is right.\n"


@pytest.mark.slow
def test_a_person_is_asked_in_a_terminal(waiting: Path, skillrun: Call) -> None:
    terminal = Terminal("answers", "tea")
    terminal.until("2\\) right")
    terminal.type("\x1b[B\r")
    assert "next: `skillrun resume tea --script script.yaml`" in terminal.until("next: .*")
    assert terminal.end() == 0
    assert skillrun("resume", "tea", "--script", "script.yaml").code == 0
    assert answered_by(waiting) == [("right", "person")]


def test_an_answer_to_a_question_that_has_changed_since_is_not_taken(
    waiting: Path, folder: Path, skillrun: Call
) -> None:
    assert skillrun("answers", "tea", "--answers", "answers.yaml").code == 0
    edit(folder / "skills" / "pair" / "choice.md", "Which one?", "Which of the two?")
    done = skillrun("resume", "tea", "--script", "script.yaml", "--yes")
    assert (done.code, "choice has a question: Which of the two?" in done.out) == (75, True)
    assert not (waiting / "choice.md").exists()


def test_the_questions_of_a_form_are_answered_too(folder: Path, skillrun: Call) -> None:
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


def test_what_can_go_wrong_is_said_with_a_next_step(waiting: Path, folder: Path, skillrun: Call) -> None:
    nobody = skillrun("answers", "tea")
    assert (nobody.code, nobody.err) == (
        2,
        """error: questions need a terminal: `which`: Which one? (left, right)
hint: run this command in a terminal, or give answers with `--answers FILE`
""",
    )
    (folder / "answers.yaml").write_text("which: rigt\n")
    wrong = skillrun("answers", "tea", "--answers", "answers.yaml")
    assert (wrong.code, wrong.err.splitlines()[-1]) == (1, "hint: did you mean `right`? allowed: left, right")
    (folder / "answers.yaml").write_text("witch: right\n")
    none = skillrun("answers", "tea", "--answers", "answers.yaml")
    assert none.code == 1
    assert "no question that waits has taken the prepared answer `witch`" in none.err
    assert not (waiting / ".run" / "inbox").exists()
    assert skillrun("answers", "toe").code == 2
    (data,) = skillrun("answers", "tea", "--json").json["questions"]
    assert (data["phase"], data["questions"][0]["choices"]) == ("choice", ["left", "right"])
    (folder / "answers.yaml").write_text("which: right\n")
    assert skillrun("resume", "tea", "--script", "script.yaml", "--answers", "answers.yaml").code == 0
    over = skillrun("answers", "tea")
    assert (over.code, over.err.splitlines()[0]) == (1, "error: no question of `tea` waits (it is completed)")


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"address": "pair/choice/which@1"}', '{"address": "x", "answers": [{"answer": "right"}]}', "\xff" * 9],
)
def test_a_file_that_holds_no_answers_is_named(waiting: Path, skillrun: Call, content: str) -> None:
    assert skillrun("answers", "tea", "--answers", "answers.yaml").code == 0
    (file,) = (waiting / ".run" / "inbox").iterdir()
    assert json.loads(file.read_text())["answers"] == [{"answer": "right", "answered_by": "prepared"}]
    file.write_text(content, encoding="latin-1")
    done = skillrun("resume", "tea", "--script", "script.yaml")
    assert (done.code, "holds no answers to `pair/choice/which@1`" in done.out) == (75, True), done.out
    assert "next: remove it, answer again, and resume with `skillrun resume tea --script script.yaml`" in done.out
    file.unlink()
    assert skillrun("answers", "tea", "--answers", "answers.yaml").code == 0
