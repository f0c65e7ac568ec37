"""Texts as HTML: whatever is in them, only markdown's own elements come out."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.extensions.report.markdown_html import MarkdownRenderer

PROSE: Final = MarkdownRenderer({"spec.md": "document-2"})
ALLOWED: Final = frozenset(
    (
        "p",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "a",
        "em",
        "strong",
        "s",
        "code",
        "pre",
        "blockquote",
        "hr",
        "br",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "div",
        "span",
    )
)
ATTRIBUTES: Final = frozenset({"href", "id", "rel", "target", "class", "role", "aria-label", "tabindex", "start"})
PIECES: Final = st.sampled_from(
    [
        *("[x](#a)", "# a\n", "](#"),
        *(
            "<script>",
            "</script>",
            "<img src=x onerror=y>",
            "[a](",
            "javascript:x",
            "data:text/html,x",
            ")",
            "![",
            "](",
        ),
        *("https://e.org", "```", "`", "\n", "\n\n", "# ", "| a | b |\n|:-:|--:|\n| ", "> ", "- ", "&#106;avascript:"),
        *(
            "&lt;",
            "\\",
            '"',
            "'",
            "<",
            ">",
            "[x]: vbscript:y",
            "<mailto:a@b.c>",
            "spec.md",
            "\u202e",
            "\x00",
            "*",
            "~~",
        ),
        *("_", "<!--"),
    ]
)

pytestmark = pytest.mark.row("A6")


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=25).map("".join))
def test_no_text_becomes_more_than_markdown(text: str) -> None:
    for html in (PROSE.render_document(text, 2, "document-1"), PROSE.render_reply(text), PROSE.render_line(text)):
        told = Tags(html)
        assert set(told.tags) <= ALLOWED
        assert {name for name, _ in told.attributes} <= ATTRIBUTES
        addresses = [value or "" for name, value in told.attributes if name == "href"]
        assert all(re.match(r"(https?://|mailto:|#document-[12])", address, re.IGNORECASE) for address in addresses)
        assert not {"\u202e", "\x00"} & set(html)


def test_headings_stand_below_the_pages_own_and_skip_no_level() -> None:
    html = PROSE.render_document("# a\n\n### b\n\n###### c\n\n# d\n", 2, "document-1")
    assert Tags(html).tags == ["h3", "h4", "h5", "h3"]
    assert Tags(PROSE.render_reply("# a\n\n### b\n")).tags == ["p", "p"]


def test_links_inside_of_a_document_lead_to_its_headings_and_others_are_text() -> None:
    text = "# One, *two*\n\n[up](#one-two) [no](#three) [**so**](#%6fne-two)\n\n# One two\n"
    told = Tags(PROSE.render_document(text, 2, "document-7"))
    assert [value for name, value in told.attributes if name == "id"] == ["document-7-one-two"]
    assert [value for name, value in told.attributes if name == "href"] == ["#document-7-one-two"] * 2
    assert Tags(PROSE.render_reply(text)).tags.count("a") == 0


def test_aligned_cells_have_a_class_and_no_style() -> None:
    html = PROSE.render_reply("| a | b |\n|---|--:|\n| 1 | 2 |\n")
    assert '<td class="right">2</td>' in html
    assert "style" not in html


def test_a_link_to_a_document_leads_to_its_place_and_others_to_the_web_alone() -> None:
    text = "[a](spec.md) [b](./spec.md#x) [c](../etc/passwd) [d](https://e.org) [e](file:///etc/passwd) [f](//e.org)"
    hrefs = [value for name, value in Tags(PROSE.render_reply(text)).attributes if name == "href"]
    assert hrefs == ["#document-2", "#document-2", "https://e.org"]


def test_a_text_beyond_measure_stands_as_it_is() -> None:
    html = PROSE.render_reply("# <b>\n" * 100_000)
    assert html.startswith("<pre># &lt;b&gt;")
