"""Texts are shortened at the ends of sections, sentences, items and code, and never longer for less room."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.runtime.prompts.material import OMISSION_MARK, Outline, units
from skillrun.scoring.compaction import estimate_tokens
from skillrun.syntax.document import Fences

WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "`code`", "**bold**", "e.g", "3.5", "漢字"])
SENTENCE = st.lists(WORDS, min_size=1, max_size=12).map(lambda words: " ".join(words) + ".")
PARAGRAPH = st.lists(SENTENCE, min_size=1, max_size=5).map(" ".join)
ITEMS = st.lists(SENTENCE, min_size=1, max_size=5).map(lambda lines: "\n".join(f"- {line}" for line in lines))
TABLE = st.lists(SENTENCE, min_size=1, max_size=4).map(lambda rows: "\n".join(f"| {row} | x |" for row in rows))
CODE = st.lists(WORDS, min_size=1, max_size=6).map(lambda lines: "\n".join(["```py", "# no heading", *lines, "```"]))
SECTION = st.tuples(
    st.integers(1, 4), st.lists(WORDS, min_size=1, max_size=3).map(" ".join),
    st.lists(st.one_of(PARAGRAPH, ITEMS, TABLE, CODE), max_size=4),
)  # fmt: skip


def document(sections: list[tuple[int, str, list[str]]]) -> str:
    return "\n\n".join("\n\n".join([f"{'#' * level} {name}", *blocks]) for level, name, blocks in sections)


DOCUMENT = st.lists(SECTION, min_size=1, max_size=5).map(document)
ANY = st.one_of(DOCUMENT, st.text(max_size=400), st.text(alphabet="#`~-|. \n\tab", max_size=200))


def kept(text: str) -> list[str]:
    """Return a shortened text without its omission marks."""
    return [
        line.removesuffix(OMISSION_MARK).rstrip()
        for line in text.splitlines()
        if line.strip() not in ("", OMISSION_MARK)
    ]


@pytest.mark.slow
@pytest.mark.row("Q1")
@given(ANY)
def test_sections_and_units_put_together_are_the_text(text: str) -> None:
    outline = Outline(text)
    assert "".join(part.heading + "".join(part.units) for part in outline.sections) == text
    assert "".join(units(text)) == text
    whole = outline.shorten(outline.most)
    assert (whole.text, whole.omitted_tokens, whole.sections) == (text, 0, ())


@pytest.mark.slow
@pytest.mark.row("Q1")
@given(DOCUMENT, st.integers(0, 120))
def test_every_heading_stays_and_no_sentence_is_cut(text: str, level: int) -> None:
    outline = Outline(text)
    short = outline.shorten(level)
    assert [part.heading.strip() for part in Outline(short.text).sections if part.heading] == [
        part.heading.strip() for part in outline.sections if part.heading
    ]
    pieces = {unit.strip() for part in outline.sections for unit in part.units}
    for line in kept(short.text):
        whole = line.lstrip().startswith("#") or any(line in piece.splitlines() or line in piece for piece in pieces)
        assert whole or all(part.strip() in text for part in re.split(r"(?<=\.) ", line)), line
    ends = [unit.rstrip()[-1] for part in outline.sections for unit in part.units if unit.strip()]
    for before in re.findall(r"(\S)\s*\[…\]", short.text):
        assert before in ends or any(part.heading.rstrip().endswith(before) for part in outline.sections)
    assert (short.omitted_tokens > 0) == (OMISSION_MARK in short.text)
    assert set(short.sections) <= {part.name for part in outline.sections}
    assert not Fences(f"{short.text}\n").contains(len(short.text)), "a code fence is left open"


@pytest.mark.row("Q1")
@given(ANY, st.integers(0, 200), st.integers(0, 200))
def test_a_higher_level_holds_all_that_a_lower_one_does_and_costs_are_upper_bounds(
    text: str, one: int, other: int
) -> None:
    outline, (low, high) = Outline(text), sorted((one, other))
    assert outline.cost(low) <= outline.cost(high)
    assert outline.shorten(low).omitted_tokens >= outline.shorten(high).omitted_tokens
    for less, more in zip(outline.sections, outline.sections, strict=True):
        assert less.unit_count(low) <= more.unit_count(high)
    short = outline.shorten(low)
    assert estimate_tokens(short.text) <= outline.cost(low) + 2


def test_what_it_looks_like() -> None:
    text = "\n".join(
        ["# Plan", "", "One point. Another point that is made here, and some more of it.", "", "## Cases", ""]
        + [f"- the {name} case here" for name in ("first", "second", "third", "fourth")]
        + ["", "```", "code that is long enough", "```", ""]
    )
    short = Outline(text).shorten(8)
    assert short.text == "# Plan\n\nOne point. […]\n\n## Cases\n\n- the first case here\n[…]"
    assert short.sections == ("Plan", "Cases")
    assert Outline(text).shorten(0).text == "# Plan\n[…]\n\n## Cases\n[…]"
