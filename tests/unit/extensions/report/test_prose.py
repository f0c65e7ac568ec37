"""Rendering texts as HTML: whatever the text, the result has only the elements of markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from skillrun.extensions.report.markdown_html import MarkdownRenderer

RENDERER: Final = MarkdownRenderer({"spec.md": "document-2"})
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
def test_any_text_renders_to_allowed_elements_and_links(text: str) -> None:
    for html in (
        RENDERER.render_document(text, 2, "document-1"),
        RENDERER.render_reply(text),
        RENDERER.render_line(text),
    ):
        tags = Tags(html)
        assert set(tags.tags) <= ALLOWED
        assert {name for name, _ in tags.attributes} <= ATTRIBUTES
        addresses = [value or "" for name, value in tags.attributes if name == "href"]
        assert all(re.match(r"(https?://|mailto:|#document-[12])", address, re.IGNORECASE) for address in addresses)
        assert not {"\u202e", "\x00"} & set(html)


def test_headings_are_nested_below_the_page_headings_without_gaps() -> None:
    html = RENDERER.render_document("# a\n\n### b\n\n###### c\n\n# d\n", 2, "document-1")
    assert Tags(html).tags == ["h3", "h4", "h5", "h3"]
    assert Tags(RENDERER.render_reply("# a\n\n### b\n")).tags == ["p", "p"]


def test_fragment_links_point_to_headings_of_the_document_and_others_become_text() -> None:
    text = "# One, *two*\n\n[up](#one-two) [no](#three) [**so**](#%6fne-two)\n\n# One two\n"
    tags = Tags(RENDERER.render_document(text, 2, "document-7"))
    assert [value for name, value in tags.attributes if name == "id"] == ["document-7-one-two"]
    assert [value for name, value in tags.attributes if name == "href"] == ["#document-7-one-two"] * 2
    assert Tags(RENDERER.render_reply(text)).tags.count("a") == 0


def test_aligned_cells_have_a_class_and_no_style() -> None:
    html = RENDERER.render_reply("| a | b |\n|---|--:|\n| 1 | 2 |\n")
    assert '<td class="right">2</td>' in html
    assert "style" not in html


def test_links_point_to_documents_of_the_page_or_to_the_web_only() -> None:
    text = "[a](spec.md) [b](./spec.md#x) [c](../etc/passwd) [d](https://e.org) [e](file:///etc/passwd) [f](//e.org)"
    hrefs = [value for name, value in Tags(RENDERER.render_reply(text)).attributes if name == "href"]
    assert hrefs == ["#document-2", "#document-2", "https://e.org"]


def test_a_very_long_text_is_shown_as_plain_text() -> None:
    html = RENDERER.render_reply("# <b>\n" * 100_000)
    assert html.startswith("<pre># &lt;b&gt;")


@pytest.mark.finding("FA10")
@pytest.mark.parametrize(
    "markup", ["[", "![", "[a](", "*a ", "a_ ", "~~a", "`", "- a\n", "1. a\n", "> a\n", "x|y\n", "[\n"]
)
def test_a_text_with_very_much_markup_is_shown_as_plain_text(markup: str) -> None:
    text = markup * 30_001
    assert RENDERER.render_reply(text) == f"<pre>{escape(text)}</pre>"
    assert RENDERER.render_document(text, 2, "document-1") == f"<pre>{escape(text)}</pre>"
    assert RENDERER.render_line(text) == escape(text)


@pytest.mark.finding("FA10")
def test_a_long_text_with_the_usual_markup_is_rendered() -> None:
    html = RENDERER.render_reply(
        "Some *text* with a [link](https://e.org), `code` and a-dash.\n\n- an item\n\n" * 1_000
    )
    assert (html.count("<em>text</em>"), html.count("<li>")) == (1_000, 1_000)
