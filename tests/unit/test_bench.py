"""The computations of the benchmark: targets, repetitions, and the share of input that a prefix cache would serve."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import ours, plans, sessions
from bench.process import Subject, SubjectFailed
from bench.subject import CallFailed
from bench.subject import Work as Calls
from bench.table import lines
from bench.works import Figure, Target, Work, measure
from skillrun.models.messages import Block, Message, Request


@given(st.text("ab", max_size=40), st.text("ab", max_size=40))
def test_two_texts_share_their_longest_common_prefix(one: str, other: str) -> None:
    length = plans.shared(one, other)
    assert one[:length] == other[:length]
    assert one[: length + 1] != other[: length + 1] or length == min(len(one), len(other))


def test_the_ideal_cache_serves_input_that_was_sent_before() -> None:
    async def cached_tokens(*tasks: str) -> list[int]:
        model = plans.Ideal()
        return [(await model.send(request(task), "plan/a")).usage.cache_read for task in tasks]

    def request(task: str) -> Request:
        return Request("scripted:x", (Block("Be exact. " * 50),), (Message("user", (Block(task),)),), 900)

    first, other, repeated = asyncio.run(cached_tokens("Write a plan.", "Judge a plan.", "Write a plan."))
    assert first == 0 < other < repeated


@pytest.mark.slow
def test_a_plan_run_is_measured(tmp_path: Path) -> None:
    figures = asyncio.run(plans.plan("rapid", 1, tmp_path, embedded=False))
    assert (figures["status"], figures["rounds"]) == ("completed", 1)
    assert 10 <= figures["calls"] <= 20, "the scripted replies decide how many corrections are made"
    assert 0 < figures["cached"] < figures["input"]


@pytest.mark.slow
def test_modes_with_several_models_are_measured_the_same_way(tmp_path: Path) -> None:
    for mode, min_calls in zip(plans.SEVERAL, (2, 6, 8), strict=True):
        (tmp_path / mode).mkdir()
        figures = asyncio.run(plans.plan(mode, 1, tmp_path / mode, embedded=False))
        assert figures["status"] == "completed" or "has not passed a review" in figures["reason"]
        assert figures["calls"] >= min_calls + figures["rounds"] - 1


@pytest.mark.slow
@pytest.mark.row("D9")
@pytest.mark.parametrize("kind", ["fresh", "persistent"])
def test_both_kinds_of_design_session_make_the_same_calls(tmp_path: Path, kind: str) -> None:
    figures = asyncio.run(sessions.session(kind, 1, tmp_path, plans.Ideal()))
    assert (figures["status"], figures["reason"]) == ("completed", "")
    assert (figures["calls"], figures["rounds"]) == (6, 3)
    assert (figures["saved"] > 0) is (kind == "persistent")
    assert 0 < figures["read anew"] < figures["input"]


@pytest.mark.finding("NC6")
def test_after_a_failure_or_an_edit_only_the_affected_parallel_call_is_made(tmp_path: Path) -> None:
    calls = Calls(calls=5, delay=0, reply="", folder=tmp_path, fail=2)
    with pytest.raises(CallFailed):
        asyncio.run(ours.again(calls))
    assert set(calls.asked) == {0, 1, 2, 3, 4}
    resumed = Calls(calls=5, delay=0, reply="", folder=tmp_path, resume=True)
    asyncio.run(ours.again(resumed))
    assert resumed.asked == [2]
    edited = Calls(calls=5, delay=0, reply="", folder=tmp_path, resume=True, edit=3)
    asyncio.run(ours.again(edited))
    assert edited.asked == [3]


def test_an_outdated_reply_is_detected() -> None:
    edited = Calls(calls=2, delay=0, reply="", folder=Path(), edit=1)
    with pytest.raises(SystemExit, match="in one word"):
        edited.check(["Reply to: Answer question 0.", "Reply to: Answer question 1."])


@pytest.mark.parametrize(("value", "sign"), [(61.0, "✓"), (59.0, "✗")])
def test_a_target_can_be_a_minimum(value: float, sign: str) -> None:
    figure = Figure("share", "%", (Target(60, "a", least=True),))
    work = Work("w", "A work", (Subject("a", ()),), (figure,), lambda _subject: {"share": value})
    assert f"    {sign} target: a at least 60: {value:.3g}" in lines(measure(work, 1))


def test_each_repetition_has_its_own_seed_and_a_failure_does_not_stop_the_others() -> None:
    def run_subject(subject: Subject) -> dict[str, float]:
        if subject.seed == 2:
            raise SubjectFailed("out of luck")
        return {"share": float(subject.seed)}

    work = Work("w", "A work", (Subject("a", ()),), (Figure("share", "%"),), run_subject, seeded=True)
    results = measure(work, 3)
    assert results.values == {"share": {"a": [1.0, 3.0]}}
    assert results.failures == {"a, seed 2": "out of luck"}
