"""Finds ids in documents: where each id is defined and cited, and which ids are linked.

An occurrence defines the id if it starts a heading, a list item or a table row. Any other line defines the id if it
starts with the id in bold, with the id and a colon, or with `id:` and the id. An occurrence in a code fence or at the
start of an enumeration never defines the id. An occurrence that does not define the id is a citation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from skillrun.templates.document_search import (
    MENTION_WORK,
    PLACE_WORK,
    TitledText,
    find_occurrences,
    list_or_text,
    named_patterns,
    to_documents,
)
from skillrun.templates.limits import TemplateError, spend, spend_on_values
from skillrun.templates.values import Absent, describe_kind, to_list, to_text

MAX_RANGE_IDS: Final = 200  # in a longer range, only the first and the last id count as cited
LONGEST_LEAD: Final = 80  # characters before the id in a definition
MAX_ENUMERATION_GAP: Final = 24  # characters between two ids of an enumeration

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
    """An occurrence of an id; `kind` is the name of the pattern that matches the id.

    `form` is set if this occurrence defines the id. `depth` is then the level of a heading, or the indentation of
    another form.
    """

    line: int
    column: int
    end: int
    id: str
    kind: str
    form: Form | None = None
    depth: int = 0


def ids_in(documents: Any, patterns: Any, where: Any = None, to: Any = "to") -> list[dict[str, Any]]:
    """Return a record for each id that matches `patterns`, in order of appearance. Case matters.

    `where` maps a kind to document titles; only these documents define ids of the kind. `to` is the word, or a list of
    words, between the first and the last id of a range, as in `AC-1 to AC-4`. All ids of a range count as cited.
    """
    kinds, words = named_patterns(patterns), [to_text(word) for word in list_or_text(to)]
    if where is not None and not isinstance(where, (Mapping, Absent)):
        raise TemplateError(f"`where` must be a mapping from kind to document, not {describe_kind(where)}")
    titles = {kind: {to_text(title) for title in list_or_text(given)} for kind, given in (where or {}).items()}
    ids: dict[str, dict[str, Any]] = {}
    for document in to_documents(documents):
        mentions = list(_mentions(document, kinds, titles, words))
        enclosing_items = _enclosing_items(document, mentions)
        seen: set[tuple[str, int]] = set()
        for mention in mentions:
            record = ids.setdefault(mention.id, {"id": mention.id, "kind": mention.kind, "defined": [], "cited": []})
            if (mention.id, mention.line) not in seen:
                seen.add((mention.id, mention.line))
                place = {**document.place_record(mention.line, mention.column), "within": enclosing_items[mention.line]}
                record["cited" if mention.form is None else "defined"].append(place)
    return list(ids.values())


def links_between(ids: Any, document: Any, other: Any) -> list[dict[str, Any]]:
    """Return a record for each id that `document` defines, with its links to the document `other`.

    Each place where `other` mentions the id is a link. Each place where the id's item in `document` mentions an id that
    `other` defines is a link too. The `id` of a link is the id that `other` defines.
    """
    records = [entry for entry in to_list(ids) if isinstance(entry, Mapping)]
    spend_on_values(records)
    if len(records) < len(to_list(ids)):
        raise TemplateError("`links_between` takes the result of `ids_in`")
    own_title, other_title = to_text(document), to_text(other)
    defined = {
        title: {entry["id"] for entry in records if _in(title, entry["defined"])} for title in (own_title, other_title)
    }
    outgoing_links: dict[str, list[dict[str, Any]]] = {}
    for entry in records:
        for place in _in(own_title, entry["cited"]) if entry["id"] in defined[other_title] else ():
            for item in place["within"]:
                if item != entry["id"]:
                    outgoing_links.setdefault(item, []).append({"id": entry["id"], **place})
    links = []
    for entry in records:
        own_id, own_places = entry["id"], _in(own_title, entry["defined"])
        if not own_places:
            continue
        incoming_links = []
        for place in _in(other_title, [*entry["defined"], *entry["cited"]]) if own_title != other_title else ():
            items = (item for item in reversed(place["within"]) if item in defined[other_title] and item != own_id)
            innermost = next(items, None)
            incoming_links.append({"id": innermost, **place} if innermost is not None else place)
        spend(PLACE_WORK)
        found = incoming_links + outgoing_links.get(own_id, [])
        links.append({"id": own_id, "kind": entry["kind"], **own_places[0], "links": found})
    return links


def _in(title: str, places: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [place for place in places if place["document"] == title]


def _mentions(
    document: TitledText, kinds: Mapping[str, list[str]], defining_titles: Mapping[str, set[str]], words: list[str]
) -> Iterator[_Mention]:
    placed = [
        (*document.position(offset), name, kind)
        for offset, name, kind in find_occurrences(document.text, kinds, ignore_case=False)
        if "\n" not in name and _is_whole(document.text, offset, name)
    ]
    for at, (line, column, name, kind) in enumerate(placed):
        spend(MENTION_WORK)
        end, text = column + len(name), document.lines[line]
        follower = placed[at + 1] if at + 1 < len(placed) and placed[at + 1][0] == line else None
        further = list(_expand_range(name, text, end, words))
        form, depth = None, 0
        between = text[end : follower[1]] if follower is not None and follower[3] == kind else None
        enumerated = bool(further) or (
            between is not None and len(between) <= MAX_ENUMERATION_GAP and _ENUMERATED.fullmatch(between) is not None
        )
        may_define = document.title in defining_titles.get(kind, {document.title})
        if not enumerated and not document.fenced[line] and may_define:
            form, depth = _form(text, column, end)
        yield _Mention(line, column, end, name, kind, form, depth)
        for other in further:
            spend(1)
            yield _Mention(line, column, end, other, kind)


def _is_whole(text: str, start: int, name: str) -> bool:
    """Whether a match is a whole id. `AC-1` is only a part of `AC-12`, `X-AC-1`, `AC-1b`, `AC-1-2` and `AC-1.2`."""
    end = start + len(name)
    before, following = text[max(start - 3, 0) : start].rstrip("_")[-1:], text[end : end + 3].lstrip("_")[:2]
    if before == "-" or before.isalnum() or following[:1].isalnum():
        return False
    if following[:1] == "." and following[1:].isdecimal():
        return False
    if following[:1] == "-" and following[1:].isalnum():
        prefix = _split_number(name)[0]
        return text.startswith(f"-{prefix}", end) if not prefix or not prefix[-1].isalpha() else True
    return True


def _split_number(name: str) -> tuple[str, str]:
    """Split an id into a prefix and a trailing number. The number is empty if the id does not end with digits."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def _expand_range(name: str, line: str, end: int, words: list[str]) -> Iterator[str]:
    """Yield the ids after the first in a range or enumeration: `AC-1 to AC-4`, `AC-1–4`, `AC-1/2/3` or `AC-1, 2, 5`."""
    prefix, number = _split_number(name)
    if not number:
        return
    joint = "|".join(["[–—…]", r"\.\.\.?", "-", *(rf"[ ]{re.escape(word)}[ ]" for word in words)])
    span = re.compile(rf"[*_`]*[ ]?(?:{joint})[ ]?[*_`]*(?P<prefix>{re.escape(prefix)})?(?P<last>\d+)(?!\w|\.\d)")
    while True:
        match = span.match(line, end)
        # if the prefix does not end in a letter, a number after a hyphen belongs to the id
        if match and (match["prefix"] or prefix[-1:].isalpha() or not match[0].strip("*_` ").startswith("-")):
            first, last = int(number[-9:]), int(match["last"][-9:])
            if first < last:
                numbers = range(first + 1, last + 1) if last - first <= MAX_RANGE_IDS else (last,)
                yield from (f"{prefix}{str(value).zfill(len(number))}" for value in numbers)
            end = match.end()
        if (match := _NEXT.match(line, end)) is None:
            return
        number = match[1] or match[2]
        yield f"{prefix}{number}"
        end = match.end()


def _form(line: str, column: int, end: int) -> tuple[Form | None, int]:
    """Return the form and depth of the definition at `column`, or (None, 0) if the line defines no id there."""
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


def _enclosing_items(document: TitledText, mentions: list[_Mention]) -> list[list[str]]:
    """Return, for each line, the ids of the items that contain the line, outermost first."""
    defined: dict[int, _Mention] = {}
    for mention in mentions:
        if mention.form is not None:
            defined.setdefault(mention.line, mention)
    enclosing: list[list[str]] = []
    open_items: list[_Mention] = []
    is_blank = False
    spend(len(document.lines) >> 2)
    for at, (line, fenced) in enumerate(zip(document.lines, document.fenced, strict=True)):
        if not fenced and (open_items or at in defined):
            still_open = [
                mention for mention in open_items if _continues_item(mention, line, is_blank, defined.get(at))
            ]
            open_items = still_open + ([defined[at]] if at in defined else [])
        enclosing.append([mention.id for mention in open_items])
        is_blank = not line.strip()
    return enclosing


def _continues_item(item: _Mention, line: str, after_blank: bool, new: _Mention | None) -> bool:
    """Whether a line belongs to an item that started on an earlier line."""
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
