"""The site of the documentation in a real browser: nothing is asked of other hosts, and its search finds pages."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from docsite.build import build
from tests.browser.conftest import PATIENCE

HOST: Final = "http://docs.test"
PAGES: Final = ("index.html", "tutorial.html", "how-to/prompts.html", "reference/commands.html", "decisions/index.html")

pytestmark = [pytest.mark.row("A4"), pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("docs") / "site")


@dataclass
class Visit:
    """A browser's look at the site, which it has without a network; what it asked of others, and its complaints."""

    page: Page
    site: Path
    elsewhere: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def answer(self, route: Route) -> None:
        """A file of the site; everything else is not there, and noted."""
        address = urlsplit(route.request.url)
        path = self.site / unquote(address.path).lstrip("/")
        if f"{address.scheme}://{address.netloc}" != HOST:
            self.elsewhere.append(route.request.url)
            route.abort()
        elif path.is_file():
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            route.fulfill(body=path.read_bytes(), content_type=kind)
        else:
            self.complaints.append(f"there is no {address.path}")
            route.fulfill(status=404)


@pytest.fixture
def visit(browser: Browser, site: Path) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    visit = Visit(context.new_page(), site)
    context.route("**/*", visit.answer)
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    visit.page.on("console", lambda said: visit.complaints.append(said.text) if said.type == "error" else None)
    yield visit
    context.close()


def test_pages_ask_nothing_of_other_hosts_and_have_no_errors(visit: Visit) -> None:
    for page in PAGES:
        visit.page.goto(f"{HOST}/{page}", wait_until="networkidle")
        expect(visit.page.locator("h1").first).to_be_visible()
    assert visit.elsewhere == []
    assert visit.complaints == []


def test_the_search_finds_a_page(visit: Visit) -> None:
    visit.page.goto(f"{HOST}/index.html", wait_until="networkidle")
    visit.page.keyboard.press("Control+k")
    visit.page.keyboard.type("unquoted")
    expect(visit.page.locator("mark", has_text="unquoted").first).to_be_visible(timeout=PATIENCE)
    assert visit.elsewhere == []
    assert visit.complaints == []


def test_what_a_terminal_shows_has_no_button_that_copies_it(visit: Visit) -> None:
    visit.page.goto(f"{HOST}/tutorial.html", wait_until="networkidle")
    assert visit.page.locator(".language-markdown button").count() > 0
    assert visit.page.locator(".language-console button").count() == 0
