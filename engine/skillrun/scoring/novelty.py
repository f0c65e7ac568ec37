"""Finds what the members of a panel say that they did not say in an earlier reply, by comparing words.

This heuristic detects verbatim and near-verbatim repetition; only a model can judge whether the substance is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from skillrun.scoring.overlap import overlap, words

MIN_NEW_WORDS: Final = 5  # words


def find_new_items(
    later: Iterable[Any],
    earlier: Iterable[Any],
    field: str,
    min_words: int = MIN_NEW_WORDS,
    clean_text: Callable[[str], str] = str,
) -> list[dict[str, Any]]:
    """Return a record for each reply of `later`: `member`, `status`, `new` and `alike`.

    `new` are the items of the list `field` with at least `min_words` words that do not occur in the member's reply in
    `earlier`; `clean_text` removes words that do not count. `alike` has the Jaccard overlap of each text field with the
    earlier one. A failed reply has nothing new; without an earlier reply, everything is new.
    """
    earlier_by_member = {
        reply["member"]: reply for reply in earlier if isinstance(reply, Mapping) and _has_answer(reply)
    }
    records = []
    for reply in later:
        if not isinstance(reply, Mapping):
            continue
        old = earlier_by_member.get(str(reply.get("member")), {})
        data, old_data = _data(reply), _data(old)
        known = words("\n".join(_texts([old_data, old.get("text", "") if not old_data else ""])))
        items = data.get(field)
        new = (
            [item for item in items if _count_new_words(item, known, clean_text) >= min_words]
            if isinstance(items, list)
            else []
        )
        alike = {
            name: round(overlap(text, old_data[name]), 4)
            for name, text in data.items()
            if isinstance(text, str) and isinstance(old_data.get(name), str)
        }
        records.append({"member": reply.get("member"), "status": reply.get("status"), "new": new, "alike": alike})
    return records


def _has_answer(reply: Mapping[str, Any]) -> bool:
    return reply.get("status") == "success" and isinstance(reply.get("member"), str)


def _data(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    data = reply.get("data")
    return data if isinstance(data, Mapping) and reply.get("status") == "success" else {}


def _count_new_words(item: Any, known: frozenset[str], clean_text: Callable[[str], str]) -> int:
    """Count the distinct words of an item that are not known."""
    return len(words(clean_text("\n".join(_texts(item)))) - known)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)
