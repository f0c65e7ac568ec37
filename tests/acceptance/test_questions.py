"""Questions to the user: forms filled in offline, and prompts in a real terminal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.terminal import Terminal

Call = Callable[..., Any]
TRIP = {
    "workflows/trip.md": """---
name: trip
description: Asks where to go.
phases: {asking: }
---
""",
    "skills/trip/asking.md": """---
kind: phase
description: Asks on paper.
steps:
  - id: trip
    ask:
      - {id: where, text: Where to?, choices: [The lake, The hills, The town], priority: CRITICAL, section: Place}
      - {id: what, text: What do you take along?, choices: [Boots, A boat], multiple: true, other: true}
      - {id: who, text: Who comes along?, default: ""}
    form: QUESTIONS-001.md
  - {id: note, write: trip.md}
outputs:
  open: "{{ trip.answers | rejectattr('answer', 'defined') | list | length }}"
---
## note
{% for one in trip.answers %}{{ one.id }}: {{ one.answer | default('-') }}
{% endfor %}
""",
}


class Prefix(str):
    """Equal to any line that starts with it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.startswith(str(self))

    __hash__ = str.__hash__


@pytest.fixture
def trip(project: Call) -> Path:
    folder: Path = project()
    for name, text in TRIP.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "runs" / "trip"


@pytest.mark.row("R5")
@pytest.mark.row("R6")
def test_a_form_pauses_the_run_and_its_answers_resume_it(trip: Path, skillrun: Call) -> None:
    done = skillrun("trip", "--model", "scripted:default")
    form = trip / "QUESTIONS-001.md"
    assert (done.code, "waiting: questions are waiting in QUESTIONS-001.md" in done.out) == (75, True)
    assert f"next: fill in {form}, then resume with `skillrun resume trip`" in done.out
    assert skillrun("resume", "trip").code == 75
    form.write_text(form.read_text().replace("[ ] B. The hills", "[X] B. The hills").replace("Other:", "Other: a map"))
    done = skillrun("resume", "trip", "--json")
    assert (done.code, done.json["phases"][0]["outputs"]) == (0, {"open": 1})
    assert (trip / "trip.md").read_text() == 'where: The hills\nwhat: ["a map"]\nwho: -\n'


@pytest.mark.row("R6")
@pytest.mark.finding("FR90")
def test_a_folder_in_place_of_the_form_waits_until_it_is_moved(trip: Path, skillrun: Call) -> None:
    assert skillrun("trip", "--model", "scripted:default").code == 75
    form = trip / "QUESTIONS-001.md"
    form.unlink()
    form.mkdir()
    for _ in range(2):
        done = skillrun("resume", "trip")
        assert (done.code, f"the form {form} cannot be read: Is a directory" in done.out) == (75, True), done.out
        assert f"next: move {form} away" in done.out
    form.rmdir()
    assert skillrun("resume", "trip").code == 75
    form.write_text(form.read_text().replace("[ ] B. The hills", "[x] B. The hills"))
    assert skillrun("resume", "trip").code == 0


@pytest.mark.finding("FR90")
def test_a_too_long_answer_is_reported_with_the_limit(trip: Path, skillrun: Call) -> None:
    assert skillrun("trip", "--model", "scripted:default").code == 75
    form = trip / "QUESTIONS-001.md"
    empty = form.read_text()
    before, _, after = empty.rpartition("Answer:")
    form.write_text(f"{before}Answer: {'word ' * 160_000}{after}")
    done = skillrun("resume", "trip")
    assert done.code == 75, done.out + done.err
    assert "Q3: the answer has 799,999 characters; at most 100,000 are allowed; shorten the answer" in done.out
    form.write_text(f"Note. {'word ' * 160_000}\n{empty}")
    assert "characters outside of the questions" in skillrun("resume", "trip").out
    form.write_text(f"{before}Answer: Ada{after}")
    assert skillrun("resume", "trip").code == 0


def test_an_unclear_answer_is_reported_with_its_line_and_the_form_is_unchanged(trip: Path, skillrun: Call) -> None:
    skillrun("trip", "--model", "scripted:default")
    form = trip / "QUESTIONS-001.md"
    form.write_text(form.read_text().replace("Answer:", "Answer: D", 1))
    before = form.read_bytes()
    done = skillrun("resume", "trip")
    assert done.code == 75
    assert "QUESTIONS-001.md:17: Q1: `D` is not one of the choices" in done.out
    assert form.read_bytes() == before


@pytest.mark.slow
@pytest.mark.row("R6")
def test_an_unclear_answer_is_clarified_in_a_terminal(trip: Path, skillrun: Call) -> None:
    skillrun("trip", "--model", "scripted:default")
    form = trip / "QUESTIONS-001.md"
    form.write_text(form.read_text().replace("Answer:", "Answer: A or C", 1).replace("[ ] B. A boat", "[x] B. A boat"))
    terminal = Terminal("resume", "trip")
    terminal.until("`A or C` is not one of the choices")
    terminal.until("The town")
    terminal.type("3\r")
    assert terminal.end() == 0
    assert (trip / "trip.md").read_text() == 'where: The town\nwhat: ["A boat"]\nwho: -\n'


@pytest.mark.slow
@pytest.mark.row("R5")
def test_terminal_questions_accept_numbers_keys_and_text_and_go_back(trip: Path, skillrun: Call) -> None:
    phase = Path("skills/trip/asking.md")
    phase.write_text(phase.read_text().replace("    form: QUESTIONS-001.md\n", ""))
    terminal = Terminal("trip", "--model", "scripted:default")
    terminal.until(r"(?s)asking · 1 of 3 · CRITICAL · Place.*The town")
    terminal.type("2\r")
    terminal.until(r"(?s)asking · 2 of 3 · Shift-Tab goes back.*A boat")
    terminal.type("\x1b[B \x1b[B \r")  # down, tick, down, tick, Enter
    terminal.until("In your own words")
    terminal.type("a map\r")
    terminal.until(r"(?s)asking · 3 of 3.*Who")
    terminal.type("Ann\x1b[Z")
    terminal.until(r"(?s)3 of 3.*2 of 3.*A boat")
    terminal.type("\x1b[Z")
    terminal.until(r"(?s)3 of 3.*1 of 3.*The town")
    terminal.type("\x1b[B\r")  # from the hills to the town
    terminal.until(r"(?s)3 of 3.*1 of 3.*2 of 3.*A boat")
    terminal.type("\r")
    terminal.until(r"(?s)1 of 3.*1 of 3.*2 of 3.*In your own words.*a map")
    terminal.type("\r")
    terminal.until(r"(?s)3 of 3.*3 of 3.*Who")
    terminal.type("\r")
    assert terminal.end() == 0
    assert (trip / "trip.md").read_text() == 'where: The town\nwhat: ["A boat", "a map"]\nwho: Ann\n'


@pytest.mark.slow
@pytest.mark.row("R5")
@pytest.mark.finding("FR9")
def test_ctrl_c_pauses_the_run_and_keeps_the_answers(trip: Path, skillrun: Call) -> None:
    phase = Path("skills/trip/asking.md")
    phase.write_text(phase.read_text().replace("    form: QUESTIONS-001.md\n", ""))
    terminal = Terminal("trip", "--model", "scripted:default")
    terminal.until("The town")
    terminal.type("2\r")
    terminal.until("A boat")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "next: resume with `skillrun resume trip`" in terminal.seen
    again = Terminal("resume", "trip")
    again.until("(?s)2 of 3.*A boat")
    again.type("\x1b[Z")
    again.until("(?s)2 of 3.*1 of 3.*The town")
    again.type("\x1b[B\r")  # from the hills to the town
    again.until("(?s)1 of 3.*2 of 3.*A boat")
    again.type(" \r")
    again.until("(?s)3 of 3.*Who")
    again.type("\r")
    assert again.end() == 0
    assert (trip / "trip.md").read_text() == 'where: The town\nwhat: ["Boots"]\nwho: -\n'


@pytest.mark.slow
@pytest.mark.row("R5")
@pytest.mark.finding("FR41")
@pytest.mark.parametrize("command", ["resume", "answers"])
def test_answers_of_the_terminal_stay_when_a_file_answers_the_rest(trip: Path, skillrun: Call, command: str) -> None:
    phase = Path("skills/trip/asking.md")
    phase.write_text(phase.read_text().replace("    form: QUESTIONS-001.md\n", ""))
    terminal = Terminal("trip", "--model", "scripted:default")
    terminal.until("The town")
    terminal.type("2\r")
    terminal.until("A boat")
    terminal.type("\x03")
    assert terminal.end() == 130
    done = skillrun("resume", "trip")
    assert (done.code, "put `asking/trip/where: " in done.out, "put `asking/trip/what: " in done.out) == (
        75,
        False,
        True,
    ), done.out
    Path("answers.yaml").write_text("where: The town\nwhat: Boots\nwho: Ann\n")
    done = skillrun(command, "trip", "--answers", "answers.yaml")
    assert done.code == 0
    kept = "`where` was already answered with `The hills`, so the prepared answer `The town` was not used"
    assert f"warning: {kept}" in done.out + done.err
    assert command == "resume" or skillrun("resume", "trip").code == 0
    assert (trip / "trip.md").read_text() == 'where: The hills\nwhat: ["Boots"]\nwho: Ann\n'


@pytest.mark.slow
@pytest.mark.row("R5")
@pytest.mark.finding("FR9")
@pytest.mark.parametrize("in_terminal", [True, False])
def test_answers_to_a_form_in_a_terminal_are_kept(trip: Path, skillrun: Call, in_terminal: bool) -> None:
    terminal = Terminal("trip", "--model", "scripted:default", "--interactive")
    terminal.until("The town")
    terminal.type("2\r")
    terminal.until("A boat")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "next: resume with `skillrun resume trip`" in terminal.seen
    if in_terminal:
        again = Terminal("resume", "trip")
        again.until("(?s)2 of 3.*A boat")
        again.type(" \r")
        again.until("(?s)3 of 3.*Who")
        again.type("\r")
        assert again.end() == 0
    else:
        assert skillrun("resume", "trip").code == 75
        form = trip / "QUESTIONS-001.md"
        form.write_text(form.read_text().replace("- [ ] A. Boots", "- [x] A. Boots"))
        assert skillrun("resume", "trip").code == 0
    assert (trip / "trip.md").read_text() == 'where: The hills\nwhat: ["Boots"]\nwho: -\n'


@pytest.mark.slow
@pytest.mark.row("R5")
@pytest.mark.finding("FR9")
def test_interactive_allows_form_questions_to_stay_open(trip: Path, skillrun: Call) -> None:
    terminal = Terminal("trip", "--model", "scripted:default", "--interactive")
    terminal.until("(?s)1 of 3.*leave it open")
    terminal.type("4\r")
    terminal.until("(?s)2 of 3.*A boat")
    terminal.type("\r")
    terminal.until("(?s)3 of 3.*Who")
    terminal.type("TBD\r")
    assert terminal.end() == 0
    assert (trip / "trip.md").read_text() == "where: -\nwhat: -\nwho: -\n"


@pytest.mark.row("R6")
def test_prepared_answers_replace_the_form(trip: Path, skillrun: Call, tmp_path: Path) -> None:
    skillrun("trip", "--model", "scripted:default")
    (tmp_path / "answers.yaml").write_text("where: The lake\nwhat: [Boots]\nwho: Ann\n")
    assert skillrun("resume", "trip", "--answers", str(tmp_path / "answers.yaml")).code == 0
    assert (trip / "trip.md").read_text() == 'where: The lake\nwhat: ["Boots"]\nwho: Ann\n'


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (
            "{where: The town, sure: yes}",
            ["`where` was already answered with `The lake`, so the prepared answer `The town`"],
        ),
        ("{where: the lake, what: {answer: [Boots, A boat]}}", ["`what` was already answered with `Boots`, so the"]),
        (
            "{what: [A boat]}",
            ["`what` was already answered with `Boots`, so the prepared answer `A boat` was not used"],
        ),
        ("{who: Ann}", ["`who` was already left open, so the prepared answer `Ann` was not used"]),
        ("{where: The lake, what: [Boots], who: TBD}", []),
        ("{where: [The town, The hills]}", []),
    ],
)
def test_a_prepared_answer_that_contradicts_an_earlier_answer_is_reported_at_the_end(
    trip: Path, skillrun: Call, text: str, warnings: list[str]
) -> None:
    phase = Path("skills/trip/asking.md")
    phase.write_text(phase.read_text().replace("  - {id: note", "  - {id: sure, ask: Sure?}\n  - {id: note"))
    Path("a.yaml").write_text("{where: The lake, what: [Boots], who: ''}")
    done = skillrun("trip", "--model", "scripted:default", "--answers", "a.yaml")
    assert (done.code, "was already" in done.out) == (75, False), done.out
    Path("a.yaml").write_text(text)
    done = skillrun("resume", "trip", "--answers", "a.yaml")
    assert [line.removeprefix("warning: ") for line in done.out.splitlines() if "was already" in line] == [
        *map(Prefix, warnings)
    ], done.out


def test_a_misspelt_question_name_in_the_answers_is_reported_at_the_start(trip: Path, skillrun: Call) -> None:
    Path("answers.yaml").write_text("where: The lake\nwaht: [Boots]\n")
    done = skillrun("trip", "--answers", "answers.yaml", "--model", "scripted:default")
    assert "answers.yaml:2:1: warning[unknown-question]: no question has the name `waht`" in done.err
    assert "hint: did you mean `what`?" in done.err
    assert done.code == 75


@pytest.mark.row("R6")
def test_a_form_with_other_questions_is_not_used(trip: Path, skillrun: Call) -> None:
    skillrun("trip", "--model", "scripted:default")
    form = trip / "QUESTIONS-001.md"
    form.write_text(form.read_text().replace("Answer:", "Answer: A", 1))
    phase = Path("skills/trip/asking.md")
    phase.write_text(phase.read_text().replace("id: where, text: Where to?", "id: whence, text: Where from?"))
    done = skillrun("resume", "trip")
    assert done.code == 75
    assert "the question has changed to `Q1 · CRITICAL · Place · whence`; move this file away" in done.out


@pytest.mark.parametrize(
    ("pattern", "created"), [("maps/town/*.md", "maps/town"), ("maps/*/[ab].md", "maps"), ("**/map.md", ".")]
)
def test_the_folder_for_requested_files_is_created_up_to_the_first_wildcard(
    trip: Path, skillrun: Call, pattern: str, created: str
) -> None:
    step = f'  - {{id: map, ask: Put a map there., files: "{pattern}"}}\n'
    asking = f"---\nkind: phase\nsteps:\n{step}---\n"
    (trip.parents[1] / "skills" / "trip" / "asking.md").write_text(asking)
    assert skillrun("trip", "--model", "scripted:default").code == 75
    folders = {path.relative_to(trip).as_posix() for path in trip.rglob("*") if path.is_dir()}
    assert folders - {".run", "summaries"} == {created, Path(created).parent.as_posix()} - {"."}


@pytest.mark.slow
def test_files_read_in_a_later_round_are_not_reported_as_late(project: Call, skillrun: Call) -> None:
    folder = project()
    for path, text in {
        "workflows/mail.md": "---\nname: mail\ninputs: {topic: string}\nphases:\n  post:\n  back:\n  last:\n---\n",
        "skills/mail/post.md": '---\nkind: phase\nsteps:\n  - {id: letters, ask: Put them in., files: "in/*.md"}\n'
        "  - {say: \"read {{ letters.answer or 'none' }}\"}\n---\n",
        "skills/mail/back.md": "---\nkind: phase\nsteps:\n  - {id: more, ask: More?, choices: [again, enough]}\n"
        "  - {when: more.answer == 'again', goto: post, at_most: 1}\n---\n",
        "skills/mail/last.md": "---\nkind: phase\nsteps:\n  - {id: sure, ask: Sure?}\n---\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    assert skillrun("mail", "tea", "--name", "r", "--model", "scripted:default").code == 75
    letters = folder / "runs" / "r" / "in"
    (letters / "a.md").write_text("A.\n", encoding="utf-8")
    assert skillrun("resume", "r").code == 75
    (letters / "b.md").write_text("B.\n", encoding="utf-8")
    (folder / "answers.yaml").write_text("more: [again, enough]\n", encoding="utf-8")
    done = skillrun("resume", "r", "--answers", "answers.yaml")
    assert (done.code, "read in/a.md, in/b.md" in done.out) == (75, True), done.out
    assert "came after" not in skillrun("resume", "r").out


@pytest.mark.slow
def test_an_invalid_answer_waits_even_if_its_form_changed_after_it_was_read(project: Call, skillrun: Call) -> None:
    folder = project()
    for path, text in {
        "workflows/ask.md": "---\nname: ask\ninputs: {third: string}\nphases:\n  one:\n---\n",
        "skills/ask/one.md": "---\nkind: phase\nsteps:\n  - set: {options: \"{{ ['red', 'blue', inputs.third] }}\"}\n"
        '  - {id: colour, ask: Which?, choices: "{{ options }}", form: form.md}\n  - {id: sure, ask: Sure?}\n---\n',
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    assert skillrun("ask", "green", "--name", "r", "--model", "scripted:default").code == 75
    form = folder / "runs" / "r" / "form.md"
    form.write_text(form.read_text(encoding="utf-8").replace("[ ] A", "[x] A"), encoding="utf-8")
    assert "Sure?" in skillrun("resume", "r").out
    form.write_text(form.read_text(encoding="utf-8").replace("[ ] B", "[x] B"), encoding="utf-8")
    (folder / "answers.yaml").write_text("colour: violet\n", encoding="utf-8")
    done = skillrun("resume", "r", "--answers", "answers.yaml")
    assert (done.code, "`skillrun resume r --answers answers.yaml`" in done.out) == (75, True), done.out


def test_a_run_waiting_in_several_phases_lists_each_question(project: Call, skillrun: Call) -> None:
    folder = project()
    phase = "---\nkind: phase\nsteps:\n  - {id: NAME, ask: What of NAME?}\n---\n"
    for path, text in {
        "workflows/pair.md": "---\nname: pair\nparallel: true\nphases:\n  first:\n  one: {after: first}\n"
        "  two: {after: first}\n---\n",
        "skills/pair/first.md": "---\nkind: phase\nsteps:\n  - {say: Begun.}\n---\n",
        **{f"skills/pair/{name}.md": phase.replace("NAME", name) for name in ("one", "two")},
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    done = skillrun("pair", "--name", "r", "--model", "scripted:default")
    assert done.code == 75
    assert [done.out.count(f"What of {name}?") for name in ("one", "two")] == [1, 1], done.out


TWICE = {
    "workflows/ask.md": "---\nname: ask\ninputs: {words: string}\nphases:\n  one:\n---\n",
    "skills/ask/one.md": """---
kind: phase
steps:
  - id: first
    form: form.md
    ask:
      - {id: colour, text: Which colour?, choices: [red, blue]}
      - {id: size, text: Which size?, choices: [small, large]}
  - {id: sure, ask: Sure?}
---
""",
}


@pytest.mark.slow
@pytest.mark.finding("FR3")
def test_a_resolved_conflict_in_a_form_is_not_reported_with_a_later_one(project: Call, skillrun: Call) -> None:
    folder = project()
    for path, text in TWICE.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    assert skillrun("ask", "it", "--name", "r", "--model", "scripted:default").code == 75
    form = folder / "runs" / "r" / "form.md"
    first, heading, second = form.read_text(encoding="utf-8").partition("## Q2")
    form.write_text(first.replace("[ ]", "[x]", 2) + heading + second, encoding="utf-8")
    (folder / "answers.yaml").write_text("colour: red\n", encoding="utf-8")
    assert "Sure?" in skillrun("resume", "r", "--answers", "answers.yaml").out
    text = form.read_text(encoding="utf-8")
    form.write_text(text.partition("## Q2")[0] + heading + second.replace("[ ]", "[x]", 2), encoding="utf-8")
    conflict = skillrun("resume", "r")
    assert ("Q2: `small` and `large`" in conflict.out, "Q1:" in conflict.out) == (True, False), conflict.out
    (folder / "answers.yaml").write_text("size: large\nsure: yes\n", encoding="utf-8")
    assert skillrun("resume", "r", "--answers", "answers.yaml").code == 0
    log = skillrun("logs", "r").out
    assert "size = large" in log
    assert "Q1" not in skillrun("show", "r").out


@pytest.mark.finding("FP4")
def test_an_optional_file_question_without_files_reports_its_default(project: Call, skillrun: Call) -> None:
    folder = project()
    phase = '---\nkind: phase\nsteps:\n  - {id: brought, ask: Bring them., files: "in/*.md", default: none}\n---\n'
    for path, text in {**TWICE, "skills/ask/one.md": phase}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    done = skillrun("ask", "it", "--name", "r", "--model", "scripted:default", "--unattended")
    assert (done.code, "default used without asking: brought = go on without it" in done.out) == (0, True), done.out


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "binary": (b"\x89PNG\r\n\x1a\n\0\0" + bytes(range(256)) * 40, "is not readable as text"),
    "null byte": (b"Seats\0 are empty.\n", "is not readable as text"),
    "Latin-1": ("Im Caf\xe9 ist Platz.\n".encode("latin-1"), "is not readable as text"),
    "UTF-16 without a mark": ("Seats are empty.\n".encode("utf-16-le"), "is not readable as text"),
    "damaged at the end": (b"Seats are empty.\n" * 10_000 + b"\xff", "is not readable as text"),
    "too large": (b"Seats are empty.\n" * 300_000, "is larger than 5,000,000 bytes"),
}


@pytest.mark.finding("FR88")
@pytest.mark.parametrize(("content", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_cannot_be_read_leaves_the_question_open(
    project: Call, skillrun: Call, content: bytes, why: str
) -> None:
    folder = project()
    phase = (
        '---\nkind: phase\nsteps:\n  - {id: brought, ask: Bring them., files: "in/*.md"}\n'
        "  - {id: texts, read: in/*.md}\n  - {say: 'It says {{ texts.text }}'}\n---\n"
    )
    for path, text in {**TWICE, "skills/ask/one.md": phase}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    assert skillrun("ask", "it", "--name", "r", "--model", "scripted:default").code == 75
    file = folder / "runs" / "r" / "in" / "a.md"
    file.write_bytes(content)
    for _ in range(2):
        done = skillrun("resume", "r")
        assert (done.code, f"`in/a.md` {why}" in done.out) == (75, True), done.out + done.err
    file.write_text("Now it is readable.\n", encoding="utf-8")
    done = skillrun("resume", "r")
    assert (done.code, "It says Now it is readable." in done.out) == (0, True), done.out + done.err


@pytest.mark.finding("FL4")
@pytest.mark.parametrize(("default", "code"), [("true", 1), ("false", 0)])
def test_an_absent_panel_input_uses_the_default_of_the_protocol(
    default: str, code: int, project: Call, skillrun: Call
) -> None:
    protocol = (
        "---\nkind: protocol\ndescription: Asks.\nseats: {members: 1..2}\n"
        f"inputs:\n  sure: {{type: boolean, default: {default}}}\n  kind?(enum): [a, b]\nsteps:\n"
        "  - {id: really, when: inputs.sure, ask: Really?}\n"
        "  - {id: said, agent: \"{{ seats.members }}\"}\noutputs: {said: '{{ said.text }} {{ inputs.kind or 1 }}'}\n"
        "---\n## said\nSay.\n"
    )
    head = "inputs: {sure?: boolean, kind?(enum): [a, b]}\n"
    arguments = '{sure: "{{ inputs.sure }}", kind: "{{ inputs.kind }}"}'
    files = {
        "skills/protocols/asks.md": protocol,
        "workflows/desk.md": f"---\nname: desk\ndescription: Tried.\n{head}phases:\n  one:\n---\n",
        "skills/desk/one.md": (
            f"---\nkind: phase\nsteps:\n  - {{id: look, panel: [clerk], protocol: asks, with: {arguments}}}\n---\n"
        ),
        "roles/clerk.md": "---\nname: clerk\n---\nYou answer.\n",
    }
    folder = project()
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    done = skillrun("desk", "--unattended", "--model", "scripted:default")
    assert done.code == code, done.out + done.err
    assert ("really" in done.err) is (code == 1)


@pytest.mark.finding("NC8")
def test_a_question_without_default_and_skip_always_has_an_answer(project: Call, skillrun: Call) -> None:
    folder = project()
    for name, text in {
        "workflows/cause.md": "---\nname: cause\ndescription: Asks why.\nphases: {asking: }\n---\n",
        "skills/cause/asking.md": (
            "---\nkind: phase\nsteps:\n  - {id: why, ask: Why?}\n  - {say: '{{ why.answer }}'}\n---\n"
        ),
    }.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    answers = folder / "answers.yaml"
    answers.write_text("why: ''\n")
    empty = skillrun("cause", "--name", "a", "--answers", str(answers))
    assert empty.code == 75
    assert (
        ":1:6: the answer is empty, but the question requires an answer, for `why` of `asking/why`"
        in empty.err + empty.out
    )
    assert skillrun("answers", "a", "--answers", str(answers)).code != 0
    answers.write_text("why: don't know\n")  # a text that leaves optional questions open
    done = skillrun("resume", "a", "--answers", str(answers))
    assert done.code == 0, done.err
    assert "asking: don't know" in done.out + done.err
