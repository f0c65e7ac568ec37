"""Output: no value controls the terminal, the layout or the runner of a CI job."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.cli.formatting import format_columns, format_table
from skillrun.cli.output import Output, make_safe
from skillrun.syntax.diagnostics import Problem

VALUES = [
    "a\nforged",
    "a\rforged",
    "a\r\nforged",
    "a\u2028forged",
    "a\x85forged",
    "a\x0bforged\x0cforged",
    "a\x1b[31m\nforged\x1b]0;title\x07",
    "a\n\nforged",
    "a\n::error::forged",
    "::error file=a::forged",
    " \t::ERROR::forged",
    "\u2003::add-mask::forged",
    "\u200b::stop-commands::forged",
    "\x1b[0m::error::forged",
    "\ufeff::set-output name=a::forged",
    "text ##[error]forged",
    "####[group]forged",
    "##vso[task.setvariable variable=a]forged",
    "##\x1b[0m[error]forged",
]


def assert_harmless(output: str) -> None:
    """Check every line as a terminal and as the runners of GitHub and Azure read it."""
    for line in output.split("\n"):
        assert not line.startswith("forged")
        assert line == line.replace("\r", "")
        assert not line.strip().startswith("::") or line.count("::") < 2
        assert "##[" not in line
        assert "##vso[" not in line.lower()
        assert not any(sign in line for sign in "\x1b\x07\x85\u2028\u2029\x0b\x0c")


@pytest.mark.finding("FS11", "FS12")
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("method", ["line", "note", "lines", "notes"])
def test_a_value_cannot_forge_a_line(value: str, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = [value, f"name: {value}"] if method.endswith("s") else value
    getattr(Output(), method)(text)
    output = "".join(capsys.readouterr())
    assert_harmless(output)
    assert "forged" in output


@pytest.mark.finding("FS11", "FS12")
@pytest.mark.parametrize("value", VALUES)
def test_problems_tables_and_json_are_harmless(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(json=True)
    out.problem(Problem(value, 1, 1, value, value, value, source_line=value))
    out.lines(format_table(["name"], [[value]]))
    out.text(format_columns([(value, value)]))
    out.data({value: [value]})
    out.record(value)
    output, errors = capsys.readouterr()
    assert_harmless(errors)
    assert "##[" not in output
    assert "##vso[" not in output
    first, _, last = output.rstrip("\n").rpartition("\n")
    assert (json.loads(first), json.loads(last)) == ({value: [value]}, value)


@pytest.mark.finding("FS11")
def test_a_command_for_github_stays_a_command_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output().command("::error file=a.md::text\n::error::forged ##[error]")
    assert capsys.readouterr().out == "::error file=a.md::text ::error::forged # #[error]\n"


def test_ordinary_texts_are_printed_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["a::b", "::: note", ":: comment", "# Title", "## Part [1]", "::", "std::vector<a::b>", "naïve — “ok”"]
    Output().lines(lines)
    assert capsys.readouterr().out.splitlines() == lines


def test_blank_lines_before_a_command_are_read_once() -> None:
    assert make_safe("\n" * 1_000_000 + "  ::error::x") == "\n" * 1_000_000 + "  : :error::x"


@given(st.text(st.sampled_from("a:#[\n\r\x1b \t\u200b\u2028-"), max_size=30))
def test_the_result_is_harmless_and_stays_the_same(text: str) -> None:
    assert_harmless(make_safe(text).replace("::\n", ""))
    assert make_safe(make_safe(text)) == make_safe(text)
