"""Numbers of the engine's config that a run cannot use are problems of `skillrun validate`."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.library.settings import check_engine_settings
from skillrun.syntax.diagnostics import Problems


def messages(folder: Path, text: str) -> list[str]:
    (folder / "config").mkdir()
    (folder / "config" / "skillrun.yaml").write_text(text, encoding="utf-8")
    problems = Problems()
    check_engine_settings(Library(search_path(folder)), problems)
    return [f"{each.line}:{each.column}: {each.message}" for each in problems]


@pytest.mark.row("S10")
@pytest.mark.finding("FR103")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("token_lint: {skills: {warn: 0}}", "1:29: `0` is too small"),
        ("token_lint: {roles: {error: -1}}", "1:29: `-1` is too small"),
        ("token_lint: {roles: {warn: 9000}}", "1:14: `warn` is 9000, above `error`, 7000, so there is never a warning"),
        (
            "token_lint: {references: {warn: 1, error: 2}}",
            "1:14: `references` is not a folder of prompt files, so the limit has no effect",
        ),
        ("limits: {tool_turns: 0}", "1:22: `0` is too small"),
        ("context: {accumulated_share: 5}", "1:30: `5` is too large"),
        ("context: {accumulated_tokens: -1}", "1:31: `-1` is too small"),
        ("estimate: {reply_tokens: -1}", "1:26: `-1` is too small"),
    ],
)
def test_a_number_that_no_run_can_use_is_a_problem(tmp_path: Path, text: str, expected: str) -> None:
    assert messages(tmp_path, text) == [expected]


@pytest.mark.row("S10")
@pytest.mark.finding("FR103")
@pytest.mark.parametrize(
    "text",
    [
        "token_lint: {skills: {error: 100}, workflows: {warn: 10, error: 20}}",
        "budgets: {calls: 0}",
        "context: {accumulated_share: 1, cache_from: 0}",
    ],
)
def test_numbers_that_a_run_can_use_are_no_problem(tmp_path: Path, text: str) -> None:
    assert messages(tmp_path, text) == []
