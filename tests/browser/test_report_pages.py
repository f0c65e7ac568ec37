"""Reports in a real browser: they load nothing, run no scripts and are accessible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.conftest import PATIENCE
from tests.browser.reports import ARGUMENTS, Reports

NAMES: Final = ("reminders", *ARGUMENTS)
OF_EACH_KIND: Final = ("reminders", "two-rounds", "waiting", "deliberation", "hostile")
"""A selection of reports with all kinds of content, for slow checks."""
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
class ReportPage:
    """A page, with its requests and console messages."""

    page: Page
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """The requests that the content security policy blocked."""
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def open_report(browser: Browser) -> Iterator[Any]:
    """A function that opens a report and records its requests and messages."""
    contexts = []

    def open_page(path: Path, width: int = 1280, scheme: Literal["light", "dark"] = "light", **more: Any) -> ReportPage:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **more)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        report = ReportPage(context.new_page())
        report.page.on("request", lambda request: report.requests.append(request.url))
        report.page.on(
            "requestfailed", lambda request: report.refused.append(request.url) if request.failure == "csp" else None
        )
        report.page.on("console", lambda message: report.complaints.append(f"{message.type}: {message.text}"))
        report.page.on("pageerror", lambda error: report.complaints.append(str(error)))
        report.page.goto(path.as_uri())
        return report

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_report_sends_no_request_and_causes_no_browser_message(name: str, reports: Reports, open_report: Any) -> None:
    report = open_report(reports[name])
    report.page.evaluate(OPEN)
    report.page.wait_for_timeout(100)
    assert report.requests == [reports[name].as_uri()]
    assert report.complaints == []
    assert report.page.title().startswith(f"{name} · ")


@pytest.mark.parametrize(
    ("name", "scheme"), [*((name, "light") for name in OF_EACH_KIND), ("waiting", "dark"), ("hostile", "dark")]
)
def test_axe_finds_no_serious_fault(
    name: str, scheme: Literal["light", "dark"], reports: Reports, open_report: Any
) -> None:
    report = open_report(reports[name], 360 if scheme == "light" else 1280, scheme)
    if reports[name].stat().st_size < 60_000:  # larger reports take minutes with all folds open
        report.page.evaluate(OPEN)
    rules = {"color-contrast": {"enabled": name != "two-rounds"}}  # a minute for 50 calls, without new findings
    response = Axe().run(report.page, options={"resultTypes": ["violations"], "rules": rules}).response
    faults = [
        (fault["id"], fault["impact"], fault["nodes"][0]["html"])
        for fault in response["violations"]
        if fault["impact"] in ("serious", "critical") or fault["id"] in ("heading-order", "region", "landmark-unique")
    ]
    assert faults == []
    assert len(response["passes"]) > 20


@pytest.mark.parametrize("name", NAMES)
def test_a_report_fits_three_screen_widths(name: str, reports: Reports, open_report: Any, pictures: Path) -> None:
    page = open_report(reports[name]).page
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


def test_hostile_texts_are_shown_unchanged(reports: Reports, open_report: Any) -> None:
    page = open_report(reports["hostile"]).page
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


def test_the_content_security_policy_blocks_injected_elements(reports: Reports, open_report: Any) -> None:
    report = open_report(reports["hostile"])
    blocked = report.page.evaluate(VIOLATIONS)
    assert {"img-src", "script-src-elem", "style-src-elem", "frame-src", "connect-src"} <= set(blocked)
    assert report.page.title() == "hostile · w · completed"
    assert report.page.locator("main").is_visible()
    assert {url for url in report.requests if url.startswith("http")} <= set(report.refused)


def test_a_link_opens_the_fold_of_its_target_without_scripts(reports: Reports, open_report: Any) -> None:
    page = open_report(reports["reminders"], java_script_enabled=False).page
    target = page.locator("#texts pre").first
    assert not target.is_visible()
    place = target.get_attribute("id")
    page.goto(f"{reports['reminders'].as_uri()}#{place}")
    page.wait_for_timeout(100)
    assert target.is_visible()


def test_a_report_can_be_read_with_the_keyboard(reports: Reports, open_report: Any) -> None:
    page = open_report(reports["reminders"]).page
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


def test_folded_content_is_printed(reports: Reports, open_report: Any) -> None:
    page = open_report(reports["deliberation"]).page
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


def test_the_result_comes_first_and_is_visible_without_scrolling(reports: Reports, open_report: Any) -> None:
    page = open_report(reports["reminders"]).page
    box = page.locator("#result h2").bounding_box()
    assert box is not None
    assert box["y"] < 500
    assert page.locator("main > section").first.get_attribute("id") == "result"
