"""Finds paths in documents, and detects which paths a nearby word marks as new.

A path is a word with a `/` that looks like a file or folder. This module does not access files: the verb `find`
determines whether a path exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from skillrun.templates.document_search import MENTION_WORK, find_occurrences, named_patterns, to_documents
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


def paths_in(documents: Any, new: Any = ()) -> list[dict[str, Any]]:
    """Return a record for each path, in order of appearance.

    `new` lists regular expressions for words such as `new`, which mark a path next to them as new. A path is new if at
    least one of its mentions is marked.
    """
    marks = named_patterns(new)
    paths: dict[str, dict[str, Any]] = {}
    known_lines: set[tuple[str, tuple[int, int]]] = set()
    for document in to_documents(documents):
        marked: dict[int, list[int]] = {}  # the columns at which marks start, keyed by line
        for offset, _, _ in find_occurrences(document.text, marks):
            mark_line, mark_column = document.position(offset)
            marked.setdefault(mark_line, []).append(mark_column)
        in_marked_list = False  # a list introduced by a line with a mark and a final colon
        for at, line in enumerate(document.lines):
            mentions = list(_mentions(line)) if "/" in line else []
            marks_on_line = marked.get(at, [])
            if line.strip():
                opens = bool(marks_on_line) and not mentions and line.rstrip(" *_").endswith(":")
                in_marked_list = opens or (in_marked_list and _BULLET.match(line) is not None)
            new_mentions = _find_new_paths(line, mentions, marks_on_line)
            seen: set[str] = set()
            for index, mention in enumerate(mentions):
                record = paths.setdefault(mention.path, {"path": mention.path, "new": False, "lines": [], "cited": []})
                record["new"] = record["new"] or in_marked_list or index in new_mentions
                if mention.path not in seen:
                    seen.add(mention.path)
                    record["cited"].append(document.place_record(at, mention.start))
                if mention.lines and (mention.path, mention.lines) not in known_lines:
                    known_lines.add((mention.path, mention.lines))
                    record["lines"].append({"first": mention.lines[0], "last": mention.lines[1]})
    return list(paths.values())


def _mentions(line: str) -> Iterator[_Mention]:
    plain = _URL.sub(lambda url: " " * len(url[0]), line)
    for word in _WORD.finditer(plain):
        start, end = word.span()
        if "/" not in word[0] or len(word[0]) > LONGEST or plain[end : end + 1] in ("<", "{", "$"):
            continue
        quoted = plain[start - 1 : start] == "`" == plain[end : end + 1]
        if word[0].endswith("/") and plain[end : end + 1] == "`" and not quoted:
            continue  # a `/` between two words; the second word is in backticks
        path = _PLACE_IN_IT.sub("", word[0]).rstrip(".…:,?!*_" if not quoted else "….:,")
        path = path.lstrip("*_").removeprefix("./")
        spend(MENTION_WORK)
        if _is_path(path, quoted):
            named = _LINES.search(word[0])  # `:12`, `:12-40` or `#L12-L40`
            first, last = sorted((int(named[1]), int(named[2] or named[1]))) if named else (0, 0)
            yield _Mention(path, start, end, (first, last) if first else None)


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
    groups: list[list[int]] = []
    for at, mention in enumerate(mentions):
        end = mentions[at - 1].end if at else 0
        between = line[end : mention.start]
        joined = at > 0 and len(between) < 20 and _JOINED.fullmatch(between) is not None
        if joined and not any(end <= column < mention.start for column in columns):
            groups[-1].append(at)
        else:
            groups.append([at])
    return {at for column in columns for at in _select_group(line, mentions, groups, column)}


def _select_group(line: str, mentions: list[_Mention], groups: list[list[int]], column: int) -> list[int]:
    """Return the group of paths that the mark at `column` applies to, or [] if there is no such group on the line.

    If there is a comma between the preceding and the following group, the mark applies to the group on its own side of
    the comma. Without a comma, the mark applies to the following group if a word stands between the preceding group and
    the mark. Otherwise, it applies to the preceding group.
    """
    preceding = next((group for group in reversed(groups) if mentions[group[-1]].end <= column), [])
    following = next((group for group in groups if mentions[group[0]].start > column), [])
    end = mentions[preceding[-1]].end if preceding else column
    start = mentions[following[0]].start if following else column
    if not preceding or not following:
        return [] if _SENTENCE.search(line, end, start) else preceding or following
    depth = 0  # of brackets; commas inside brackets do not count
    for at in range(end, start):
        depth += (line[at] in "([") - (line[at] in ")]")
        if depth <= 0 and line[at] in ",;.|" and line[at + 1 : at + 2].isspace():
            return preceding if column < at else following
    return following if any(each.isalnum() for each in line[end:column]) else preceding
