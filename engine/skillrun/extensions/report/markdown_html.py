"""Renders untrusted markdown as HTML that contains no raw HTML, images or unsafe links."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from itertools import pairwise
from typing import Any, Final
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape

from skillrun.syntax.diagnostics import make_printable

MAX_MARKDOWN_CHARS: Final = 400_000  # longer texts are shown as preformatted text
MAX_MARKUP_CHARS: Final = 30_000  # so are texts with more, since the time for some kinds of markup is quadratic
SIDES: Final = ("left", "center", "right")
LOWEST: Final = 6  # level of a heading
_MARKUP: Final = re.compile(r"[\[*_~`|]|^[ \t]*[->+\d]", re.MULTILINE)
_EXTERNAL_URL: Final = re.compile(r"(https?://|mailto:)[^\s]+", re.IGNORECASE)

Env = MutableMapping[str, Any]


class MarkdownRenderer(MarkdownIt):
    """Renders the texts of a report: CommonMark with tables and strikethrough.

    A link can lead to an http, https or mailto address, to a heading, or to a document of the report. `anchors` maps
    the names of documents to their anchors on the page.
    """

    def __init__(self, anchors: Mapping[str, str]) -> None:
        super().__init__("commonmark", {"html": False})
        self.anchors = anchors
        self.enable(["table", "strikethrough"])
        for name, rule in _RULES.items():
            self.add_render_rule(name, rule)

    def validateLink(self, url: str) -> bool:  # noqa: N802 (the library's name)
        """Whether `url` becomes a link. Other addresses stay text."""
        return _EXTERNAL_URL.fullmatch(url) is not None or url.startswith("#") or self._document_anchor(url) is not None

    def _document_anchor(self, url: str) -> str | None:
        return self.anchors.get(unquote(url).removeprefix("./").partition("#")[0])

    def render_document(self, text: str, level: int, anchor: str) -> Markup:
        """Render a document.

        Headings are shifted below `level`, without gaps. Links in the document can point to its headings.
        `anchor` is the document's anchor on the page.
        """
        return self._render(text, {"level": level, "last": level, "place": anchor})

    def render_reply(self, text: str) -> Markup:
        """Render a reply. Its headings do not become headings of the page."""
        return self._render(text, {})

    def render_line(self, text: str) -> Markup:
        """Render inline markdown without a surrounding paragraph."""
        text = make_printable(text)
        if _is_too_long(text):
            return escape(text)
        html: str = self.renderInline(text, {"anchor": self._document_anchor})
        return Markup(html)  # noqa: S704 (made by a renderer that lets no HTML through)

    def _render(self, text: str, env: Env) -> Markup:
        text = make_printable(text)
        if _is_too_long(text):
            return Markup("<pre>{}</pre>").format(text)
        env["anchor"] = self._document_anchor
        tokens = self.parse(text, env)
        if "place" in env:
            titles = (_slugify(after.content) for before, after in pairwise(tokens) if before.type == "heading_open")
            env["headings"] = {title: f"{env['place']}-{title}" for title in titles if title}
        html: str = self.renderer.render(tokens, self.options, env)
        return Markup(html)  # noqa: S704 (made by a renderer that lets no HTML through)


def _is_too_long(text: str) -> bool:
    """Whether rendering a text would take too long."""
    return len(text) > MAX_MARKDOWN_CHARS or len(_MARKUP.findall(text)) > MAX_MARKUP_CHARS


def _slugify(text: str) -> str:
    """Return the name that links use for a heading: lowercase, with `-` for spaces and without punctuation."""
    return re.sub(r"[^\w -]", "", text.lower()).strip().replace(" ", "-")


def _heading_open(_self: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, env: Env) -> str:
    """Return the opening tag of a heading.

    In a document, a heading is at most one level below the previous heading. In a reply, it is a styled paragraph.
    """
    if "level" not in env:
        env.setdefault("open", []).append("p")
        return f'<p class="heading {tokens[index].tag}">'
    env["last"] = min(env["level"] + int(tokens[index].tag[1]), env["last"] + 1, LOWEST)
    tag = f"h{env['last']}"
    env.setdefault("open", []).append(tag)
    name = _slugify(tokens[index + 1].content)
    if name not in env["headings"] or name in env.setdefault("named", set()):
        return f"<{tag}>"
    env["named"].add(name)
    return f'<{tag} id="{escapeHtml(env["headings"][name])}">'


def _link_open(_self: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, env: Env) -> str:
    href = str(tokens[index].attrs.get("href", ""))
    is_inside = href.startswith("#")
    anchor = env.get("headings", {}).get(unquote(href[1:])) if is_inside else env["anchor"](href)
    env.setdefault("links", []).append("span" if is_inside and anchor is None else "a")
    if anchor is not None:
        return f'<a href="#{escapeHtml(anchor)}">'
    if is_inside:  # the target is not on the page
        return "<span>"
    return f'<a href="{escapeHtml(href)}" rel="noopener noreferrer" target="_blank">'


def _image(_self: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: Env) -> str:
    token = tokens[index]
    return (
        f'<span class="image">[image: {escapeHtml(token.content)} {escapeHtml(str(token.attrs.get("src", "")))}]</span>'
    )


def _cell_open(_self: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: Env) -> str:
    """Return the opening tag of a table cell. A class sets the alignment, because the page's policy forbids `style`."""
    side = str(tokens[index].attrs.get("style", "")).removeprefix("text-align:")
    return f'<{tokens[index].tag} class="{side}">' if side in SIDES else f"<{tokens[index].tag}>"


_RULES: Final[Mapping[str, Callable[..., str]]] = {
    "heading_open": _heading_open,
    "heading_close": lambda _self, _tokens, _index, _options, env: f"</{env['open'].pop()}>\n",
    "link_open": _link_open,
    "link_close": lambda _self, _tokens, _index, _options, env: f"</{env['links'].pop()}>",
    "image": _image,
    "th_open": _cell_open,
    "td_open": _cell_open,
    "table_open": lambda *_: '<div class="wide" role="group" aria-label="Table" tabindex="0"><table>\n',
    "table_close": lambda *_: "</table></div>\n",
}
