"""The person's part: forms that are filled in offline, and questions in a real terminal."""

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


@pytest.fixture
def trip(project: Call) -> Path:
    folder: Path = project()
    for name, text in TRIP.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "runs" / "trip"


@pytest.mark.row("R5")
@pytest.mark.row("R6")
def test_a_form_ends_the_run_and_its_answers_go_on_with_it(trip: Path, skillrun: Call) -> None:
    done = skillrun("trip", "--model", "scripted:default")
    form = trip / "QUESTIONS-001.md"
    assert (done.code, "waiting: questions are waiting in QUESTIONS-001.md" in done.out) == (75, True)
    assert f"next: fill in {form}, then go on with `skillrun resume trip`" in done.out
    assert skillrun("resume", "trip").code == 75
    form.write_text(form.read_text().replace("[ ] B. The hills", "[X] B. The hills").replace("Other:", "Other: a map"))
    done = skillrun("resume", "trip", "--json")
    assert (done.code, done.json["phases"][0]["outputs"]) == (0, {"open": 1})
    assert (trip / "trip.md").read_text() == 'where: The hills\nwhat: ["a map"]\nwho: -\n'


@pytest.mark.row("R6")
def test_what_is_unclear_is_said_with_its_line_and_the_form_stays(trip: Path, skillrun: Call) -> None:
    skillrun("trip", "--model", "scripted:default")
    form = trip / "QUESTIONS-001.md"
    form.write_text(form.read_text().replace("Answer:", "Answer: D", 1))
    before = form.read_bytes()
    done = skillrun("resume", "trip")
    assert done.code == 75
    assert "QUESTIONS-001.md:17: Q1: `D` is none of the choices" in done.out
    assert form.read_bytes() == before


@pytest.mark.row("R6")
def test_what_is_unclear_is_asked_about_where_a_person_is(trip: Path, skillrun: Call) -> None:
    skillrun("trip", "--model", "scripted:default")
    form = trip / "QUESTIONS-001.md"
    form.write_text(form.read_text().replace("Answer:", "Answer: A or C", 1).replace("[ ] B. A boat", "[x] B. A boat"))
    terminal = Terminal("resume", "trip")
    terminal.until("`A or C` may mean `The lake` or `The town`")
    terminal.until("The town")
    terminal.type("3\r")
    assert terminal.end() == 0
    assert (trip / "trip.md").read_text() == 'where: The town\nwhat: ["A boat"]\nwho: -\n'


@pytest.mark.row("R5")
def test_a_terminal_asks_by_number_keys_and_words_and_goes_back(trip: Path, skillrun: Call) -> None:
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
    terminal.until(r"(?s)3 of 3.*3 of 3.*Who")
    terminal.type("\r")
    assert terminal.end() == 0
    assert (trip / "trip.md").read_text() == 'where: The town\nwhat: ["A boat"]\nwho: -\n'


@pytest.mark.row("R5")
@pytest.mark.finding("FR9")
def test_ctrl_c_pauses_and_what_was_answered_is_kept(trip: Path, skillrun: Call) -> None:
    phase = Path("skills/trip/asking.md")
    phase.write_text(phase.read_text().replace("    form: QUESTIONS-001.md\n", ""))
    terminal = Terminal("trip", "--model", "scripted:default")
    terminal.until("The town")
    terminal.type("2\r")
    terminal.until("A boat")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "next: go on with `skillrun resume trip`" in terminal.seen
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


@pytest.mark.row("R5")
@pytest.mark.finding("FR9")
@pytest.mark.parametrize("in_terminal", [True, False])
def test_what_was_answered_of_a_form_in_the_terminal_is_kept(trip: Path, skillrun: Call, in_terminal: bool) -> None:
    terminal = Terminal("trip", "--model", "scripted:default", "--interactive")
    terminal.until("The town")
    terminal.type("2\r")
    terminal.until("A boat")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "next: go on with `skillrun resume trip`" in terminal.seen
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


@pytest.mark.row("R5")
@pytest.mark.finding("FR9")
def test_interactive_lets_the_questions_of_a_form_be_left_open(trip: Path, skillrun: Call) -> None:
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
def test_prepared_answers_do_instead_of_the_form(trip: Path, skillrun: Call, tmp_path: Path) -> None:
    skillrun("trip", "--model", "scripted:default")
    (tmp_path / "answers.yaml").write_text("where: The lake\nwhat: [Boots]\nwho: Ann\n")
    assert skillrun("resume", "trip", "--answers", str(tmp_path / "answers.yaml")).code == 0
    assert (trip / "trip.md").read_text() == 'where: The lake\nwhat: ["Boots"]\nwho: Ann\n'


def test_a_name_in_the_answers_that_is_nearly_a_questions_is_said_at_the_start(trip: Path, skillrun: Call) -> None:
    Path("answers.yaml").write_text("where: The lake\nwaht: [Boots]\n")
    done = skillrun("trip", "--answers", "answers.yaml", "--model", "scripted:default")
    assert "answers.yaml:2:1: warning[unknown-question]: no question is called `waht`" in done.err
    assert "hint: did you mean `what`?" in done.err
    assert done.code == 75


@pytest.mark.row("R6")
def test_a_form_of_other_questions_is_not_taken_for_that_of_these(trip: Path, skillrun: Call) -> None:
    skillrun("trip", "--model", "scripted:default")
    form = trip / "QUESTIONS-001.md"
    form.write_text(form.read_text().replace("Answer:", "Answer: A", 1))
    phase = Path("skills/trip/asking.md")
    phase.write_text(phase.read_text().replace("id: where, text: Where to?", "id: whence, text: Where from?"))
    done = skillrun("resume", "trip")
    assert done.code == 75
    assert "another question is asked now: `Q1 · CRITICAL · Place · whence`; move this file away" in done.out


@pytest.mark.parametrize(
    ("pattern", "made"), [("maps/town/*.md", "maps/town"), ("maps/*/[ab].md", "maps"), ("**/map.md", ".")]
)
def test_the_folder_to_put_files_into_is_made_as_far_as_it_is_written_out(
    trip: Path, skillrun: Call, pattern: str, made: str
) -> None:
    step = f'  - {{id: map, ask: Put a map there., files: "{pattern}"}}\n'
    asking = f"---\nkind: phase\nsteps:\n{step}---\n"
    (trip.parents[1] / "skills" / "trip" / "asking.md").write_text(asking)
    assert skillrun("trip", "--model", "scripted:default").code == 75
    folders = {path.relative_to(trip).as_posix() for path in trip.rglob("*") if path.is_dir()}
    assert folders - {".run", "summaries"} == {made, Path(made).parent.as_posix()} - {"."}
