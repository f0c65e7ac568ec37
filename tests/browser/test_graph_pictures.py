"""The pictures of `skillrun graph --svg` in a browser: texts are readable and do not overlap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page

from skillrun.checker.checker import check_workflow
from skillrun.cli.graph.model import build_graph
from skillrun.cli.graph.svg import WIDTH, draw_svg
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from tests.browser.conftest import PATIENCE

GALLERY: Final = Path(__file__).parents[1] / "examples" / "valid" / "gallery"
WORKFLOWS: Final = [path.stem for path in (Path(__file__).parents[2] / "workflows").glob("*.md")]
FONTS: Final = ("", 'text{font-family:"DejaVu Sans","Verdana",sans-serif!important}')  # the default, and a wide font
TROUBLES: Final = """() => {
  const texts = [...document.querySelectorAll("text")].map(text => ({
    words: text.textContent, box: text.getBoundingClientRect(), size: parseFloat(getComputedStyle(text).fontSize)}));
  const cards = [...document.querySelectorAll(".card")].map(card => card.getBoundingClientRect());
  const found = [];
  for (const [at, {words, box, size}] of texts.entries()) {
    if (size < 11) found.push(`small: ${words}`);
    if (box.left < 0 || box.right > innerWidth) found.push(`outside: ${words}`);
    const card = cards.find(card => card.left < box.left && box.left < card.right
      && card.top < box.top && box.top < card.bottom);
    if (card && (box.right > card.right || box.bottom > card.bottom)) found.push(`over the edge: ${words}`);
    for (const other of texts.slice(at + 1))
      if (box.left < other.box.right - 1 && other.box.left < box.right - 1
        && box.top < other.box.bottom - 2 && other.box.top < box.bottom - 2)
        found.push(`overlap: ${words} / ${other.words}`);
  }
  return found;
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": WIDTH, "height": 900})
    page.set_default_timeout(PATIENCE)
    yield page
    page.close()


@pytest.mark.slow
@pytest.mark.row("N5")
@pytest.mark.parametrize("all_steps", [False, True], ids=["main steps", "all steps"])
def test_no_text_of_a_workflow_overlaps_another(all_steps: bool, page: Page, pictures: Path) -> None:
    library = Library(search_path(GALLERY))
    for name in ["gallery", *WORKFLOWS]:
        program = check_workflow(library, name)
        assert program is not None
        graph = build_graph(program.workflow, library, program)
        picture = draw_svg(graph if all_steps else graph.without_minor_steps())
        page.set_content(f'<body style="margin:0">{picture}')
        if not all_steps:
            page.screenshot(path=pictures / f"graph-{name}.png", full_page=True)
        for style in FONTS:
            page.evaluate("style => document.querySelector('style').append(style)", style)
            assert page.evaluate(TROUBLES) == [], name
