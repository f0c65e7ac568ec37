"""Ids over several documents: where each is defined, where it is cited, and what is linked with what.

An id is defined where it begins a heading, a list item, a table's row or, at the beginning of a line, a bold word, or
stands there before a colon or behind `id:`; never in a code fence, and not where it begins an enumeration. Elsewhere it
is cited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from skillrun.templates.absent import Absent
from skillrun.templates.document_search import MENTION_WORK, PLACE_WORK, TitledText, named_patterns, occurrences, read
from skillrun.templates.limits import Fault, spend, weigh
from skillrun.templates.values import kind as kind_of
from skillrun.templates.values import listed, printed

MOST_IN_A_RANGE: Final = 200  # ids; of a longer range only its ends are cited
LONGEST_LEAD: Final = 80  # characters in front of an id that is defined
NEAR: Final = 24  # characters between two ids of an enumeration, at most

Form = Literal["heading", "item", "row", "paragraph"]

_LEAD: Final = re.compile(
    r"(?P<margin>[ \t>]*)"
    r"(?:(?P<heading>#{1,6})[ \t]+(?:[\d.]*\d[.)]?[ \t]+)?|(?P<row>\|)[ \t]*"
    r"|(?P<item>(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)+(?:\[.?\][ \t]+)?))?"
    r"(?P<label>[\"'*_]*[iI][dD][\"'*_]*[ \t]*:[*_]*[ \t]*)?(?P<marks>[*_`\[(\"'~]*)"
)
_BULLET: Final = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_HEADING: Final = re.compile(r"[ \t>]{0,3}(#{1,6})(?:[ \t]|$)")
_MARGIN: Final = re.compile(r"[ \t>]*")
_BEFORE_A_COLON: Final = re.compile(r"[*_`\])\"'~]*[ \t]*(?::(?!//)|\|)")
_ENUMERATED: Final = re.compile(r"[\s*_`]*(?:[,;/&+–—…][\s*_`]*\w*|\w+)[\s*_`]*")
_NUMBERED: Final = re.compile(r"(.*?)(\d+)", re.DOTALL)
_NEXT: Final = re.compile(r"/(\d+)(?![\w-])|,[ ]?(\d+)(?=[ ]?(?:[,;.)|/–—]|$))")


@dataclass(frozen=True)
class _Mention:
    """An id at a place. Where it is defined, `form` says how, and `depth` how deep: a heading's level, a margin."""

    line: int
    column: int
    end: int
    id: str
    kind: str
    form: Form | None = None
    depth: int = 0


@dataclass
class _Id:
    kind: str
    defined: list[dict[str, Any]] = field(default_factory=list)
    cited: list[dict[str, Any]] = field(default_factory=list)


def ids_in(documents: Any, patterns: Any, where: Any = None, to: Any = "to") -> list[dict[str, Any]]:
    """A record for each id that the regular expressions find, in the order in which they come up; case matters.

    `where` names the documents, by kind, that alone define ids of that kind. `to` is the word of a range; each id of a
    range is cited.
    """
    kinds, homes, words = named_patterns(patterns), _homes(where), [printed(word) for word in _texts(to)]
    ids: dict[str, _Id] = {}
    for document in read(documents):
        mentions = list(_mentions(document, kinds, homes, words))
        around = _around(document, mentions)
        seen: set[tuple[str, int]] = set()
        for mention in mentions:
            known = ids.setdefault(mention.id, _Id(mention.kind))
            if (mention.id, mention.line) not in seen:
                seen.add((mention.id, mention.line))
                place = {**document.place(mention.line, mention.column), "within": around[mention.line]}
                (known.cited if mention.form is None else known.defined).append(place)
    return [{"id": name, "kind": id_.kind, "defined": id_.defined, "cited": id_.cited} for name, id_ in ids.items()]


def links_between(ids: Any, document: Any, other: Any) -> list[dict[str, Any]]:
    """The ids that are defined in one document, each with the places that link it with the other: where the other
    mentions it, and where its own item mentions what the other defines. `id` of such a place is the other's."""
    records = [entry for entry in listed(ids) if isinstance(entry, Mapping)]
    weigh(records)
    if len(records) < len(listed(ids)):
        raise Fault("`links_between` takes what `ids_in` gives")
    here, there = printed(document), printed(other)
    defined = {title: {entry["id"] for entry in records if _in(title, entry["defined"])} for title in (here, there)}
    own: dict[str, list[dict[str, Any]]] = {}
    for entry in records:
        for place in _in(here, entry["cited"]) if entry["id"] in defined[there] else ():
            for item in place["within"]:
                if item != entry["id"]:
                    own.setdefault(item, []).append({"id": entry["id"], **place})
    links = []
    for entry in records:
        if entry["id"] in defined[here]:
            mentions = [] if here == there else _in(there, [*entry["defined"], *entry["cited"]])
            theirs = [_named(place, defined[there], entry["id"]) for place in mentions]
            first = _in(here, entry["defined"])[0]
            spend(PLACE_WORK)
            links.append(
                {"id": entry["id"], "kind": entry["kind"], **first, "links": theirs + own.get(entry["id"], [])}
            )
    return links


def _in(title: str, places: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [place for place in places if place["document"] == title]


def _named(place: dict[str, Any], known: set[str], own: str) -> dict[str, Any]:
    """The place with the innermost other item that it stands in; without an id where it stands in none."""
    inner = next((item for item in reversed(place["within"]) if item in known and item != own), None)
    return {"id": inner, **place} if inner is not None else place


# mentions


def _mentions(
    document: TitledText, kinds: Mapping[str, list[str]], homes: Mapping[str, set[str]], words: list[str]
) -> Iterator[_Mention]:
    hits = [hit for hit in occurrences(document.text, kinds, ignore_case=False) if _is_whole(document.text, *hit[:2])]
    placed = [(*document.position(offset), name, kind) for offset, name, kind in hits if "\n" not in name]
    for at, (line, column, name, kind) in enumerate(placed):
        spend(MENTION_WORK)
        end, text = column + len(name), document.lines[line]
        follower = placed[at + 1] if at + 1 < len(placed) and placed[at + 1][0] == line else None
        further = list(_further(name, text, end, words))
        form, depth = None, 0
        enumerated = bool(further) or (
            follower is not None and follower[3] == kind and _enumerated(text[end : follower[1]])
        )
        if not enumerated and not document.fenced[line] and document.title in homes.get(kind, {document.title}):
            form, depth = _form(text, column, end)
        yield _Mention(line, column, end, name, kind, form, depth)
        for other in further:
            spend(1)
            yield _Mention(line, column, end, other, kind)


def _is_whole(text: str, start: int, name: str) -> bool:
    """Whether it is no part of a longer word: `AC-1` is none in `AC-12`, `X-AC-1`, `AC-1b`, `AC-1-2` and `AC-1.2`."""
    end = start + len(name)
    before, behind = text[max(start - 3, 0) : start].rstrip("_")[-1:], text[end : end + 3].lstrip("_")[:2]
    if before == "-" or before.isalnum() or behind[:1].isalnum():
        return False
    if behind[:1] == "." and behind[1:].isdecimal():
        return False
    if behind[:1] == "-" and behind[1:].isalnum():
        prefix = _split(name)[0]
        return text.startswith(f"-{prefix}", end) if not prefix or not prefix[-1].isalpha() else True
    return True


def _enumerated(between: str) -> bool:
    return len(between) <= NEAR and _ENUMERATED.fullmatch(between) is not None


def _split(name: str) -> tuple[str, str]:
    """What stands in front of an id's number, and the number; empty where it ends in none."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def _further(name: str, line: str, end: int, words: list[str]) -> Iterator[str]:
    """The ids that a range or an enumeration adds behind one: `AC-1 to AC-4`, `AC-1–4`, `AC-1/2/3`, `AC-1, 2, 5`."""
    prefix, number = _split(name)
    if not number:
        return
    joint = "|".join(["[–—…]", r"\.\.\.?", "-", *(rf"[ ]{re.escape(word)}[ ]" for word in words)])
    span = re.compile(rf"[*_`]*[ ]?(?:{joint})[ ]?[*_`]*(?P<prefix>{re.escape(prefix)})?(?P<last>\d+)(?!\w|\.\d)")
    while True:
        if (match := span.match(line, end)) is not None and _is_range(match, prefix):
            first, last = int(number[-9:]), int(match["last"][-9:])
            if first < last:
                numbers = range(first + 1, last + 1) if last - first <= MOST_IN_A_RANGE else (last,)
                yield from (f"{prefix}{str(value).zfill(len(number))}" for value in numbers)
            end = match.end()
        if (match := _NEXT.match(line, end)) is None:
            return
        number = match[1] or match[2]
        yield f"{prefix}{number}"
        end = match.end()


def _is_range(match: re.Match[str], prefix: str) -> bool:
    """Whether a joint joins: behind a hyphen a number alone is a part of the id, unless the id itself has none."""
    joint = match[0].strip("*_` ")
    return not joint.startswith("-") or bool(match["prefix"]) or prefix[-1:].isalpha()


def _form(line: str, column: int, end: int) -> tuple[Form | None, int]:
    """How a line defines the id at a column; None where it does not."""
    lead = _LEAD.fullmatch(line, 0, column) if column <= LONGEST_LEAD else None
    if lead is None:
        return None, 0
    margin = len(lead["margin"].expandtabs(4))
    if lead["heading"]:
        return "heading", len(lead["heading"])
    if lead["row"]:
        return "row", margin
    if lead["item"]:
        return "item", margin
    bold = "**" in lead["marks"] or "__" in lead["marks"]
    is_defined = bold or lead["label"] or _BEFORE_A_COLON.match(line, end)
    return ("paragraph", margin) if is_defined else (None, 0)


# items


def _around(document: TitledText, mentions: list[_Mention]) -> list[list[str]]:
    """Of each line the ids whose items it is in, from the outermost."""
    defined: dict[int, _Mention] = {}
    for mention in mentions:
        if mention.form is not None:
            defined.setdefault(mention.line, mention)
    around: list[list[str]] = []
    open_items: list[_Mention] = []
    is_blank = False
    spend(len(document.lines) >> 2)
    for at, (line, fenced) in enumerate(zip(document.lines, document.fenced, strict=True)):
        if not fenced and (open_items or at in defined):
            kept = [mention for mention in open_items if _goes_on(mention, line, is_blank, defined.get(at))]
            open_items = kept + ([defined[at]] if at in defined else [])
        around.append([mention.id for mention in open_items])
        is_blank = not line.strip()
    return around


def _goes_on(item: _Mention, line: str, after_blank: bool, new: _Mention | None) -> bool:
    """Whether a line belongs to an item that began before it."""
    heading = _HEADING.match(line)
    if item.form == "heading":
        return heading is None or len(heading[1]) > item.depth
    if heading is not None or item.form == "row":
        return False
    if item.form == "paragraph":
        return new is None or new.form != "paragraph"
    margin = _MARGIN.match(line)
    is_out = margin is not None and len(margin[0].expandtabs(4)) <= item.depth and bool(line.strip())
    return not is_out or (not after_blank and _BULLET.match(line) is None)


# arguments


def _homes(where: Any) -> dict[str, set[str]]:
    if where is None or isinstance(where, Absent):
        return {}
    if not isinstance(where, Mapping):
        raise Fault(f"`where` is a mapping from kind to document; here is {kind_of(where)}")
    return {kind: {printed(title) for title in _texts(titles)} for kind, titles in where.items()}


def _texts(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else listed(value)
