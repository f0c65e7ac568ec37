"""Files over a limit are refused with a position, and a mistake in a long file is reported at its position."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillrun.definitions.reader import MAX_LOOP_DEPTH, MAX_PARTS, MAX_PHASES
from skillrun.library.roots import package_library
from skillrun.syntax.diagnostics import MAX_ERRORS
from tests.property.sizes import lines, phase, workflow

Call = Callable[..., Any]


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def errors(done: Any, path: str) -> list[str]:
    """The problems of a file: line, column, code and message."""
    return [line.removeprefix(f"{path}:") for line in (done.out + done.err).splitlines() if line.startswith(f"{path}:")]


@pytest.mark.slow
@pytest.mark.finding("FZ19")
def test_each_line_of_a_question_bank_has_its_own_position(project: Call, skillrun: Call) -> None:
    front = "---\nkind: questions\ndescription: Asks.\n---\n"
    write(project(), {"skills/trip/ask.md": f"{front}- qq\n- q\n\n## g\n- q\n"})
    done = skillrun("validate")
    assert [line.split(": ")[0] for line in errors(done, "skills/trip/ask.md")] == ["5:1", "6:1"]


@pytest.mark.finding("FZ19")
@pytest.mark.parametrize(
    ("script", "position", "text"),
    [
        ("- text: a\n- {address: '*', txt: b}\n", "2:18", "unknown key `txt`"),
        ("- text: a\n- address: '*'\n  times: twice\n", "3:10", "`times` is `twice`"),
        ("- stop: never\n", "1:9", "`stop` is `never`"),
        ("- calls:\n    - {arguments: {}}\n", "2:7", "`name` is missing"),
        ("- calls: [{name: Read, arguments: [1]}]\n", "1:35", "expected a mapping of names to values for `arguments`"),
        ("- text: a\n- b\n", "2:3", "this is not a reply of a script"),
        ("text: a\n", "1:1", "this is not a reply of a script"),
        ("- text: 1e999\n", "1:9", "the number `1e999` is too large"),
    ],
)
def test_a_mistake_in_a_script_is_reported_at_its_position(
    project: Call, skillrun: Call, script: str, position: str, text: str
) -> None:
    project("greeting")
    Path("script.yaml").write_text(script)
    done = skillrun("greeting", "Ada", "--script", "script.yaml")
    assert done.code == 1
    assert any(line.startswith(f"{position}: error") and text in line for line in errors(done, "script.yaml")), done.err
    assert not Path("runs").exists()


LIMITS = {
    "phases": (
        workflow(lines(MAX_PHASES + 1, "  p@: {skill: trip/pack}") + "\n"), "workflows/trip.md", MAX_PHASES + 5, 3
    ),
    "steps": (phase(lines(MAX_PARTS + 1, '  - say: "x"')), "skills/trip/pack.md", MAX_PARTS + 5, 5),
    "names": (phase("  - set:\n" + lines(MAX_PARTS, "      v@: 1")), "skills/trip/pack.md", 5, 5),
    "rows": (
        phase("  - id: a\n    decide:\n" + lines(MAX_PARTS, "      - {then: b}")),
        "skills/trip/pack.md",
        MAX_PARTS + 6,
        9,
    ),
    "repeats": (
        phase("  - at_most: 2\n    repeat:\n" + "".join(
            f"{' ' * 4 * at}  - at_most: 2\n{' ' * 4 * at}    repeat:\n" for at in range(1, MAX_LOOP_DEPTH + 1)
        ) + f"{' ' * 4 * (MAX_LOOP_DEPTH + 1)}  - set: {{x: 1}}"),
        "skills/trip/pack.md",
        5 + 2 * MAX_LOOP_DEPTH,
        5 + 4 * MAX_LOOP_DEPTH,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
@pytest.mark.parametrize("name", LIMITS)
def test_a_file_over_a_limit_is_refused_with_its_position(project: Call, skillrun: Call, name: str) -> None:
    files, path, line, column = LIMITS[name]
    write(project(), files)
    done = skillrun("validate")
    assert done.code == 1
    found = errors(done, path)
    assert [one.split(": ")[0] for one in found if "error" in one] == [f"{line}:{column}"], found
    assert "error[too-many]" in found[-1] or "error[too-deep]" in found[-1]


@pytest.mark.slow
@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
def test_errors_of_one_file_are_cut_off_and_hide_no_other_file(project: Call, skillrun: Call) -> None:
    other = phase('  - {say: "{{ lost }}"}')
    write(
        project(),
        {**other, "roles/guide.md": "---\nname: guide\n---\nx\n", "config/models.yaml": lines(5_000, "k@: 1")},
    )
    done = skillrun("validate", "--all")
    assert done.code == 1
    found = errors(done, "config/models.yaml")
    assert len(found) == MAX_ERRORS + 1
    assert sum(f"there are more than {MAX_ERRORS} problems" in one for one in found) == 1
    assert any("unknown name `lost`" in one for one in errors(done, "skills/trip/pack.md"))


def patterns(pattern: str) -> dict[str, str]:
    front = "---\nname: trip\ndescription: A trip.\nconfig: own\nphases:\n  pack:\n---\n"
    step = "  - {say: \"{{ matches('a b', config.p) | length }}\"}"
    return {**phase(step), "config/own.yaml": f"p: {{x: ['{pattern}']}}\n", "workflows/trip.md": front}


@pytest.mark.slow
@pytest.mark.row("Z6")
@pytest.mark.finding("FZ15")
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?:(?:a{1000}){1000}){1000}", "a part may repeat at most 1,000 times"),
        ("[ab]{30000000}", "a part may repeat at most 1,000 times"),
        ("(?=a)", "look-around"),
        ("a" * 501, "longer than 500 characters"),
    ],
)
def test_a_refused_pattern_is_reported_in_the_config(project: Call, process: Call, pattern: str, message: str) -> None:
    write(project(), patterns(pattern))
    done = process("validate")
    assert done.code == 1
    assert any(one.startswith("1:9: error[pattern]") and message in one for one in errors(done, "config/own.yaml"))


@pytest.mark.slow
@pytest.mark.finding("FZ15")
def test_a_pattern_that_engines_interpret_differently_prints_no_python_warning(project: Call, process: Call) -> None:
    write(project(), patterns("[[a-z]--[b]]"))
    done = process("validate")
    assert done.code == 0, done.out + done.err
    assert "Warning" not in done.out + done.err


MANY = """---
kind: phase
steps:
  - {id: one, agent: writer}
  - {id: big, read: big.txt, from: project}
  - at_most: 60
    until: pass.index == 60
    repeat:
      - {id: page, write: "page-{{ pass.index }}.md"}
  - at_most: 6
    until: pass.index == 6
    repeat:
      - {id: copy, write: "copy-{{ pass.index }}.md"}
outputs:
  words: "{{ one.text }}"
---
## one
Write.

## page
A page.

## copy
{{ big.text }}
"""


def call_a_model_in_the_last_phase(folder: Path) -> None:
    """Let the last phase call a model, so that it reads the summary of the first phase."""
    send = folder / "skills" / "greeting" / "send.md"
    send.write_text(send.read_text("utf-8").replace("{id: envelope, write:", "{id: envelope, agent: writer, writes:"))


@pytest.mark.slow
@pytest.mark.finding("FM13")
def test_many_and_large_artifacts_are_summarised(project: Call, skillrun: Call) -> None:
    folder: Path = project("greeting")
    (folder / "big.txt").write_text("word " * 180_000, encoding="utf-8")
    (folder / "skills" / "greeting" / "draft.md").write_text(MANY, encoding="utf-8")
    call_a_model_in_the_last_phase(folder)
    done = skillrun("greeting", "Ada", "--model", "scripted:default", "--unattended", "--name", "a")
    assert done.code == 0, done.out + done.err
    shown = skillrun("show", "a", "--json").json
    assert len(shown["phases"][0]["artifacts"]) == 66
    assert not shown["degraded"]
    (left_out,) = [one["text"] for one in shown["left_out"]]
    assert left_out.startswith("summary: What the phase wrote: ")
    large_window = "models: {'scripted:default': {window: 4000000}}\n"
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "models.yaml").write_text(large_window, encoding="utf-8")
    options = ("-i", "person=Ada", "--model", "scripted:default")
    prompt = skillrun("render", "greeting", "draft", "summary", *options).out
    assert all(f"page-{at}.md:" in prompt for at in range(1, 61))
    assert "copy-6.md:" in prompt


@pytest.mark.slow
@pytest.mark.finding("FM13")
def test_a_summary_that_cannot_be_requested_does_not_fail_the_phase(project: Call, skillrun: Call) -> None:
    folder: Path = project("greeting")
    (folder / "skills" / "system").mkdir()
    shipped = (package_library() / "skills" / "system" / "summarise.md").read_text("utf-8")
    endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    call_a_model_in_the_last_phase(folder)
    (folder / "skills" / "system" / "summarise.md").write_text(shipped + endless, encoding="utf-8")
    done = skillrun("greeting", "Ada", "--model", "scripted:default", "--unattended", "--name", "a")
    assert done.code == 0, done.out + done.err
    assert (folder / "runs" / "a" / "summaries" / "draft.md").is_file()
    assert "exceeds the work limit of a render" in skillrun("show", "a").out
