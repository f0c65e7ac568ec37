"""The README, the tutorial and the how-to pages: who follows one, in an empty folder, sees what it shows.

`SKILLRUN_UPDATE_DOCS=1` writes what is shown now into the pages, to be read in the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.pages.session import Session, fences, followed

TOP: Final = Path(__file__).parents[3]
DOCS: Final = TOP / "docs"
PAGES: Final = [TOP / "README.md", DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
UPDATE: Final = bool(
    os.environ.get("SKILLRUN_UPDATE_DOCS")
)  # read here: the environment of a test has no such variable
RUN: Final = {"console", "sh"}


@pytest.mark.slow
@pytest.mark.row("A4")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_is_what_there_is(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    now = followed(text, Session(tmp_path, monkeypatch))
    if UPDATE:
        page.write_text(now, encoding="utf-8")
    assert now == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_example_of_a_page_is_left_out(page: Path) -> None:
    """Each is a file, lines of one, or commands; pictures of a screen are `text`."""
    for fence in fences(page.read_text(encoding="utf-8")):
        assert fence.language in RUN | {"text"} or fence.words.keys() & {"file", "line"}, f"line {fence.line}"
