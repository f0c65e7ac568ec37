"""Problems are collected, sorted, and rendered with the source line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import (
    Problem,
    Problems,
    SkillrunError,
    UsageError,
    allowed_hint,
    did_you_mean,
    render_problem,
)
from skillrun.syntax.source import Source, Span


def make_problem(line: str, column: int) -> Problem:
    return Problem("a.md", 3, column, "key", "wrong", "", "error", line)


def caret(rendered: str) -> tuple[str, int]:
    """The source line and the caret's column of a rendered problem."""
    _, line, marker = rendered.split("\n")
    return line, marker.index("^")


def test_a_problem_is_shown_with_its_line_a_caret_and_a_hint() -> None:
    rendered = render_problem(
        Problem("skills/a.md", 3, 5, "key", "unknown key `agnet`", "did you mean `agent`?", "error", "  - agnet: x")
    )
    assert rendered == (
        "skills/a.md:3:5: error[key]: unknown key `agnet`\n    - agnet: x\n      ^\nhint: did you mean `agent`?"
    )


def test_without_a_source_line_there_is_no_caret() -> None:
    assert (
        render_problem(Problem("a.md", 1, 1, "unreadable", "no such file"))
        == "a.md:1:1: error[unreadable]: no such file"
    )


def test_the_caret_is_under_its_column_after_tabs() -> None:
    line, column = caret(render_problem(make_problem("\tkey:\tx", 7)))
    assert line[column] == "x"


def test_the_caret_is_under_its_column_after_wide_and_combining_characters() -> None:
    assert caret(render_problem(make_problem("日本: x", 5))) == ("  日本: x", 2 + 6)
    assert caret(render_problem(make_problem("e\u0301: x", 5))) == ("  e\u0301: x", 2 + 3)


def test_control_and_bidi_characters_do_not_reach_the_terminal() -> None:
    rendered = render_problem(
        Problem("a\x1b.md", 1, 4, "key", "bad \x1b[31m\u202e", "\x07", "error", "a\u202eb\x1bc\u200b")
    )
    assert not set("\x1b\u202e\x07\u200b") & set(rendered)
    assert "a�b�c�" in rendered
    assert "bad \\x1b[31m\\u202e" in rendered


def test_a_long_line_is_cut_around_the_caret() -> None:
    line, column = caret(render_problem(make_problem("a" * 5000 + "X" + "b" * 5000, 5001)))
    assert line[column] == "X"
    assert len(line) < 130
    assert line.strip().startswith("…")
    assert line.endswith("…")


@given(st.text("ab日\t", min_size=1, max_size=400), st.data())
def test_the_caret_is_always_inside_the_rendered_line(line: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(line)))
    if line.strip():
        rendered, column = caret(render_problem(make_problem(line, offset + 1)))
        cells = [c for character in rendered for c in character * (2 if character == "日" else 1)]
        if offset < len(line) and line[offset] != "\t":
            assert cells[column] == line[offset]


def test_problems_are_sorted_and_deduplicated() -> None:
    source = Source.of("one\ntwo\n", "b.md")
    problems = Problems()
    problems.report(Span(source, 4), "key", "second")
    problems.report(Span(source, 0), "key", "first")
    problems.report(Span(source, 4), "key", "second", "another hint")
    problems.add(Problem("a.md", 9, 1, "key", "in another file"))
    assert [(problem.path, problem.line, problem.message) for problem in problems] == [
        ("a.md", 9, "in another file"),
        ("b.md", 1, "first"),
        ("b.md", 2, "second"),
    ]
    assert len(problems) == 3
    assert [problem.source_line for problem in problems] == ["", "one", "two"]


def test_warnings_are_not_errors() -> None:
    problems = Problems()
    problems.report(Span(Source.of("x"), 0), "style", "odd", severity="warning")
    assert not problems.has_errors
    problems.report(Span(Source.of("x"), 0), "key", "wrong")
    assert problems.has_errors


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("agnet", "agent"), ("second-round", "second_round"), ("Agent", "agent"), ("paralel", "parallel")],
)
def test_a_similar_name_is_suggested(name: str, suggestion: str) -> None:
    assert did_you_mean(name, ["panel", "agent", "second_round", "parallel"]) == f"did you mean `{suggestion}`?"


@pytest.mark.parametrize("name", ["", "zebra", "x" * 100_000, "agent"])
def test_nothing_is_suggested_for_an_exact_or_a_very_different_name(name: str) -> None:
    assert did_you_mean(name, ["panel", "agent"]) == ""


def test_allowed_values_keep_their_order_and_a_long_list_is_shortened() -> None:
    assert allowed_hint(["b", "a"]) == "allowed: b, a"
    assert allowed_hint([]) == ""
    assert allowed_hint(str(number) for number in range(40)).endswith("28, 29, and 10 more")


def test_an_error_has_a_message_and_a_next_step() -> None:
    error = SkillrunError("the run is locked", "wait, or stop process 12")
    assert (str(error), error.next_step, error.exit_code) == ("the run is locked", "wait, or stop process 12", 1)
    assert UsageError("no such command").exit_code == 2
