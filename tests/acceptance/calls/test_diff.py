"""`diff`: compares two runs, and two prompts of one run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calls.conftest import REPLIES, start_run
from tests.acceptance.conftest import Call, Done, Make
from tests.acceptance.dev.test_saves import SCRIPTED, read_turn, start_dev

pytestmark = pytest.mark.row("A2")


@pytest.fixture
def two_runs(run: Path, library: Path, skillrun: Call) -> Path:
    """A project with a run `it`, and a run `kind` with a different prompt, reply and artifact."""
    assert run.is_dir()
    judge = library / "skills/w/judge.md"
    judge.write_text(judge.read_text().replace("Judge, in round", "Judge kindly, in round"))
    replies = [{"address": "*/verdict/*", "data": {"score": 5}}, *REPLIES]
    (library / "replies.yaml").write_text(json.dumps(replies))
    assert start_run(skillrun, library, "kind").code == 0
    return library


def rows(done: Done) -> dict[str, list[str]]:
    """The table's cells for the prompt and reply of each call."""
    assert done.code == 0, done
    lines = [line.split() for line in done.out.splitlines() if line.startswith(("look/", "judge/"))]
    return {name: cells[:2] for name, *cells in lines}


@pytest.mark.slow
def test_identical_runs_are_reported_as_the_same(run: Path, skillrun: Call) -> None:
    shutil.copytree(run, run.parent / "copy")
    lines = skillrun("diff", "it", "copy").out.splitlines()
    several = "1 call had several prompts, in rounds or after edits"
    both = "it: version 2 of 2, round 2, copy: version 2 of 2, round 2"
    assert lines == [
        "7 calls are the same",
        f"{several}; the last prompt is compared: judge/verdict/clerk ({both})",
        "`skillrun diff it copy --version 1` compares the first prompts",
        "",
        "artifacts:",
        "  1 the same",
    ]


@pytest.mark.slow
def test_a_table_lists_the_calls_and_artifacts_that_differ(two_runs: Path, skillrun: Call) -> None:
    done = skillrun("diff", "it", "kind")
    assert rows(done) == {"judge/verdict/clerk": ["differs", "differs"]}
    lines = done.out.splitlines()
    assert "6 calls are the same" in lines
    assert lines[lines.index("artifacts:") + 1] == "  verdict.md: +1 -1 lines"
    assert lines[-1] == "to see a phase's differences: `skillrun diff it kind judge`"


@pytest.mark.slow
def test_a_phase_shows_the_differences_in_prompts_and_replies(two_runs: Path, skillrun: Call) -> None:
    out = skillrun("diff", "it", "kind", "judge").out
    assert re.search(r"  @@ .* @@ task\n.*\n  -Judge, in round 2.\n  \+Judge kindly, in round 1.\n", out)
    assert "reply:\n  score: 4 → 5\n  - why: it was better\n" in out
    assert "verdict.md:\n" in out
    assert "look" not in out.split("prompt:")[0]
    assert "6 calls" not in out


@pytest.mark.slow
def test_json_lists_the_changed_fields_of_structured_replies(two_runs: Path, skillrun: Call) -> None:
    report = skillrun("diff", "it", "kind", "judge", "--json").json
    (call,) = report["calls"]
    assert (call["prompt"], call["tools"], call["reply"], call["is_same"]) == ("differs", "", "differs", False)
    assert call["reply_fields"] == [
        {"path": "score", "before": 4, "after": 5, "in_before": True, "in_after": True},
        {"path": "why", "before": "it was better", "after": None, "in_before": True, "in_after": False},
    ]
    assert [each["name"] for each in report["artifacts"]] == ["verdict.md"]
    assert report["sides"] == ["it", "kind"]


@pytest.mark.slow
def test_tool_results_are_compared(run: Path, library: Path, skillrun: Call) -> None:
    (library / "code" / "a.py").write_text("line_0 = 'other'\n")
    assert start_run(skillrun, library, "other").code == 0
    assert skillrun("diff", "it", "other", "look", "seen", "close", "--json").json["calls"][0]["tools"] == "differs"
    out = skillrun("diff", "it", "other", "look", "seen", "close").out
    assert "prompt: same" in out
    assert "reply: same" in out
    assert "line_0 = 'other'" in out


@pytest.mark.slow
def test_a_call_that_only_one_run_has_is_listed(two_runs: Path, library: Path, skillrun: Call) -> None:
    look = library / "skills/w/look.md"
    look.write_text(look.read_text().replace("pass.index > 1", "pass.index > 0"))
    assert start_run(skillrun, library, "short").code == 0
    lines = skillrun("diff", "kind", "short").out.splitlines()
    assert [line for line in lines if line.startswith("look/talks#2/seen-again@1/clerk  only in kind")]


@pytest.mark.slow
def test_long_differences_are_shortened_unless_a_step_is_named(run: Path, library: Path, skillrun: Call) -> None:
    judge = library / "skills/w/judge.md"
    many = "".join(f"And think of {number}.\n" for number in range(90))
    judge.write_text(judge.read_text().replace("## report", f"{many}\n## report"))
    assert start_run(skillrun, library, "long").code == 0
    brief, full = skillrun("diff", "it", "long", "judge").out, skillrun("diff", "it", "long", "judge", "verdict").out
    assert "And think of 89." not in brief
    assert "more lines" in brief
    assert "And think of 89." in full
    assert "And think of 89." in skillrun("diff", "it", "long", "--full").out


@pytest.mark.slow
def test_two_runs_show_which_rounds_are_compared_and_accept_a_version(two_runs: Path, skillrun: Call) -> None:
    out = skillrun("diff", "it", "kind", "judge").out
    assert "(it: version 2 of 2, round 2, kind: version 1 of 1, round 1)" in out
    assert "`skillrun diff it kind judge --version 1` compares the first prompts" in out
    assert "judge: verdict/clerk (- it: version 2 of 2, round 2, + kind: version 1 of 1, round 1)" in out
    done = skillrun("diff", "it", "kind", "judge", "--version", "1")
    assert (
        "version 1 (or the last, if there are fewer) is compared: judge/verdict/clerk (it: version 1 of 2, round 1"
        in done.out
    )
    assert "  -Judge, in round 1.\n  +Judge kindly, in round 1.\n" in done.out
    assert "artifacts:" not in done.out


@pytest.mark.parametrize("names", [("it",), ("it", "it"), ("it", "judge"), ("it", "it", "judge", "verdict")])
def test_one_run_is_compared_with_its_earlier_prompts(run: Path, skillrun: Call, names: tuple[str, ...]) -> None:
    done = skillrun("diff", *names, "--full")
    assert done.code == 0, done
    assert "judge: verdict/clerk (- before: version 1 of 2, round 1, + now: version 2 of 2, round 2)" in done.out
    assert "  -Judge, in round 1.\n  +Judge, in round 2.\n" in done.out
    assert "score: 1 → 4" in done.out


@pytest.mark.slow
def test_one_run_is_compared_with_its_earlier_artifacts(library: Path, skillrun: Call) -> None:
    judge = library / "skills/w/judge.md"
    goto_step, write_step = (
        "  - {when: verdict.data.score < 3, goto: judge, at_most: 1}\n",
        "  - {id: report, write: verdict.md}\n",
    )
    judge.write_text(judge.read_text().replace(goto_step + write_step, write_step + goto_step))
    assert start_run(skillrun, library, "it").code == 0
    done = skillrun("diff", "it")
    assert "  verdict.md: +1 -1 lines" in done.out.splitlines()
    (artifact,) = skillrun("diff", "it", "judge", "--json").json["artifacts"]
    assert artifact["difference"][-2:] == ["-The score is 1.", "+The score is 4."]
    assert "-The score is 1." in skillrun("diff", "it", "judge").out
    assert skillrun("diff", "it", "judge", "verdict", "--json").json["artifacts"] == []


@pytest.mark.slow
def test_a_reverted_edit_makes_the_first_prompt_current_again(project: Make, skillrun: Call) -> None:
    folder = project("greeting")
    draft, send = (folder / "skills" / "greeting" / f"{name}.md" for name in ("draft", "send"))
    draft_text, send_text = draft.read_text(), send.read_text()
    with start_dev(*SCRIPTED) as process:
        try:
            read_turn(process)
            for path, text in (
                (draft, draft_text.replace("Greet ", "Kindly greet ")),
                (draft, draft_text),
                (send, send_text.replace("To ", "For ")),
                (send, send_text),
            ):
                path.write_text(text)
                assert not [line for line in read_turn(process) if "problem" in line]
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
        (("it", "judge", "verdict", "--version", "7"), "hint: there are versions 1 to 2; choose one before the last"),
        (("it", "kindd"), "hint: did you mean `kind`?"),
        (("it", "kind", "juge"), "hint: did you mean `judge`?"),
        (("it", "kind", "judge", "x"), "hint: allowed: verdict/clerk"),
        (("it", "judge", "verdict", "clerk", "more"), "hint: `skillrun diff RUN OTHER PHASE STEP MEMBER`"),
    ],
)
def test_an_invalid_comparison_is_refused_with_a_hint(
    two_runs: Path, skillrun: Call, names: tuple[str, ...], hint: str
) -> None:
    done = skillrun("diff", *names)
    assert done.code == 2, done
    assert done.err.splitlines()[-1].startswith(hint)


@pytest.mark.slow
def test_diff_changes_no_files(two_runs: Path, skillrun: Call) -> None:
    def files() -> dict[Path, Any]:
        return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in two_runs.rglob("*")}

    before = files()
    skillrun("diff", "it", "kind", "--full")
    assert files() == before


@pytest.mark.slow
def test_versions_of_a_prompt_are_compared_while_dev_runs(project: Make, skillrun: Call) -> None:
    draft = project("greeting") / "skills" / "greeting" / "draft.md"
    with start_dev(*SCRIPTED) as process:
        try:
            read_turn(process)
            assert "has another prompt" in skillrun("diff", "dev-greeting").err
            draft.write_text(draft.read_text().replace("Greet ", "Kindly greet "))
            read_turn(process)
            out = skillrun("diff", "dev-greeting", "draft", "words").out
            assert re.search(r"\n  -Greet .*\n  \+Kindly greet ", out)
            assert "reply:\n" in out
            assert "version 2 of 2" in skillrun("show", "dev-greeting", "draft").out
        finally:
            process.terminate()
