"""Lays out what the site is built from: the pages of `docs/` and those that stand at the top of the repository.

Pages are written for a reader of the repository. What a site wants otherwise is changed here: links that lead out of
`docs/`, and the words behind a fence. Builds nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

TOP: Final = Path(__file__).parents[1]
CONFIG: Final = Path(__file__).parent / "zensical.toml"
FROM_TOP: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages at the top of the repository, and where they stand in the site."""
LEFT_OUT: Final = ("docs/judged/*/**", "docs/finished/*/**")
"""Plans, code and runs as they came: they are no pages. Those of them that a page leads to are files of the site."""
DECISIONS: Final = "decisions/index.md"

_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w+)(?P<rest>.*)$")
_LINK: Final = re.compile(r"(?P<before>\]\()(?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?P<after>\))")
_CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")


class BrokenSite(Exception):
    """What is wrong with links of pages."""


def stage(folder: Path, config: Path = CONFIG) -> None:
    """Fill the folder with the generator's config and with `docs/`, the pages as the site has them.

    Raises BrokenSite for links to what is neither a page nor a file.
    """
    lost: list[str] = []
    shutil.rmtree(folder, ignore_errors=True)
    places = pages()
    (folder / "docs" / DECISIONS).parent.mkdir(parents=True)
    for source, place in places.items():
        target = folder / "docs" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (TOP / source).read_text(encoding="utf-8")
        page = _Page(source, place, places, folder / "docs")
        target.write_text(page.text(text), encoding="utf-8")
        lost += page.lost
    if lost:
        raise BrokenSite("\n".join(lost))
    (folder / "docs" / DECISIONS).write_text(decisions(), encoding="utf-8")
    shutil.copy(config, folder / CONFIG.name)


def pages() -> dict[str, str]:
    """Where each page of the repository stands in the site; paths are relative, with `/`."""
    kept = {
        str(path.relative_to(TOP).as_posix()): str(path.relative_to(TOP / "docs").as_posix())
        for path in sorted((TOP / "docs").rglob("*.md"))
        if not any(_matches(path, pattern) for pattern in LEFT_OUT)
    }
    return {**FROM_TOP, **kept}


def decisions() -> str:
    """The page that lists the decisions, by their headings."""
    lines = ["# Decisions", "", "Why things are as they are: what a successor would question.", ""]
    for path in sorted((TOP / "docs" / "decisions").glob("*.md")):
        heading = path.read_text(encoding="utf-8").partition("\n")[0]
        title = re.sub(r"^# (\d+[.:] )?", "", heading)
        lines.append(f"- [{title}]({path.name}) ({path.name.partition('-')[0]})")
    return "\n".join(lines) + "\n"


def links(text: str) -> Iterator[re.Match[str]]:
    """The links of a page that name a file; none within code."""
    fence = ""
    offset = 0
    for line in text.splitlines(keepends=True):
        ticks = re.match(r" *(`{3,})", line)
        if fence:
            fence = "" if ticks and ticks[1].startswith(fence) and line.strip() == ticks[1] else fence
        elif ticks:
            fence = ticks[1]
        else:
            code = [match.span() for match in _CODE.finditer(line)]
            for match in _LINK.finditer(text, offset, offset + len(line)):
                at = match.start() - offset
                if not any(begin <= at < end for begin, end in code) and "://" not in match["path"]:
                    yield match
        offset += len(line)


class _Page:
    """A page on its way into the site."""

    def __init__(self, source: str, place: str, places: dict[str, str], docs: Path) -> None:
        self.source = PurePosixPath(source)
        self.place = PurePosixPath(place)
        self.places = places
        self.docs = docs
        self.lost: list[str] = []

    def text(self, text: str) -> str:
        """The page with the site's links and fences."""
        parts, end = [], 0
        for match in links(text):
            parts += [text[end : match.start()], self.link(match)]
            end = match.end()
        return "".join(_fence(line) for line in "".join([*parts, text[end:]]).splitlines(keepends=True))

    def link(self, match: re.Match[str]) -> str:
        """A link as the site has it; a file that is no page becomes a file of the site."""
        named = os.path.normpath(self.source.parent / match["path"])
        place = self.places.get(named)
        if place is None and named == "docs/decisions":
            place = DECISIONS
        if place is None and (TOP / named).is_file():
            place = self.file(named)
        if place is None:
            if not named.endswith(".md"):  # those the generator reports, with their lines
                self.lost.append(f"{self.source}: {match['path']} leads to no page or file")
            return match[0]
        relative = os.path.relpath(place, self.place.parent)
        return f"{match['before']}{relative}{match['anchor'] or ''}{match['after']}"

    def file(self, named: str) -> str:
        """The file's place in the site; markdown that is no page is shown as text."""
        place = f"files/{named.removeprefix('docs/')}" + (".txt" if named.endswith((".md", ".yaml")) else "")
        target = self.docs / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / named, target)
        return place


def _fence(line: str) -> str:
    """A line; of a fence, the file that it is becomes its title, and other words go.

    What a terminal shows gets no button that copies it: it would copy what is typed together with what is shown.
    """
    match = _FENCE.match(line)
    if match is None:
        return line
    words = dict(word.partition("=")[::2] for word in match["rest"].split())
    title = words.get("file") or words.get("line")
    behind = f'{match["language"]} title="{title}"' if title else match["language"]
    return f"{match['indent']}{match['ticks']}{' { .console .no-copy }' if behind == 'console' else behind}\n"


def _matches(path: Path, pattern: str) -> bool:
    """Whether a page lies where the pattern says; `*/**` is everything in the folders of a folder."""
    folder = TOP / pattern.removesuffix("/*/**")
    return path.is_relative_to(folder) and path.parent != folder
