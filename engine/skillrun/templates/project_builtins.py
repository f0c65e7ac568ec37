"""The definitions of the project's own template functions, most of which are also filters.

The functions with `needs_run` depend on the run, which provides their implementations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from skillrun.scoring.overlap import latest
from skillrun.templates import functions, return_types
from skillrun.templates.absent import Absent
from skillrun.templates.builtin import Builtin
from skillrun.templates.document_search import hits_in
from skillrun.templates.ids import ids_in, links_between
from skillrun.templates.limits import TemplateError, spend
from skillrun.templates.numbers import numbers_in
from skillrun.templates.paths import paths_in
from skillrun.templates.records import (
    AMENDED,
    AMOUNT,
    CONVERGENCE,
    HIT,
    ID,
    LINKED,
    NEWS,
    PATH,
    QUESTION,
    REPLY,
)
from skillrun.templates.values import describe_kind, to_list, to_text
from skillrun.types.types import ANY, NUMBER, TEXT, list_of


def apply_text_edits(text: Any, changes: Any) -> dict[str, Any]:
    """Return the text with the changes applied: each replaces the words of its `says` with the words of its `instead`.

    White space between the words of `says` may differ from the text. A change whose words occur exactly once is applied
    and listed in `made`. Any other change is listed in `missed`.
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
    """Return the start and end of the words, or None if they do not occur exactly once."""
    words = words.strip()
    spend(len(text) >> 3)
    if not words:
        return None
    if (start := text.find(words)) >= 0:
        return (start, start + len(words)) if text.find(words, start + 1) < 0 else None
    pattern = re.compile(r"\s+".join(map(re.escape, words.split())))
    hits = [match.span() for match in pattern.finditer(text)][:2]
    return hits[0] if len(hits) == 1 else None


PROJECT_BUILTINS: Final[Mapping[str, Builtin]] = {
    "range": Builtin(
        functions.number_range,
        ANY,
        use="function",
        number_arguments=(0, 1, 2),
        usages=("range(n)", "range(start, stop, step)"),
        description="a list of numbers",
    ),
    "clip": Builtin(
        functions.clip,
        return_types.text_result,
        use="both",
        number_arguments=(1, "n"),
        usages=("clip(n)",),
        description="the text, cut to at most n tokens, ending in ` […]`",
    ),
    "convergence": Builtin(
        functions.convergence,
        CONVERGENCE.maybe(),
        use="both",
        usages=("convergence(settings)",),
        description=(
            "how far replies agree: `score`, `ratio`, `stability`, `level` (high, medium, low), and the number of "
            "words of agreement (`agree`) and disagreement (`disagree`); absent for fewer than two replies"
        ),
    ),
    "dedupe": Builtin(
        functions.dedupe,
        return_types.fewer_items,
        use="both",
        accepts="a list",
        number_arguments=(2, "threshold"),
        usages=("dedupe(field, threshold)",),
        description=(
            "the items without those that nearly repeat an earlier one (threshold 0.6); in very long lists, the "
            "last items are only removed if they have exactly the same words"
        ),
    ),
    "hits": Builtin(
        functions.hits,
        list_of(TEXT),
        use="both",
        accepts="a text",
        pattern_argument=1,
        usages=("hits(patterns)",),
        description="the distinct [hits](#patterns) of the regular expressions in a text; case is ignored",
    ),
    "matches": Builtin(
        functions.matches,
        return_types.matches_result,
        use="both",
        accepts="a text",
        pattern_argument=1,
        usages=("matches(patterns)",),
        description="the named regular expressions that match, each with its [hits](#patterns); case is ignored",
    ),
    "mean": Builtin(
        functions.mean,
        return_types.mean_result,
        use="both",
        accepts="a list",
        usages=("mean",),
        description="the mean of each numeric field of a list of records",
    ),
    "new_in": Builtin(
        functions.new_in,
        list_of(NEWS),
        use="both",
        accepts="a list",
        number_arguments=(3, "least"),
        pattern_argument=4,
        usages=("new_in(earlier, field, least, idle)",),
        description=(
            "for each reply of a list, what is new compared with the same member's reply in the list `earlier`: "
            "`member`, `status`, `new`, the items of the list `field` with at least `least` (5) words that do not "
            "occur in the earlier reply, and `alike`, the `overlap` of each text field with the earlier one. Words "
            "that match the patterns `idle` do not count"
        ),
    ),
    "overlap": Builtin(
        functions.overlap,
        NUMBER,
        use="both",
        usages=("overlap(other)",),
        description="the share of words that two texts have in common, 0 to 1",
    ),
    "section": Builtin(
        functions.section,
        TEXT.maybe(),
        use="both",
        usages=("section(heading)",),
        description="the text under a markdown heading; absent if there is no such heading",
    ),
    "slug": Builtin(
        functions.slug,
        TEXT,
        use="both",
        usages=("slug",),
        description="the text as a name of lower-case letters, digits and hyphens",
    ),
    "tokens": Builtin(
        functions.tokens,
        NUMBER,
        use="both",
        usages=("tokens",),
        description="an estimate of the number of tokens",
    ),
    "top": Builtin(
        functions.top,
        return_types.top_result,
        use="both",
        accepts="a list",
        number_arguments=(1, "n"),
        usages=("top(n)",),
        description="the first n items of a list, or pairs of a mapping",
    ),
    "untrusted": Builtin(
        functions.wrap_untrusted_text,
        return_types.text_result,
        use="both",
        usages=("untrusted",),
        description=(
            "the text between tags that it cannot close; similar tags in it are broken up. For a short text in "
            "the middle of a section; [material](#material) is always fenced"
        ),
    ),
    "amended": Builtin(
        apply_text_edits,
        AMENDED,
        use="both",
        usages=("amended(changes)",),
        description=(
            "a text with replacements: each change has `says`, words that occur once in the text (white space "
            "may differ), and `instead`. Returns `text`, and the changes that were `made` and `missed`"
        ),
    ),
    "hits_in": Builtin(
        hits_in,
        return_types.records_by_kind(HIT),
        use="both",
        pattern_argument=1,
        usages=("hits_in(patterns)",),
        description="each [place](#checks-of-texts) where one of the named regular expressions matches",
    ),
    "ids_in": Builtin(
        ids_in,
        return_types.records_by_kind(ID),
        use="both",
        pattern_argument=1,
        usages=("ids_in(patterns, where, to)",),
        description="each id, with the places where it is [defined and cited](#checks-of-texts)",
    ),
    "links_between": Builtin(
        links_between,
        list_of(LINKED),
        use="both",
        accepts="a list",
        usages=("links_between(document, other)",),
        description="from the result of `ids_in`, the ids that one document defines, each with its links to the other",
    ),
    "numbers_in": Builtin(
        numbers_in,
        list_of(AMOUNT),
        use="both",
        usages=("numbers_in(code)",),
        description="each [number](#checks-of-texts) with its unit",
    ),
    "paths_in": Builtin(
        paths_in,
        list_of(PATH),
        use="both",
        pattern_argument=1,
        usages=("paths_in(new)",),
        description="each [path](#checks-of-texts), and whether it is marked as new",
    ),
    "latest": Builtin(
        latest,
        return_types.latest_result,
        use="both",
        accepts="a list",
        usages=("latest(a, b, …)",),
        description="each member's last reply in several steps or lists of replies (`a.replies`)",
    ),
    "bank": Builtin(
        lambda name, group, n=3: None,  # noqa: ARG005
        list_of(QUESTION),
        use="function",
        number_arguments=(2, "n"),
        needs_run=True,
        usages=("bank(name, group, n)",),
        description="the first n questions (default 3) of a group that the run has not asked",
    ),
    "members": Builtin(
        lambda role, models: None,  # noqa: ARG005
        list_of(TEXT),
        use="function",
        needs_run=True,
        usages=("members(role, models)",),
        description="one role on several models: `['judge@opus', 'judge@haiku']`",
    ),
    "model": Builtin(
        lambda name: None,  # noqa: ARG005
        return_types.model_result,
        use="function",
        needs_run=True,
        usages=("model(name)",),
        description=(
            "the model that a name resolves to for the whole run: `name`, `id` (`provider:name`), `provider`, "
            "`model` (as in `member`), `window`, `tools` (whether it supports them); for a list of names, a list. "
            "`model(inputs.models) | map(attribute='id') | unique` leaves out names of the same model. A name that "
            "no tier, role or input of the run has is resolved with the [lists](running.md#models) fetched so far"
        ),
    ),
    "others": Builtin(
        lambda step: None,  # noqa: ARG005
        list_of(REPLY),
        use="function",
        needs_run=True,
        usages=("others(step)",),
        description=(
            "the replies of the other members in that step, or in a list of replies; all replies for a reader "
            "who is not one of the members. For `material:`"
        ),
    ),
}
