"""The functions that the project adds to templates, most of them filters as well: an entry for each.

The last ones depend on the run, which hands them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skillrun.scoring.aggregation import latest
from skillrun.templates import functions, return_types
from skillrun.templates.builtin import Builtin
from skillrun.templates.document_search import hits_in
from skillrun.templates.ids import ids_in, links_between
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
from skillrun.templates.text_edits import amended
from skillrun.types.types import ANY, NUMBER, TEXT, list_of

OWN: Final[Mapping[str, Builtin]] = {
    "range": Builtin(
        functions.counted,
        ANY,
        use="function",
        numbers=(0, 1, 2),
        written=("range(n)", "range(start, stop, step)"),
        line="a list of numbers",
    ),
    "clip": Builtin(
        functions.clip,
        return_types.text_of_all,
        use="both",
        numbers=(1, "n"),
        written=("clip(n)",),
        line="the beginning, of at most n tokens, ending in ` […]`",
    ),
    "convergence": Builtin(
        functions.convergence,
        CONVERGENCE.maybe(),
        use="both",
        written=("convergence(settings)",),
        line=(
            "how far replies agree: `score`, `ratio`, `stability`, `level` (high, medium, low), and how many "
            "words agree (`agree`) and disagree (`disagree`); absent for fewer than two"
        ),
    ),
    "dedupe": Builtin(
        functions.dedupe,
        return_types.fewer_items,
        use="both",
        takes="a list",
        numbers=(2, "threshold"),
        written=("dedupe(field, threshold)",),
        line=(
            "the items without those that say nearly what an earlier one says (threshold 0.6); the end of a "
            "flood is only compared for the same words"
        ),
    ),
    "hits": Builtin(
        functions.hits,
        list_of(TEXT),
        use="both",
        takes="a text",
        patterns=1,
        written=("hits(patterns)",),
        line="all that the regular expressions [hit](#patterns) in a text, each once; case is ignored",
    ),
    "matches": Builtin(
        functions.matches,
        return_types.hits_by_name,
        use="both",
        takes="a text",
        patterns=1,
        written=("matches(patterns)",),
        line="the named regular expressions that occur, each with its [hits](#patterns); case is ignored",
    ),
    "mean": Builtin(
        functions.mean,
        return_types.means,
        use="both",
        takes="a list",
        written=("mean",),
        line="the mean of each numeric field of a list of records",
    ),
    "new_in": Builtin(
        functions.new_in,
        list_of(NEWS),
        use="both",
        takes="a list",
        numbers=(3, "least"),
        patterns=4,
        written=("new_in(earlier, field, least, idle)",),
        line=(
            "for each of a list of replies what it says that the member's own reply in the list `earlier` had "
            "not said: `member`, `status`, `new`, the items of the list `field` with at least `least` (5) words"
            " that stand nowhere there, and `alike`, the `overlap` of each text with the same one there. Words "
            "that match the patterns `idle` do not count"
        ),
    ),
    "overlap": Builtin(
        functions.overlap,
        NUMBER,
        use="both",
        written=("overlap(other)",),
        line="the share of words that two texts have in common, 0 to 1",
    ),
    "section": Builtin(
        functions.section,
        TEXT.maybe(),
        use="both",
        written=("section(heading)",),
        line="what stands under a markdown heading; absent when there is none",
    ),
    "slug": Builtin(
        functions.slug,
        TEXT,
        use="both",
        written=("slug",),
        line="the text as a name of small letters, digits and hyphens",
    ),
    "tokens": Builtin(
        functions.tokens,
        NUMBER,
        use="both",
        written=("tokens",),
        line="about how many tokens a model counts",
    ),
    "top": Builtin(
        functions.top,
        return_types.beginning,
        use="both",
        takes="a list",
        numbers=(1, "n"),
        written=("top(n)",),
        line="the first n items, or pairs of a mapping",
    ),
    "untrusted": Builtin(
        functions.untrusted,
        return_types.text_of_all,
        use="both",
        written=("untrusted",),
        line=(
            "the text between tags that it cannot close, and what looks like such a tag in it broken; for a "
            "short text in the middle of a section, as [material](#material) is fenced anyway"
        ),
    ),
    "amended": Builtin(
        amended,
        AMENDED,
        use="both",
        written=("amended(changes)",),
        line=(
            "a text corrected by its own words: each change has `says`, words that stand there once (white "
            "space may differ), and `instead`. Gives `text`, and the changes that were `made` and `missed`"
        ),
    ),
    "hits_in": Builtin(
        hits_in,
        return_types.by_kind(HIT),
        use="both",
        patterns=1,
        written=("hits_in(patterns)",),
        line="each [place](#checks-of-texts) where one of the named regular expressions occurs",
    ),
    "ids_in": Builtin(
        ids_in,
        return_types.by_kind(ID),
        use="both",
        patterns=1,
        written=("ids_in(patterns, where, to)",),
        line="each id, where it is [defined and where cited](#checks-of-texts)",
    ),
    "links_between": Builtin(
        links_between,
        list_of(LINKED),
        use="both",
        takes="a list",
        written=("links_between(document, other)",),
        line="of what `ids_in` gives: the ids that one document defines, each with what links it with the other",
    ),
    "numbers_in": Builtin(
        numbers_in,
        list_of(AMOUNT),
        use="both",
        written=("numbers_in(code)",),
        line="each [number](#checks-of-texts) with its unit",
    ),
    "paths_in": Builtin(
        paths_in,
        list_of(PATH),
        use="both",
        patterns=1,
        written=("paths_in(new)",),
        line="each [path](#checks-of-texts), and whether it is said to be new",
    ),
    "latest": Builtin(
        latest,
        return_types.last_words,
        use="both",
        takes="a list",
        written=("latest(a, b, …)",),
        line="each member's last reply over several steps, or lists of replies (`a.replies`)",
    ),
    "bank": Builtin(
        lambda name, group, n=3: None,  # noqa: ARG005
        list_of(QUESTION),
        use="function",
        numbers=(2, "n"),
        needs_run=True,
        written=("bank(name, group, n)",),
        line="the first n questions (default 3) of a group that the run has not asked",
    ),
    "members": Builtin(
        lambda role, models: None,  # noqa: ARG005
        list_of(TEXT),
        use="function",
        needs_run=True,
        written=("members(role, models)",),
        line="one role on several models: `['judge@opus', 'judge@haiku']`",
    ),
    "model": Builtin(
        lambda name: None,  # noqa: ARG005
        return_types.model,
        use="function",
        needs_run=True,
        written=("model(name)",),
        line=(
            "what a model's name means in this run, and goes on to mean: `name`, `id` (`provider:name`), "
            "`provider`, `model` (as of a `member`), `window`, `tools` (whether it takes them); of a list of "
            "names a list. `model(inputs.models) | map(attribute='id') | unique` leaves out names that mean the"
            " same. What no tier, role or input of the run names goes by the [lists](running.md#models) that "
            "are there already"
        ),
    ),
    "others": Builtin(
        lambda step: None,  # noqa: ARG005
        list_of(REPLY),
        use="function",
        needs_run=True,
        written=("others(step)",),
        line=(
            "the replies of the other members in that step, or in a list of replies; all of them for a reader "
            "who is none of them. For `material:`"
        ),
    ),
}
