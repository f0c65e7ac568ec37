"""The documentation site in a real browser: it sends no requests to other hosts, and its search finds pages."""

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
    """A browser page that serves the site without a network and records foreign requests and errors."""

    page: Page
    site: Path
    foreign_requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def serve(self, route: Route) -> None:
        """Serve a file of the site; record every other request."""
        address = urlsplit(route.request.url)
        path = self.site / unquote(address.path).lstrip("/")
        if f"{address.scheme}://{address.netloc}" != HOST:
            self.foreign_requests.append(route.request.url)
            route.abort()
        elif path.is_file():
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            route.fulfill(body=path.read_bytes(), content_type=kind)
        else:
            self.errors.append(f"{address.path} is missing")
            route.fulfill(status=404)


@pytest.fixture
def visit(browser: Browser, site: Path) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    visit = Visit(context.new_page(), site)
    context.route("**/*", visit.serve)
    visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
    visit.page.on("console", lambda message: visit.errors.append(message.text) if message.type == "error" else None)
    yield visit
    context.close()


def test_pages_send_no_request_to_other_hosts_and_have_no_errors(visit: Visit) -> None:
    for page in PAGES:
        visit.page.goto(f"{HOST}/{page}", wait_until="networkidle")
        expect(visit.page.locator("h1").first).to_be_visible()
    assert visit.foreign_requests == []
    assert visit.errors == []


def test_the_search_finds_a_page(visit: Visit) -> None:
    visit.page.goto(f"{HOST}/index.html", wait_until="networkidle")
    visit.page.keyboard.press("Control+k")
    visit.page.keyboard.type("unquoted")
    expect(visit.page.locator("mark", has_text="unquoted").first).to_be_visible(timeout=PATIENCE)
    assert visit.foreign_requests == []
    assert visit.errors == []


def test_terminal_output_has_no_copy_button(visit: Visit) -> None:
    visit.page.goto(f"{HOST}/tutorial.html", wait_until="networkidle")
    assert visit.page.locator(".language-markdown button").count() > 0
    assert visit.page.locator(".language-console button").count() == 0
