"""Finds paths in documents, and detects which paths a nearby word marks as new.

A path is a word with a `/` that looks like a file or folder, or the name of a file with a known ending. This module
does not access files: the verb `find` determines whether a path exists.
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
_RANGE: Final = r"(\d{1,7})(?:\s?[-–]\s?L?(\d{1,7}))?(?!\d)"
# `:12`, `:12-40` or `#L12-L40`, and after a path `line 12`, `lines 12-40` or `12–40`
_LINES: Final = re.compile(rf"(?::|#L){_RANGE}")
_LINES_AFTER: Final = re.compile(
    rf"[`*_]*[\s,:(]+(?:lines?\s|L)\s?{_RANGE}|[`*_]*[\s,:(]+(\d{{1,7}})\s?[-–]\s?(\d{{1,7}})(?![\d\w])"
)
_PART: Final = re.compile(r"[\w.@+~%*?-]+")
_FILE: Final = re.compile(r".+\.[^\W\d_]\w{0,9}|\.[^\W\d_][\w.-]*", re.DOTALL)
_DOMAIN: Final = re.compile(r"(?:[\w-]+\.)+(?:com|org|net|io|dev|app)")
_MEDIA: Final = frozenset({"application", "audio", "font", "image", "message", "model", "multipart", "text", "video"})
_WORDS: Final = frozenset({"and", "either", "if", "true", "try", "yes"})  # `try/except`, `if/else`
_JOINED: Final = re.compile(r"[\s,;&+`*_/]*(?:(?:and|or|und|et|y|e|ou|o)[\s`*_]+)?", re.IGNORECASE)
_PLACED: Final = r"(?:in|into|inside|to|from|of|by|for|with|on|over|via|using)(?:\s+(?:the|an?))?"
_INSIDE: Final = re.compile(  # `new function in`, `add a call to the`
    rf"(?:[`*_]*+(?!(?:and|or)\b)\w[^\s,;|]*+(?<!\.)\s++)+{_PLACED}\W+", re.IGNORECASE
)
_IS: Final = re.compile(r"[\s`*_]*(?:is|are|will be|must be)\s+(?:an?\s+)?", re.IGNORECASE)
# what separates a path from a mark that belongs to it: punctuation, or an open bracket with other remarks
_REMARK: Final = re.compile(r"[\s`*_]*(?:\((?:[^()]*,\s*)?[`*_]*|[-–—:|,\s`*_]*)")
_OBJECT: Final = re.compile(  # `add a limit`, `new items`, but not `new module` or `created by`
    r"\w+\s+(?!(?:files?|modules?|folders?|director(?:y|ies)|packages?|scripts?|test|pages?|documents?|here|by|in|with|for|"
    r"from|as|and|to|at)\b)\w",
    re.IGNORECASE,
)
_OF_ANOTHER: Final = re.compile(  # `with a new`, `gets a new`
    rf"\b(?:{_PLACED}|(?!(?:is|are|be|was|were)\b)\w+\s+(?:the|an?))\s+$", re.IGNORECASE
)
_ENDINGS: Final = (
    "py|pyi|ipynb|go|rs|java|kts?|scala|groovy|gradle|c|h|cc|cpp|cxx|hpp|cs|fs|rb|php|lua|swift|dart|exs?|clj|sh|bash|"
    "ps1|bat|sql|graphql|proto|html?|css|scss|sass|less|xml|svg|json|jsonc|ya?ml|toml|ini|cfg|conf|properties|lock|mdx?|"
    "rst|txt|adoc|tex|tf|tfvars|mk|cmake"
)
_SCRIPT_ENDINGS: Final = "jsx?|mjs|cjs|tsx?|vue|svelte"  # also of names of products: Node.js
_BARE_FILE: Final = re.compile(rf"(?:\w[\w+-]*\.)+(?:{_ENDINGS})")
_QUOTED_FILE: Final = re.compile(
    rf"\.?(?:\w[\w+-]*\.)+(?:{_ENDINGS}|{_SCRIPT_ENDINGS})|\.[a-z]+(?:ignore|rc|config|attributes)|[A-Z][a-z]*file|"
    "GNUmakefile|justfile|LICENSE|COPYING|NOTICE|CODEOWNERS"
)
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
            mentions = list(_mentions(line))
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
    names = {path.rpartition("/")[2] for path in paths if "/" in path}
    return [record for path, record in paths.items() if path not in names]  # `app.py` is short for `src/app.py`


def _mentions(line: str) -> Iterator[_Mention]:
    if "/" not in line and "." not in line and "`" not in line:
        return
    plain = _URL.sub(lambda url: " " * len(url[0]), line)
    for word in _WORD.finditer(plain):
        start, end = word.span()
        if len(word[0]) > LONGEST or plain[end : end + 1] in ("<", "{", "$"):
            continue
        quoted = plain[start - 1 : start] == "`" == plain[end : end + 1]
        if word[0].endswith("/") and plain[end : end + 1] == "`" and not quoted:
            continue  # a `/` between two words; the second word is in backticks
        if "/" not in word[0] and (plain[end : end + 1] == "(" or not (quoted or "." in word[0])):
            continue  # a call such as `response.json()`, or a word
        path = _PLACE_IN_IT.sub("", word[0]).rstrip(".…:,?!*_" if not quoted else "….:,")
        path = path.lstrip("*_").removeprefix("./")
        spend(MENTION_WORK)
        if _is_path(path, quoted):
            named = _LINES.search(word[0]) or _LINES_AFTER.match(plain, end)
            numbers = [int(each) for each in named.groups() if each] if named else [0]
            first, last = min(numbers), max(numbers)
            yield _Mention(path, start, end, (first, last) if first else None)


def _is_path(path: str, quoted: bool) -> bool:
    """Whether a word is a path.

    A word without a `/` must be the name of a file with a known ending. Any other word outside backticks must end in
    `/` or a file extension, or start with a dot. Words that start with `/`, `~`, `$` or `-` are not paths, because they
    are commands, routes, options or files outside a repository.
    """
    *folders, leaf = path.split("/")
    if not folders:
        return (_QUOTED_FILE if quoted else _BARE_FILE).fullmatch(leaf) is not None
    if path[:1] in "/~$-" or any(_PART.fullmatch(part) is None for part in (*folders, leaf or "x")):
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

    A mark applies to a preceding group only as a remark on it (`a.py, new`), not with an object (`a.py: add a limit`).
    If there is a comma between the preceding and the following group, the mark applies to the group on its own side of
    the comma. Without a comma, the mark applies to the following group if a word stands between the preceding group and
    the mark. Otherwise, it applies to the preceding group.
    """
    preceding = next((group for group in reversed(groups) if mentions[group[-1]].end <= column), [])
    following = next((group for group in groups if mentions[group[0]].start > column), [])
    end = mentions[preceding[-1]].end if preceding else column
    start = mentions[following[0]].start if following else column
    between = line[end:column]
    if preceding and _IS.fullmatch(between):
        return preceding[-1:] if between.split()[-1] in ("is", "a", "an") else preceding
    touches = not any(each.isalnum() or each in ":|" for each in between)
    if preceding and _OF_ANOTHER.search(between) and between.count("(") == between.count(")"):
        preceding = []
    if following and _INSIDE.fullmatch(line, column, start):  # something new in a file is not a new file
        preceding, following = preceding if touches else [], []
    if preceding and touches:
        preceding = preceding[-1:]  # `a.py`, `b.py` (new)
    is_remark = _REMARK.fullmatch(between) and ("(" in between or not _OBJECT.match(line, column))
    remarked = preceding if is_remark else []
    if not preceding or not following:
        return [] if _SENTENCE.search(line, end, start) else remarked or following
    depth = 0  # of brackets; commas inside brackets do not count
    for at in range(end, start):
        depth += (line[at] in "([") - (line[at] in ")]")
        if depth <= 0 and line[at] in ",;.|" and line[at + 1 : at + 2].isspace():
            return remarked if column < at else following
    return following if any(each.isalnum() for each in between) or ":" in between else remarked
