"""Finds the paths in documents, and whether a word near a path marks it as new.

A path is a word with a `/` that looks like a file or folder. This module does not access files: the verb `find`
determines whether a path exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from skillrun.templates.document_search import (
    MENTION_WORK,
    TitledText,
    find_occurrences,
    named_patterns,
    read_documents,
)
from skillrun.templates.limits import spend

LONGEST: Final = 300  # characters of a path
_WORD: Final = re.compile(r"[^\s`,;()\[\]{}<>\"'“”‘’|=!]+")
_URL: Final = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://[^\s`<>()\"']*|\bwww\.[^\s`<>()\"']*")
_PLACE_IN_IT: Final = re.compile(r"(?:::|:\d|#).*", re.DOTALL)
_LINES: Final = re.compile(r"(?::|#L)(\d{1,7})(?:[-–]L?(\d{1,7}))?(?!\d)")
_PART: Final = re.compile(r"[\w.@+~%*?-]+")
_FILE: Final = re.compile(r".+\.[^\W\d_]\w{0,9}|\.[^\W\d_][\w.-]*", re.DOTALL)
_DOMAIN: Final = re.compile(r"(?:[\w-]+\.)+(?:com|org|net|io|dev|app)")
_MEDIA: Final = frozenset({"application", "audio", "font", "image", "message", "model", "multipart", "text", "video"})
_WORDS: Final = frozenset({"and", "either", "if", "true", "try", "yes"})  # `try/except`, `if/else`
_JOINED: Final = re.compile(r"[\s,;&+`*_/]*(?:\w{1,3}[\s`*_]+)?")
_BULLET: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)]|\|)")
_SENTENCE: Final = re.compile(r"[.;!?](?=\s)")


@dataclass(frozen=True)
class _Mention:
    path: str
    start: int
    end: int
    lines: tuple[int, int] | None = None


@dataclass
class _Path:
    new: bool = False
    lines: dict[tuple[int, int], None] = field(default_factory=dict)
    cited: list[dict[str, Any]] = field(default_factory=list)

    def to_record(self, path: str) -> dict[str, Any]:
        lines = [{"first": first, "last": last} for first, last in self.lines]
        return {"path": path, "new": self.new, "lines": lines, "cited": self.cited}


def paths_in(documents: Any, new: Any = ()) -> list[dict[str, Any]]:
    """Return a record for each path, in order of appearance.

    `new` lists regular expressions for the words that mark an adjacent path as new. A path is new if at least one of
    its mentions is marked.
    """
    marks = named_patterns(new)
    paths: dict[str, _Path] = {}
    for document in read_documents(documents):
        marked = _mark_columns(document, marks)
        in_marked_list = False  # a list introduced by a line with a mark and a final colon
        for at, line in enumerate(document.lines):
            mentions = list(_mentions(line)) if "/" in line else []
            marks_on_line = marked.get(at, [])
            if line.strip():
                opens = bool(marks_on_line) and not mentions and line.rstrip(" *_").endswith(":")
                in_marked_list = opens or (in_marked_list and _BULLET.match(line) is not None)
            new_paths = {mentions[index].path for index in _find_new_paths(line, mentions, marks_on_line)}
            for path, start in _first_columns(mentions).items():
                known = paths.setdefault(path, _Path())
                known.new = known.new or in_marked_list or path in new_paths
                known.cited.append(document.place_record(at, start))
            for mention in mentions:
                if mention.lines:
                    paths[mention.path].lines[mention.lines] = None
    return [entry.to_record(path) for path, entry in paths.items()]


def _first_columns(mentions: Iterable[_Mention]) -> dict[str, int]:
    """Return the column of each path's first mention."""
    starts: dict[str, int] = {}
    for mention in mentions:
        starts.setdefault(mention.path, mention.start)
    return starts


def _mark_columns(document: TitledText, marks: dict[str, list[str]]) -> dict[int, list[int]]:
    """Return lists of the columns at which marks start, keyed by line."""
    columns: dict[int, list[int]] = {}
    for offset, _, _ in find_occurrences(document.text, marks):
        line, column = document.position(offset)
        columns.setdefault(line, []).append(column)
    return columns


def _mentions(line: str) -> Iterator[_Mention]:
    plain = _URL.sub(lambda url: " " * len(url[0]), line)
    for word in _WORD.finditer(plain):
        start, end = word.span()
        if "/" not in word[0] or len(word[0]) > LONGEST or plain[end : end + 1] in ("<", "{", "$"):
            continue
        quoted = plain[start - 1 : start] == "`" == plain[end : end + 1]
        if word[0].endswith("/") and plain[end : end + 1] == "`" and not quoted:
            continue  # a `/` between two words, of which the second is in backticks
        path = _PLACE_IN_IT.sub("", word[0]).rstrip(".…:,?!*_" if not quoted else "….:,")
        path = path.lstrip("*_").removeprefix("./")
        spend(MENTION_WORK)
        if _is_path(path, quoted):
            yield _Mention(path, start, end, _lines(word[0]))


def _lines(word: str) -> tuple[int, int] | None:
    """Return the line range written after a path as `:12`, `:12-40` or `#L12-L40`, with the lower number first."""
    if (named := _LINES.search(word)) is None:
        return None
    first, last = int(named[1]), int(named[2] or named[1])
    return (min(first, last), max(first, last)) if first and last else None


def _is_path(path: str, quoted: bool) -> bool:
    """Whether a word with a `/` is a path.

    A word outside backticks must end in `/` or a file extension, or start with a dot. Words that start with `/`, `~`,
    `$` or `-` are not paths, because they are commands, routes, options or files outside a repository.
    """
    *folders, leaf = path.split("/")
    if not folders or path[:1] in "/~$-" or any(_PART.fullmatch(part) is None for part in (*folders, leaf or "x")):
        return False
    if not any(each.isalpha() for each in path) or any(set(part) == {"."} and len(part) > 2 for part in folders):
        return False
    if _DOMAIN.fullmatch(folders[0]):
        return False
    if not leaf or _FILE.fullmatch(leaf) or folders[0].startswith("."):
        return True
    return quoted and folders[0] not in _MEDIA | _WORDS


# paths marked as new


def _find_new_paths(line: str, mentions: list[_Mention], marks: list[int]) -> set[int]:
    """Return the indexes of the paths to which the marks on a line apply.

    Each mark applies to a group of enumerated paths next to it.
    """
    spend(len(marks) * (len(mentions) + (len(line) >> 6)) if mentions else 0)
    columns = [column for column in marks if not any(path.start <= column < path.end for path in mentions)]
    groups = _groups(line, mentions, columns)
    marked: set[int] = set()
    for column in columns:
        group = _select_group(line, mentions, groups, column)
        marked.update(group or ())
    return marked


def _groups(line: str, mentions: list[_Mention], marks: list[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    for at, mention in enumerate(mentions):
        end = mentions[at - 1].end if at else 0
        between = line[end : mention.start]
        joined = at > 0 and len(between) < 20 and _JOINED.fullmatch(between) is not None
        if joined and not any(end <= mark < mention.start for mark in marks):
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


def _select_group(line: str, mentions: list[_Mention], groups: list[list[int]], column: int) -> list[int] | None:
    """Return the group of paths that a mark applies to, or None if no group on the line belongs to the mark.

    If there is a comma between the preceding and the following group, the mark applies to the group on its own side of
    the comma. Without a comma, the mark applies to the following group if a word separates it from the preceding group,
    and to the preceding group if not.
    """
    preceding = next((group for group in reversed(groups) if mentions[group[-1]].end <= column), None)
    following = next((group for group in groups if mentions[group[0]].start > column), None)
    if preceding is not None and following is not None:
        end, start = mentions[preceding[-1]].end, mentions[following[0]].start
        comma = _comma(line, end, start)
        if comma is None:
            return following if any(each.isalnum() for each in line[end:column]) else preceding
        return preceding if column < comma else following
    if preceding is not None:
        return None if _SENTENCE.search(line, mentions[preceding[-1]].end, column) else preceding
    if following is not None:
        return None if _SENTENCE.search(line, column, mentions[following[0]].start) else following
    return None


def _comma(line: str, start: int, end: int) -> int | None:
    """Return the column of the first comma, or similar mark, that is between two columns and outside brackets."""
    depth = 0
    for at in range(start, end):
        depth += (line[at] in "([") - (line[at] in ")]")
        if depth <= 0 and line[at] in ",;.|" and line[at + 1 : at + 2].isspace():
            return at
    return None
