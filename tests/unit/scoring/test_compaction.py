"""Token estimates, clipping and the accumulated context of earlier phases."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.scoring.compaction import KINDS, MARKER, accumulate, clip, estimate_tokens

# The largest count of cl100k_base, o200k_base and Claude's published tokenizer.
TOKEN_COUNTS = [
    ("The quick brown fox jumps over the lazy dog.", 10),
    ("def render(self, names: dict[str, str]) -> str:\n    return self.template.render(names)\n", 27),
    ("这是一个用于测试的中文文本，描述软件架构的设计决策和风险。", 30),
    ("これはテスト用の日本語テキストで、ソフトウェア設計の決定事項を説明しています。", 39),
    ("Это русский текст, описывающий архитектуру программного обеспечения.", 34),
    ('{"id": 17, "name": "alpha", "score": 0.25}', 20),
    ("!@#$%^&*()[]{}<>/|+=~`;:,.?", 18),
    ("| --- | --- |\n| a | b |\n", 12),
    ("internationalization of authentication and authorization requirements", 7),
    ("🙂🚀🎉", 8),
]


@pytest.mark.parametrize(("text", "count"), TOKEN_COUNTS)
def test_the_estimate_is_close_to_the_count_of_real_tokenizers(text: str, count: int) -> None:
    assert 0.85 * count <= estimate_tokens(text) <= 2.5 * count


@given(st.text(), st.text())
def test_joining_two_texts_with_a_line_break_costs_no_less_than_either(a: str, b: str) -> None:
    assert estimate_tokens(f"{a}\n{b}") >= max(estimate_tokens(a), estimate_tokens(b))


@given(st.text())
def test_an_estimate_is_never_negative_and_never_more_than_the_bytes(text: str) -> None:
    assert 0 <= estimate_tokens(text) <= len(text.encode("utf-8", "surrogatepass"))


TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(["word", "Longer words", "\n", " ", "\n\n", "漢字", "----", "camelCase", "x=1;", "(("])
    ).map(" ".join),
    st.lists(st.text(alphabet="aB \n漢-.", max_size=8)).map("".join),
)


@given(TEXTS, st.integers(-2, 60))
def test_a_clipped_text_fits_and_is_a_prefix_of_the_text(text: str, n: int) -> None:
    clipped = clip(text, n)
    assert estimate_tokens(clipped) <= max(n, 0)
    if clipped != text:
        assert clipped == "" or clipped.endswith(MARKER)
        assert text.startswith(clipped.removesuffix(MARKER))
        assert estimate_tokens(text) > n


@given(TEXTS, st.integers(0, 60))
def test_clipping_again_changes_nothing(text: str, n: int) -> None:
    once = clip(text, n)
    assert clip(once, n) == once


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma"]), min_size=30, max_size=60), st.integers(8, 25))
def test_words_are_not_cut(words: list[str], n: int) -> None:
    kept = clip(" ".join(words), n).removesuffix(MARKER).split()
    assert kept == words[: len(kept)]


def test_a_clip_prefers_the_end_of_a_line() -> None:
    text = "first line of some words\nsecond line of some words\nthird line of some words\n" * 3
    assert clip(text, 32).removesuffix(MARKER).endswith("words")


def entry(**lists: Any) -> dict[str, Any]:
    return lists


def decision(name: str, text: str = "yes", **fields: Any) -> dict[str, Any]:
    return {"id": name, "decision": text, "rationale": "because", "confidence": "HIGH", **fields}


def question(name: str) -> dict[str, Any]:
    return {"id": name, "question": "how?", "priority": "HIGH", "candidates": ["a", "b"]}


@pytest.mark.row("P9")
def test_a_later_decision_replaces_an_earlier_one_with_the_same_id() -> None:
    got = accumulate([entry(key_decisions=[decision("D1", "old")]), entry(key_decisions=[decision("D1", "new")])], 500)
    assert [item["decision"] for item in got["key_decisions"]] == ["new"]


@pytest.mark.row("P9")
@pytest.mark.finding("FT16")
def test_each_record_names_its_phase() -> None:
    entries = [
        entry(phase="clarify", key_decisions=[decision("D1")], open_questions=[question("Q1"), question("Q2")]),
        entry(phase="architecture", key_decisions=[decision("D1", "no")], risks_identified=[{"id": "R1"}]),
        entry(key_decisions=[decision("D2")]),
    ]
    got = accumulate(entries, 500)
    phases = {record["id"]: record.get("phase") for kind in KINDS for record in got[kind]}
    of_architecture = dict.fromkeys(("ARCHITECTURE-D1", "R1"), "architecture")
    assert phases == {**dict.fromkeys(("D1", "Q1", "Q2"), "clarify"), **of_architecture, "D2": None}


def shown(*entries: dict[str, Any]) -> dict[str, str]:
    """The ids that stay in the context, each with what the record says."""
    got = accumulate(entries, 5000)
    fields = {"key_decisions": "decision", "open_questions": "question", "risks_identified": "risk"}
    return {record["id"]: record[field] for kind, field in fields.items() for record in got[kind]}


@pytest.mark.row("P9")
@pytest.mark.parametrize(
    ("kind", "field"),
    [("key_decisions", "decision"), ("open_questions", "question"), ("risks_identified", "risk")],
)
def test_a_record_of_another_phase_with_the_same_id_is_kept_and_renamed(kind: str, field: str) -> None:
    def of(phase: str, *texts: str) -> dict[str, Any]:
        return {"phase": phase, kind: [{"id": "D-1", field: text} for text in texts]}

    first, other = of("clarify", "Use SQLite."), of("test-plan", "Test with Postgres.")
    assert shown(first, other) == {"D-1": "Use SQLite.", "TEST-PLAN-D-1": "Test with Postgres."}
    third = of("tasks", "Split it.")
    assert shown(first, third, other) == {
        "D-1": "Use SQLite.",
        "TASKS-D-1": "Split it.",
        "TEST-PLAN-D-1": "Test with Postgres.",
    }
    assert shown(first, of("tasks", "use  SQLite.")) == {"D-1": "use  SQLite."}, "it says the same"
    assert shown(first, other, of("clarify", "Use files.")) == {
        "D-1": "Use files.",
        "TEST-PLAN-D-1": "Test with Postgres.",
    }, "a phase that runs again replaces its own record"
    assert list(shown(of("a", "One.", "Two.", "Three."))) == ["D-1", "A-D-1", "A-D-1-2"], "within one record too"
    written = {"phase": "b", kind: [{"id": "B-D-1", field: "Two."}, {"id": "D-1", field: "Three."}]}
    assert shown(of("a", "One."), written) == {"D-1": "One.", "B-D-1": "Two.", "B-D-1-2": "Three."}


@pytest.mark.row("P9")
def test_a_decision_replaces_that_of_another_phase_only_if_it_says_so() -> None:
    old = entry(phase="clarify", key_decisions=[decision("D-1", "old")])
    same_id = entry(phase="design", key_decisions=[decision("D-1", "new", resolves=["D-1"])])
    other_id = entry(phase="design", key_decisions=[decision("D-2", "new", resolves="D-1"), decision("D-3", "more")])
    assert shown(old, same_id) == {"D-1": "new"}
    assert shown(old, other_id) == {"D-2": "new", "D-3": "more"}
    rewrite = entry(phase="review", key_decisions=[decision("D-1", "new")], artifacts=["b.md", "a.md"])
    assert shown({**old, "artifacts": ["a.md"]}, rewrite) == {"D-1": "new"}, "the ids are those of the document"
    assert shown({**old, "artifacts": ["c.md"]}, rewrite) == {"D-1": "old", "REVIEW-D-1": "new"}
    one_record = entry(phase="clarify", key_decisions=[decision("D-1", "a"), decision("D-2", "b", resolves=["D-1"])])
    assert shown(one_record) == {"D-1": "a", "D-2": "b"}, "nothing in the same summary"
    answer = entry(phase="design", key_decisions=[decision("Q-1", "yes", resolves=["Q-1"])])
    asked, later = entry(open_questions=[question("Q-1")]), entry(key_decisions=[decision("D-9", resolves=["Q-1"])])
    assert shown(asked, answer, later) == {"Q-1": "yes", "D-9": "yes"}, "`resolves` means the question first"


@pytest.mark.row("P9")
def test_a_decision_settles_the_question_whose_shown_id_it_names() -> None:
    first = entry(phase="a", open_questions=[{"id": "Q-1", "question": "Who?"}])
    own = entry(
        phase="b",
        open_questions=[{"id": "Q-1", "question": "When?"}],
        key_decisions=[decision("D-1", resolves=["Q-1"])],
    )
    assert shown(first, own) == {"D-1": "yes", "B-Q-1": "When?"}
    later = entry(phase="c", key_decisions=[decision("D-2", resolves=["B-Q-1"])])
    assert shown(first, own, later) == {"D-1": "yes", "D-2": "yes"}


@pytest.mark.row("P9")
@pytest.mark.parametrize("resolves", [["Q1"], "Q1", ["Q7", "Q1"]])
def test_a_decision_closes_the_questions_and_risks_that_it_resolves(resolves: Any) -> None:
    got = accumulate(
        [
            entry(open_questions=[question("Q1"), question("Q2")], risks_identified=[{"id": "Q1"}, {"id": "R2"}]),
            entry(key_decisions=[decision("D1", resolves=resolves)]),
        ],
        500,
    )
    assert [item["id"] for item in got["open_questions"]] == ["Q2"]
    assert [item["id"] for item in got["risks_identified"]] == ["R2"]


@pytest.mark.row("P9")
def test_a_question_stays_closed_when_its_decision_is_dropped_for_space() -> None:
    late = [decision(f"L{n}", "a decision of some length") for n in range(10)]
    got = accumulate(
        [
            entry(open_questions=[question("Q1")]),
            entry(key_decisions=[decision("D1", resolves=["Q1"])]),
            entry(key_decisions=late),
        ],
        60,
    )
    assert got["open_questions"] == []
    assert got["dropped"][0]["record"]["id"] == "D1"


def test_a_question_that_is_asked_again_is_reopened() -> None:
    got = accumulate(
        [entry(key_decisions=[decision("D1", resolves=["Q1"])]), entry(open_questions=[question("Q1")])], 500
    )
    assert [item["id"] for item in got["open_questions"]] == ["Q1"]


@pytest.mark.row("P9")
def test_summaries_without_the_keys_and_invalid_records_are_skipped() -> None:
    got = accumulate(
        [entry(), entry(key_decisions=None, open_questions="text", risks_identified=["text", {"id": "R1"}])], 99
    )
    assert got == {"key_decisions": [], "open_questions": [], "risks_identified": [{"id": "R1"}], "dropped": []}


RECORDS = st.lists(
    st.builds(
        decision, st.sampled_from(["D1", "D2", "D3", "D4", "D5"]), st.sampled_from(["yes", "a longer text " * 4])
    ),
    max_size=4,
)
ENTRIES = st.lists(
    st.fixed_dictionaries({}, optional={"key_decisions": RECORDS, "risks_identified": RECORDS}), max_size=6
)


@pytest.mark.row("P9")
@given(ENTRIES, st.integers(0, 200))
def test_kept_records_fit_and_are_newer_than_dropped_ones(entries: list[dict[str, Any]], budget: int) -> None:
    everything = accumulate(entries, 1_000_000)
    got = accumulate(entries, budget)
    for kind in ("key_decisions", "risks_identified"):
        dropped = [item["record"] for item in got["dropped"] if item["kind"] == kind]
        assert dropped + got[kind] == everything[kind]
    values = [
        ", ".join(map(str, item.values())) for kind in ("key_decisions", "risks_identified") for item in got[kind]
    ]
    assert sum(map(estimate_tokens, values)) <= budget
