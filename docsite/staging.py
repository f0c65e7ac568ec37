"""Prepares the input of the site generator: the pages of `docs/` and those at the top of the repository.

Pages are written for readers of the repository. For the site, links out of `docs/` and the info strings of code blocks
change. Builds nothing.
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
"""Pages at the top of the repository, and their paths in the site."""
LEFT_OUT: Final = ("docs/judged/*/**", "docs/finished/*/**")
"""Unedited plans, code and runs, which are not pages. Those that a page links to become files of the site."""
DECISIONS: Final = "decisions/index.md"

_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w+)(?P<rest>.*)$")
_LINK: Final = re.compile(r"(?P<before>\]\()(?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?P<after>\))")
_CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")


class BrokenSite(Exception):
    """The pages have broken links."""


def stage(folder: Path, config: Path = CONFIG) -> None:
    """Fill the folder with the generator's config and the pages for the site.

    Raises BrokenSite for links to missing pages or files.
    """
    broken: list[str] = []
    shutil.rmtree(folder, ignore_errors=True)
    places = pages()
    (folder / "docs" / DECISIONS).parent.mkdir(parents=True)
    for source, place in places.items():
        target = folder / "docs" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (TOP / source).read_text(encoding="utf-8")
        page = _Page(source, place, places, folder / "docs")
        target.write_text(page.text(text), encoding="utf-8")
        broken += page.broken
    if broken:
        raise BrokenSite("\n".join(broken))
    (folder / "docs" / DECISIONS).write_text(decisions(), encoding="utf-8")
    shutil.copy(config, folder / CONFIG.name)


def pages() -> dict[str, str]:
    """The path in the site of each page of the repository; paths are relative, with `/`."""
    kept = {
        str(path.relative_to(TOP).as_posix()): str(path.relative_to(TOP / "docs").as_posix())
        for path in sorted((TOP / "docs").rglob("*.md"))
        if not any(_matches(path, pattern) for pattern in LEFT_OUT)
    }
    return {**FROM_TOP, **kept}


def decisions() -> str:
    """The page that lists the decisions by their headings."""
    lines = ["# Decisions", "", "The reasons for design choices that a new maintainer might question.", ""]
    for path in sorted((TOP / "docs" / "decisions").glob("*.md")):
        heading = path.read_text(encoding="utf-8").partition("\n")[0]
        title = re.sub(r"^# (\d+[.:] )?", "", heading)
        lines.append(f"- [{title}]({path.name}) ({path.name.partition('-')[0]})")
    return "\n".join(lines) + "\n"


def links(text: str) -> Iterator[re.Match[str]]:
    """The links of a page to files, except in code."""
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
    """A page that is prepared for the site."""

    def __init__(self, source: str, place: str, places: dict[str, str], docs: Path) -> None:
        self.source = PurePosixPath(source)
        self.place = PurePosixPath(place)
        self.places = places
        self.docs = docs
        self.broken: list[str] = []

    def text(self, text: str) -> str:
        """The page with the links and code blocks of the site."""
        parts, end = [], 0
        for match in links(text):
            parts += [text[end : match.start()], self.link(match)]
            end = match.end()
        return "".join(_fence(line) for line in "".join([*parts, text[end:]]).splitlines(keepends=True))

    def link(self, match: re.Match[str]) -> str:
        """A link for the site; a linked file that is not a page becomes a file of the site."""
        linked = os.path.normpath(self.source.parent / match["path"])
        place = self.places.get(linked)
        if place is None and linked == "docs/decisions":
            place = DECISIONS
        if place is None and (TOP / linked).is_file():
            place = self.file(linked)
        if place is None:
            if not linked.endswith(".md"):  # the generator reports those, with line numbers
                self.broken.append(f"{self.source}: {match['path']} leads to no page or file")
            return match[0]
        relative = os.path.relpath(place, self.place.parent)
        return f"{match['before']}{relative}{match['anchor'] or ''}{match['after']}"

    def file(self, linked: str) -> str:
        """The path of a file in the site; markdown files become text files."""
        place = f"files/{linked.removeprefix('docs/')}" + (".txt" if linked.endswith((".md", ".yaml")) else "")
        target = self.docs / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / linked, target)
        return place


def _fence(line: str) -> str:
    """A line; in the info string of a code block the file name becomes the title, and other words are removed.

    Terminal output gets no copy button, which would copy the commands together with their output.
    """
    match = _FENCE.match(line)
    if match is None:
        return line
    words = dict(word.partition("=")[::2] for word in match["rest"].split())
    title = words.get("file") or words.get("line")
    info = f'{match["language"]} title="{title}"' if title else match["language"]
    return f"{match['indent']}{match['ticks']}{' { .console .no-copy }' if info == 'console' else info}\n"


def _matches(path: Path, pattern: str) -> bool:
    """Whether a page matches the pattern; `*/**` is everything in the subfolders of a folder."""
    folder = TOP / pattern.removesuffix("/*/**")
    return path.is_relative_to(folder) and path.parent != folder
