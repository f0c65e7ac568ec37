"""README, tutorial and how-to pages: a reader who follows one in an empty folder sees the output that it shows.

`SKILLRUN_UPDATE_DOCS=1` writes the current output into the pages; review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.pages.session import Session, fences, follow_page

TOP: Final = Path(__file__).parents[3]
DOCS: Final = TOP / "docs"
PAGES: Final = [TOP / "README.md", DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
UPDATE: Final = bool(os.environ.get("SKILLRUN_UPDATE_DOCS"))  # read at import: tests do not have the variable
RUN: Final = {"console", "sh"}


@pytest.mark.slow
@pytest.mark.row("A4")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_the_actual_output(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    current = follow_page(text, Session(tmp_path, monkeypatch))
    if UPDATE:
        page.write_text(current, encoding="utf-8")
    assert current == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_example_on_a_page_is_tested(page: Path) -> None:
    """Each is a file, lines of a file, or commands; `text` shows a screen."""
    for fence in fences(page.read_text(encoding="utf-8")):
        assert fence.language in RUN | {"text"} or fence.attributes.keys() & {"file", "line"}, f"line {fence.line}"
