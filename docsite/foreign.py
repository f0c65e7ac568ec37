"""Finds what built pages would load from other hosts. Reads files only; links that a reader clicks are allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

_LOADED: Final = {"src", "srcset", "poster", "data", "action"}
_OF_LINKS: Final = {"canonical", "alternate", "next", "prev", "license", "author"}  # rels that load nothing
_URL: Final = re.compile(r"""(?:@import\s*(?:url\()?|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")


class _Loads(HTMLParser):
    """Collects the addresses on other hosts that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        loaded = [value for name, value in values.items() if name in _LOADED]
        if tag == "link" and values.get("rel") not in _OF_LINKS:
            loaded.append(values.get("href", ""))
        loaded += _URL.findall(values.get("style", ""))
        self.addresses += [address for address in loaded if re.match(r"(https?:)?//", address)]


def foreign_hosts(site: Path) -> list[tuple[str, str]]:
    """Each page or style sheet that loads an address on another host, with that address."""
    return list(_foreign(site))


def _foreign(site: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(site.rglob("*")):
        if path.suffix == ".html":
            page = _Loads()
            page.feed(path.read_text(encoding="utf-8"))
            addresses = page.addresses
        elif path.suffix == ".css":
            addresses = _URL.findall(path.read_text(encoding="utf-8"))
        else:
            continue
        yield from ((str(path.relative_to(site)), address) for address in addresses)
