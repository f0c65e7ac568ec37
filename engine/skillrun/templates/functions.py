"""The project's own filters and functions for templates. Each is pure and does a limited amount of work.

Most algorithms are in `scoring`. This module contains the algorithms that only process text, and defines how each
filter treats an absent value.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import wraps
from types import NoneType
from typing import Any, Concatenate, Final, ParamSpec

from jinja2 import filters as jinja

from skillrun.scoring import compaction
from skillrun.scoring import overlap as similarity
from skillrun.scoring.patterns import distinct_words
from skillrun.syntax.document import Fences
from skillrun.templates.document_search import named_patterns, search
from skillrun.templates.limits import TemplateError, render_budget, spend, spend_on_values
from skillrun.templates.values import ABSENT, Absent, describe_kind, to_integer, to_list, to_number, to_text
from skillrun.types.slugs import make_slug

P = ParamSpec("P")


def text_filter(change: Callable[Concatenate[str, P], Any]) -> Callable[Concatenate[Any, P], Any]:
    """Turn a function of a text into a filter. The filter keeps absent values, and converts other values to text."""

    @wraps(change)
    def apply_change(value: Any, /, *arguments: P.args, **options: P.kwargs) -> Any:
        return value if isinstance(value, Absent) else change(to_text(value), *arguments, **options)

    return apply_change


@text_filter
def wrap_untrusted_text(text: str) -> str:
    """Wrap the text in tags that it cannot close.

    The tag name contains a hash of the text, and similar tags inside the text are broken up.
    """
    escaped_text = _TAG.sub(r"\1 \2", text)
    tag = f"untrusted-{hashlib.sha256(escaped_text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"<{tag}>\n{escaped_text}\n</{tag}>"


def to_single_line(text: str, max_length: int = 120) -> str:
    """Make text from outside the engine safe for use in a message.

    The result is one line of at most `max_length` characters. It contains no control characters, and tags in it are
    broken up.
    """
    words = " ".join(_TAG.sub(r"\1 \2", text[: 4 * max_length]).split())
    plain = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in words)
    return plain if len(plain) <= max_length and len(text) <= 4 * max_length else f"{plain[: max_length - 1]}…"


_TAG: Final = re.compile(r"(untrusted)([-‐‑‒–—−﹣－])", re.IGNORECASE)  # any hyphen or dash


@text_filter
def section(text: str, heading: Any) -> Any:
    """Return the text under a markdown heading, including subsections, or an absent value if no heading matches.

    Headings are compared without level, case, numbering and emphasis.
    """
    if isinstance(heading, Absent):
        return ABSENT
    spend(len(text) >> 3)
    fences, wanted = Fences(text), _normalize_heading(to_text(heading))
    heads = [head for head in _HEADING.finditer(text) if not fences.contains(head.start())]
    for at, head in enumerate(heads):
        if _normalize_heading(head[2]) == wanted:
            ends = (other.start() for other in heads[at + 1 :] if len(other[1]) <= len(head[1]))
            return text[head.end() : next(ends, len(text))].strip()
    return ABSENT


_HEADING: Final = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*)", re.MULTILINE)
_NUMBERING: Final = re.compile(r"[\d.]*\d[.)]?\s+")


def _normalize_heading(heading: str) -> str:
    text = heading.strip().rstrip("#").strip(" \t*_:")
    return _NUMBERING.sub("", text, count=1).casefold() if _NUMBERING.match(text) else text.casefold()


@text_filter
def slug(text: str) -> str:
    """Return the text as a name of at most 64 lower-case letters, digits and hyphens.

    A text without letters and digits becomes its hash.
    """
    return make_slug(text) or hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def lines(value: Any) -> list[str]:
    """Return the lines of a text, stripped. Empty lines are left out."""
    return split(value, "\n")


def paragraphs(value: Any) -> list[str]:
    """Return the parts of a text between empty lines. An empty line inside a code fence does not split the text."""
    text = "" if isinstance(value, Absent) else to_text(value)
    spend(len(text) >> 3)
    fences, parts, place = Fences(text), [""], 0
    for line in text.splitlines(keepends=True):
        if line.strip() or fences.contains(place):
            parts[-1] += line
        elif parts[-1]:
            parts.append("")
        place += len(line)
    return [part.rstrip() for part in parts if part]


def split(value: Any, by: Any) -> list[str]:
    """Return the parts of a text between occurrences of `by`, stripped. Empty parts are left out."""
    if isinstance(value, Absent):
        return []
    text, mark = to_text(value), to_text(by)
    if not mark:
        raise TemplateError("`split` needs a separator", "write `x | split(';')` or `x | lines`")
    spend(len(text) >> 3)
    return [part.strip() for part in text.split(mark) if part.strip()]


def wordcount(value: Any) -> int:
    """Return the number of words of a text."""
    text = "" if isinstance(value, Absent) else to_text(value)
    spend(len(text) >> 3)
    return jinja.do_wordcount(text)


def top(items: Any, n: Any) -> Any:
    """Return the first n items of a list, or the first n pairs of a mapping."""
    count = max(0, to_integer(n))
    if isinstance(items, Mapping):
        return {key: items[key] for key in list(items)[:count]}
    return to_list(items)[:count]


def tokens(text: Any) -> int:
    """Estimate how many tokens the text has."""
    return 0 if isinstance(text, Absent) else compaction.estimate_tokens(_charged_text(text))


@text_filter
def clip(text: str, n: Any) -> str:
    """Cut the text to at most n tokens. The limit includes the ` […]` at the end of a cut text."""
    return compaction.clip(_charged_text(text), to_integer(n))


def overlap(a: Any, b: Any) -> float:
    """Return the share of words that two texts have in common, 0 to 1."""
    if isinstance(a, Absent) or isinstance(b, Absent):
        return 0.0
    return similarity.overlap(_charged_text(a), _charged_text(b))


def dedupe(items: Any, by: Any = None, threshold: Any = 0.6) -> list[Any]:
    """Remove items that nearly repeat an earlier item. `by` names the field to compare."""
    records = to_list(items)
    if not isinstance(by, (str, NoneType)):
        by, threshold = None, by
    with render_budget() as active_budget:  # keep half of the budget for what the template does with the items
        return similarity.dedupe(records, by, to_number(threshold), spend, active_budget.remaining_work >> 1)


def convergence(replies: Any, settings: Any) -> Any:
    """Return measures of agreement among replies, or an absent value for fewer than two replies with text.

    The measures are score, ratio, stability, level and keyword counts.
    """
    if not isinstance(settings, Mapping):
        raise TemplateError(f"the settings of `convergence` must be a mapping, not {describe_kind(settings)}")
    items = to_list(replies)
    spend_on_values(items)
    words = sum(len(settings[key]) for key in ("agree", "disagree") if isinstance(settings.get(key), (list, tuple)))
    texts = (voice.get("text") if isinstance(voice, Mapping) else voice for voice in items)
    spend(sum(len(text) for text in texts if isinstance(text, str)) * (8 + len(items) + words) >> 5)
    measured = similarity.convergence(items, settings)
    return ABSENT if measured is None else measured


def matches(text: Any, patterns: Any) -> dict[str, list[str]]:
    """Return the distinct hits of named regular expressions in the text, keyed by name.

    Expressions without a hit are left out. Case is ignored. Only the beginning of a long text is searched.
    """
    if isinstance(text, Absent):
        return {}
    searched = to_text(text)
    hits_by_name = {name: hits(searched, several) for name, several in named_patterns(patterns).items()}
    return {name: found for name, found in hits_by_name.items() if found}


def hits(text: Any, patterns: Any) -> list[str]:
    """Return the distinct hits of regular expressions in the text, in order of appearance.

    Case is ignored. Only the beginning of a long text is searched.
    """
    if isinstance(text, Absent):
        return []
    searched = to_text(text)
    expressions = [pattern for several in named_patterns(patterns).values() for pattern in several]
    return distinct_words(hit for pattern in expressions for hit in search(pattern, searched))


def sentence(text: Any) -> str:
    """Return the text without surrounding white space, and with a full stop if it ends without punctuation."""
    stripped = "" if isinstance(text, Absent) else to_text(text).strip()
    has_end = stripped.endswith("```") or stripped.rstrip("\"'”’»)]}*_`").endswith(tuple(".!?…:;。！？"))
    return stripped if has_end or not stripped else f"{stripped}."


def new_in(
    later: Any, earlier: Any, fields: Any, least: Any = similarity.MIN_NEW_WORDS, idle: Any = ()
) -> list[dict[str, Any]]:
    """Compare each reply with the same member's earlier reply, and return its new items.

    `fields` names the fields to compare, lists or texts. A text, or an item of a list, is new if it has at least
    `least` words that do not occur in the earlier reply. Words that match a pattern in `idle` are ignored.
    """
    replies, before = to_list(later), to_list(earlier)
    names = [fields] if isinstance(fields, str) else [to_text(name) for name in to_list(fields)]
    spend_on_values([replies, before])
    patterns = [pattern for several in named_patterns(idle).values() for pattern in several] if idle else []

    def remove_idle_words(text: str) -> str:
        for pattern in patterns:
            found = search(pattern, text)
            ends, starts = [0, *(at + len(hit) for at, hit in found)], [*(at for at, _ in found), len(text)]
            text = " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))
        return text

    return similarity.find_new_items(replies, before, names, to_integer(least), remove_idle_words)


def mean(records: Any) -> dict[str, float]:
    """Return the mean of each numeric field of a record or of a list of records."""
    given = records if isinstance(records, Mapping) else to_list(records)
    spend_on_values(given)
    return similarity.mean(given)


def number_range(start: Any, stop: Any = None, step: Any = 1) -> list[int]:
    """Return the numbers of `range(n)` or `range(start, stop, step)` as a list."""
    numbers = range(to_integer(start)) if stop is None else range(to_integer(start), to_integer(stop), to_integer(step))
    spend(len(numbers))
    return list(numbers)


def apply_text_edits(text: Any, changes: Any) -> dict[str, Any]:
    """Apply changes to a text. Each change replaces the words in its `says` with the words in its `instead`.

    A change is applied if its `says` occurs exactly once in the text; white space may differ. Applied changes are
    listed in `made`, all others in `missed`.
    """
    amendment: dict[str, Any] = {"text": "" if isinstance(text, Absent) else to_text(text), "made": [], "missed": []}
    for change in to_list(changes):
        if not isinstance(change, Mapping):
            raise TemplateError(f"`amended` takes records with `says` and `instead`, not {describe_kind(change)}")
        says, instead = to_text(change.get("says") or ""), to_text(change.get("instead") or "")
        place = _find_unique_span(amendment["text"], says)
        if place is None:
            amendment["missed"].append(change)
            continue
        instead = instead.lstrip(" \t") if says[:1].isspace() else instead
        instead = instead.rstrip() if says[-1:].isspace() else instead
        amendment["text"] = amendment["text"][: place[0]] + instead + amendment["text"][place[1] :]
        amendment["made"].append(change)
    return amendment


def _find_unique_span(text: str, words: str) -> tuple[int, int] | None:
    """Return the start and end of `words` in the text, or None if `words` does not occur exactly once."""
    words = words.strip()
    spend(len(text) >> 3)
    if not words:
        return None
    if (start := text.find(words)) >= 0:
        return (start, start + len(words)) if text.find(words, start + 1) < 0 else None
    pattern = re.compile(r"\s+".join(map(re.escape, words.split())))
    hits = [match.span() for match in pattern.finditer(text)][:2]
    return hits[0] if len(hits) == 1 else None


def _charged_text(value: Any) -> str:
    """Convert the value to text, and charge the budget for processing all of its words."""
    text = to_text(value)
    spend(len(text) >> 2)
    return text
