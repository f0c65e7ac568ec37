"""Where the level-2 headings of a markdown body stand, and where `\\##` stands for `##`: outside code and HTML only.

Follows CommonMark. Most bodies need no parser for that; markdown-it reads those where indentation or HTML is involved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MARKED: Final = re.compile(
    r"^(?P<indent> {0,3})(?:(?P<heading>##|\\##)(?=[ \t\n]|\Z)|(?P<fence>`{3,}|~{3,})(?P<info>.*)|(?P<tag><.*))",
    re.MULTILINE,
)
_BLANK_LINE: Final = re.compile(r"^[ \t]*$", re.MULTILINE)
_LONG_HTML: Final = re.compile(r"<(?:[!?]|(?:script|pre|style|textarea)\b)", re.IGNORECASE)
_CODE: Final = frozenset({"fence", "code_block", "html_block"})


@dataclass(frozen=True, slots=True)
class Heading:
    """A level-2 heading: where it stands, where its line starts, and where the text under it does."""

    name: str
    place: int
    start: int
    text_start: int


def outline(text: str, start: int) -> tuple[list[Heading], list[int]]:
    """The headings of the body that begins at `start`, and the places of the backslashes that only escape one."""
    if text.find("##", start) < 0:
        return [], []
    places = _by_lines(text, start)
    if places is None:
        places = list(_by_parser(text, start))
    headings = [_heading(text, place) for place in places if text[place] != "\\"]
    return headings, [place for place in places if text[place] == "\\"]


def _by_lines(text: str, start: int) -> list[int] | None:
    """The places of `##` and `\\##`, when all that matters begins in the first column; otherwise nothing.

    A heading or fence in the first column ends every list, quotation and paragraph, so only fences hide one.
    """
    places: list[int] = []
    fence = ""
    html_end = 0
    for found in _MARKED.finditer(text, start):
        opening: str | None = found["fence"]
        if fence:
            if opening and opening.startswith(fence) and not found["info"].strip(" \t"):
                fence = ""
        elif found["indent"]:
            return None
        elif tag := found["tag"]:
            if tag.startswith("<!--") and "-->" in tag:
                continue
            if _LONG_HTML.match(tag):
                return None
            if found.start() >= html_end:
                blank = _BLANK_LINE.search(text, found.end())
                html_end = blank.start() if blank else len(text)
        elif found.start() < html_end:
            return None
        elif found["heading"]:
            places.append(found.start())
        elif opening and not (opening[0] == "`" and "`" in found["info"]):
            fence = opening
    return places


def _by_parser(text: str, start: int) -> Iterator[int]:
    """The same places, found by a markdown parser."""
    body = text[start:]
    parser = _parser()
    tokens: list[Token] = []
    parser.block.parse(body, parser, {}, tokens)
    headings = {token.map[0] for token in tokens if token.type == "heading_open" and token.map and not token.level}
    code = {line for token in tokens if token.type in _CODE and token.map for line in range(*token.map)}
    line = counted = 0
    for found in _MARKED.finditer(body):
        line += body.count("\n", counted, found.start())
        counted = found.start()
        marker = found["heading"]
        if marker and (line in headings if marker == "##" else line not in code):
            yield start + found.start("heading")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    rules = ["blockquote", "code", "fence", "heading", "hr", "html_block", "list"]
    return MarkdownIt("zero", {"html": True}).enable(rules)


def _heading(text: str, place: int) -> Heading:
    end = text.find("\n", place)
    end = len(text) if end < 0 else end
    name = text[place + 2 : end].strip(" \t")
    unclosed = name.rstrip("#")
    if unclosed[-1:] in {"", " ", "\t"}:
        name = unclosed.rstrip(" \t")
    return Heading(name, place, text.rfind("\n", 0, place) + 1, min(end + 1, len(text)))
