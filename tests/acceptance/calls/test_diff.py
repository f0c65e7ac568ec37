"""Two runs side by side, and two prompts of one: `diff`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calls.conftest import REPLIES, begin
from tests.acceptance.conftest import Call, Done, Make
from tests.acceptance.dev.test_saves import SCRIPTED, start_dev, told

pytestmark = pytest.mark.row("A2")


@pytest.fixture
def two(run: Path, library: Path, skillrun: Call) -> Path:
    """A run, and another one with another prompt, another reply and an artifact of other lines."""
    assert run.is_dir()
    judge = library / "skills/w/judge.md"
    judge.write_text(judge.read_text().replace("Judge, in round", "Judge kindly, in round"))
    replies = [{"address": "*/verdict/*", "data": {"score": 5}}, *REPLIES]
    (library / "replies.yaml").write_text(json.dumps(replies))
    assert begin(skillrun, library, "kind").code == 0
    return library


def rows(done: Done) -> dict[str, list[str]]:
    """What the table says of each call."""
    assert done.code == 0, done
    lines = [line.split() for line in done.out.splitlines() if line.startswith(("look/", "judge/"))]
    return {name: told[:2] for name, *told in lines}


@pytest.mark.slow
def test_runs_that_are_the_same_are_said_to_be(run: Path, skillrun: Call) -> None:
    shutil.copytree(run, run.parent / "copy")
    lines = skillrun("diff", "it", "copy").out.splitlines()
    several = "1 call had several prompts, in rounds or after edits"
    both = "it: version 2 of 2, round 2, copy: version 2 of 2, round 2"
    assert lines == [
        "7 calls are the same",
        f"{several}; the last one is compared: judge/verdict/clerk ({both})",
        "`skillrun diff it copy --version 1` compares the first ones",
        "",
        "artifacts:",
        "  1 the same",
    ]


@pytest.mark.slow
def test_a_table_tells_which_calls_and_artifacts_differ(two: Path, skillrun: Call) -> None:
    done = skillrun("diff", "it", "kind")
    assert rows(done) == {"judge/verdict/clerk": ["differs", "differs"]}
    lines = done.out.splitlines()
    assert "6 calls are the same" in lines
    assert lines[lines.index("artifacts:") + 1] == "  verdict.md: +1 -1 lines"
    assert lines[-1] == "to see a phase's differences: `skillrun diff it kind judge`"


@pytest.mark.slow
def test_a_phase_shows_the_differences_of_prompts_and_replies(two: Path, skillrun: Call) -> None:
    out = skillrun("diff", "it", "kind", "judge").out
    assert re.search(r"  @@ .* @@ task\n.*\n  -Judge, in round 2.\n  \+Judge kindly, in round 1.\n", out)
    assert "reply:\n  score: 4 → 5\n  - why: it was mended\n" in out
    assert "verdict.md:\n" in out
    assert "look" not in out.split("prompt:")[0]
    assert "6 calls" not in out


@pytest.mark.slow
def test_structured_replies_differ_by_field_in_the_json_too(two: Path, skillrun: Call) -> None:
    told = skillrun("diff", "it", "kind", "judge", "--json").json
    (call,) = told["calls"]
    assert (call["prompt"], call["tools"], call["reply"], call["is_same"]) == ("differs", "", "differs", False)
    assert call["reply_fields"] == [
        {"path": "score", "before": 4, "after": 5, "in_before": True, "in_after": True},
        {"path": "why", "before": "it was mended", "after": None, "in_before": True, "in_after": False},
    ]
    assert [each["name"] for each in told["artifacts"]] == ["verdict.md"]
    assert told["sides"] == ["it", "kind"]


@pytest.mark.slow
def test_what_tools_answered_is_compared(run: Path, library: Path, skillrun: Call) -> None:
    (library / "code" / "a.py").write_text("line_0 = 'other'\n")
    assert begin(skillrun, library, "other").code == 0
    assert skillrun("diff", "it", "other", "look", "seen", "close", "--json").json["calls"][0]["tools"] == "differs"
    out = skillrun("diff", "it", "other", "look", "seen", "close").out
    assert "prompt: same" in out
    assert "reply: same" in out
    assert "line_0 = 'other'" in out


@pytest.mark.slow
def test_a_call_of_one_run_alone_is_named(two: Path, library: Path, skillrun: Call) -> None:
    look = library / "skills/w/look.md"
    look.write_text(look.read_text().replace("pass.index > 1", "pass.index > 0"))
    assert begin(skillrun, library, "short").code == 0
    lines = skillrun("diff", "kind", "short").out.splitlines()
    assert [line for line in lines if line.startswith("look/talks#2/seen-again@1/clerk  only in kind")]


@pytest.mark.slow
def test_long_differences_are_cut_and_told_in_full_with_a_step(run: Path, library: Path, skillrun: Call) -> None:
    judge = library / "skills/w/judge.md"
    many = "".join(f"And think of {number}.\n" for number in range(90))
    judge.write_text(judge.read_text().replace("## report", f"{many}\n## report"))
    assert begin(skillrun, library, "long").code == 0
    brief, full = skillrun("diff", "it", "long", "judge").out, skillrun("diff", "it", "long", "judge", "verdict").out
    assert "And think of 89." not in brief
    assert "more lines" in brief
    assert "And think of 89." in full
    assert "And think of 89." in skillrun("diff", "it", "long", "--full").out


@pytest.mark.slow
def test_two_runs_say_which_rounds_stand_beside_each_other_and_take_others(two: Path, skillrun: Call) -> None:
    out = skillrun("diff", "it", "kind", "judge").out
    assert "(it: version 2 of 2, round 2, kind: version 1 of 1, round 1)" in out
    assert "`skillrun diff it kind judge --version 1` compares the first ones" in out
    assert "judge: verdict/clerk (- it: version 2 of 2, round 2, + kind: version 1 of 1, round 1)" in out
    done = skillrun("diff", "it", "kind", "judge", "--version", "1")
    assert (
        "version 1 (or the last, if there are fewer) is compared: judge/verdict/clerk (it: version 1 of 2, round 1"
        in done.out
    )
    assert "  -Judge, in round 1.\n  +Judge kindly, in round 1.\n" in done.out
    assert "artifacts:" not in done.out


@pytest.mark.parametrize("names", [("it",), ("it", "it"), ("it", "judge"), ("it", "it", "judge", "verdict")])
def test_one_run_has_its_prompts_beside_earlier_ones(run: Path, skillrun: Call, names: tuple[str, ...]) -> None:
    done = skillrun("diff", *names, "--full")
    assert done.code == 0, done
    assert "judge: verdict/clerk (- before: version 1 of 2, round 1, + now: version 2 of 2, round 2)" in done.out
    assert "  -Judge, in round 1.\n  +Judge, in round 2.\n" in done.out
    assert "score: 1 → 4" in done.out


@pytest.mark.slow
def test_one_run_has_its_artifacts_beside_what_they_were(library: Path, skillrun: Call) -> None:
    judge = library / "skills/w/judge.md"
    back, report = (
        "  - {when: verdict.data.score < 3, goto: judge, at_most: 1}\n",
        "  - {id: report, write: verdict.md}\n",
    )
    judge.write_text(judge.read_text().replace(back + report, report + back))
    assert begin(skillrun, library, "it").code == 0
    done = skillrun("diff", "it")
    assert "  verdict.md: +1 -1 lines" in done.out.splitlines()
    (told,) = skillrun("diff", "it", "judge", "--json").json["artifacts"]
    assert told["difference"][-2:] == ["-The score is 1.", "+The score is 4."]
    assert "-The score is 1." in skillrun("diff", "it", "judge").out
    assert skillrun("diff", "it", "judge", "verdict", "--json").json["artifacts"] == []


@pytest.mark.slow
def test_an_edit_that_is_taken_back_makes_the_first_prompt_the_last_one_again(project: Make, skillrun: Call) -> None:
    folder = project("greeting")
    draft, send = (folder / "skills" / "greeting" / f"{name}.md" for name in ("draft", "send"))
    first, sent = draft.read_text(), send.read_text()
    with start_dev(*SCRIPTED) as process:
        try:
            told(process)
            for path, text in (
                (draft, first.replace("Greet ", "Kindly greet ")),
                (draft, first),
                (send, sent.replace("To ", "For ")),
                (send, sent),
            ):
                path.write_text(text)
                assert not [line for line in told(process) if "problem" in line]
            out = skillrun("diff", "dev-greeting", "--full").out
            assert "  -Kindly greet Ada" in out
            assert "  -For Ada:" in out
            assert "  +To Ada:" in out
            assert skillrun("show", "dev-greeting", "draft", "words", "--json").json["calls"][0]["version"] == 2
            assert "-For Ada:" in skillrun("diff", "dev-greeting", "send").out, "a phase without calls has artifacts"
        finally:
            process.terminate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (("it", "look"), "hint: compare with another run: `skillrun diff it OTHER`"),
        (("it", "judge", "verdict", "--version", "7"), "hint: there are versions 1 to 2; the last is compared"),
        (("it", "kindd"), "hint: did you mean `kind`?"),
        (("it", "kind", "juge"), "hint: did you mean `judge`?"),
        (("it", "kind", "judge", "x"), "hint: allowed: verdict/clerk"),
        (("it", "judge", "verdict", "clerk", "more"), "hint: `skillrun diff RUN OTHER PHASE STEP MEMBER`"),
    ],
)
def test_what_cannot_be_compared_is_said(two: Path, skillrun: Call, names: tuple[str, ...], hint: str) -> None:
    done = skillrun("diff", *names)
    assert done.code == 2, done
    assert done.err.splitlines()[-1].startswith(hint)


@pytest.mark.slow
def test_it_changes_nothing(two: Path, skillrun: Call) -> None:
    def files() -> dict[Path, Any]:
        return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in two.rglob("*")}

    before = files()
    skillrun("diff", "it", "kind", "--full")
    assert files() == before


@pytest.mark.slow
def test_versions_of_a_prompt_are_compared_while_dev_runs(project: Make, skillrun: Call) -> None:
    draft = project("greeting") / "skills" / "greeting" / "draft.md"
    with start_dev(*SCRIPTED) as run:
        try:
            told(run)
            assert "has another prompt" in skillrun("diff", "dev-greeting").err
            draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
            told(run)
            out = skillrun("diff", "dev-greeting", "draft", "words").out
            assert re.search(r"\n  -Greet .*\n  \+Kindly greet ", out)
            assert "reply:\n" in out
            assert "version 2 of 2" in skillrun("show", "dev-greeting", "draft").out
        finally:
            run.terminate()
