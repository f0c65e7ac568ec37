"""Coverage and assets at the same time: off by default, safe as neither reads the other, and when they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import Call
from tests.acceptance.plan.conftest import Plan, Plans, Rule, skillrun

SHIPPED = Path(__file__).parents[3]
BESIDE = {"features": {"parallel_dispatch": {"enabled": True}}}
ASSETS_FAIL: Rule = {"address": "plan/assets/assets/*/*.[12]", "fail": "timeout"}
COVERAGE_FAILS: Rule = {"address": "plan/coverage/judged/*/*.[12]", "fail": "timeout"}
# Judges that do not answer are passed over; without that the phase fails, as it must for this to be seen.
STRICT = {
    "skills/plan/coverage.md": "".join(
        line
        for line in (SHIPPED / "skills" / "plan" / "coverage.md").read_text(encoding="utf-8").splitlines(keepends=True)
        if "retry: consensus" not in line and "No judge gave a score; the coverage" not in line
    )
}


def turns(run: Plan) -> list[str]:
    """When coverage and assets asked somebody and how they ended, in order; many calls in a row are one."""
    words = {"CallStarted": "asks", "PhaseEnded": ""}
    told = [
        f"{event['phase']} {words[event['event']] or event['status']}"
        for event in run.events
        if event["event"] in words and event["phase"] in ("coverage", "assets")
    ]
    return [one for one, before in zip(told, ["", *told], strict=False) if one != before]


@pytest.mark.slow
@pytest.mark.row("P7")
@pytest.mark.parametrize("mode", ["advanced", "complete"])
def test_switched_on_they_run_at_the_same_time(plan: Plans, mode: str) -> None:
    run = plan(mode, config=BESIDE)
    assert run.done.code == 0
    assert sorted(turns(run)[:2]) == ["assets asks", "coverage asks"]
    assert turns(run).count("coverage completed") == turns(run).count("assets completed") == 1
    started = [event["phase"] for event in run.events if event["event"] == "PhaseStarted"]
    assert started[-1] == "completion"


@pytest.mark.slow
@pytest.mark.row("P7")
@pytest.mark.parametrize(("mode", "config"), [("advanced", None), ("standard", BESIDE)], ids=["default", "standard"])
def test_otherwise_one_follows_the_other(plan: Plans, mode: str, config: dict[str, object] | None) -> None:
    expected = ["coverage asks", "coverage completed", "assets asks", "assets completed"]
    assert turns(plan(mode, config=config)) == expected


@pytest.mark.slow
@pytest.mark.row("P7")
def test_both_ways_make_the_same_documents(plan: Plans) -> None:
    beside, in_turn = plan("advanced", config=BESIDE), plan("advanced")
    for path in ("coverage.md", "assets.md", "tasks.md"):
        assert beside.artifact(path) == in_turn.artifact(path)


@pytest.mark.row("P7")
def test_the_graph_shows_that_neither_reads_the_other(project: Call) -> None:
    project()
    read = {one["phase"]: one for one in skillrun("graph", "plan", "--json").json["phases"]}
    assert read["coverage"]["after"] == read["assets"]["after"] == ["test-strategy"]
    assert "assets" not in read["coverage"]["reads"]
    assert "coverage" not in read["assets"]["reads"]


@pytest.mark.row("P7")
def test_the_checker_refuses_assets_that_read_the_coverage(plan: Plans) -> None:
    assets = (SHIPPED / "skills" / "plan" / "assets.md").read_text(encoding="utf-8")
    text = assets.replace("## assets\n", "## assets\nGaps: {{ phases.coverage.outputs.missing | join(', ') }}.\n")
    run = plan("advanced", config=BESIDE, files={"skills/plan/assets.md": text})
    assert run.done.code == 1
    assert "skills/plan/assets.md" in run.done.err
    assert "coverage" in run.done.err
    assert not run.folder.exists()


@pytest.mark.slow
@pytest.mark.row("P7")
def test_when_one_fails_the_other_stays_and_the_failed_one_is_recovered_in_turn(plan: Plans) -> None:
    run = plan("advanced", [ASSETS_FAIL], config=BESIDE)
    assert run.done.code == 0
    assert {"coverage completed", "assets failed"} < set(turns(run)[:-2])
    assert turns(run)[-2:] == ["assets asks", "assets completed"]
    starts = [event["phase"] for event in run.events if event["event"] == "PhaseStarted"]
    assert (starts.count("assets"), starts.count("coverage")) == (2, 1)
    assert len(run.asked("plan/coverage/judged/*")) == 1
    assert run.artifact("assets.md") in run.prompt("plan/completion/tasks/*")


@pytest.mark.slow
@pytest.mark.row("P7", "P14")
def test_when_both_fail_each_is_tried_again_in_turn(plan: Plans) -> None:
    run = plan("advanced", [ASSETS_FAIL, COVERAGE_FAILS], config=BESIDE, files=STRICT)
    assert run.done.code == 0
    assert {"coverage failed", "assets failed"} < set(turns(run)[:-4])
    again = [["coverage asks", "coverage completed"], ["assets asks", "assets completed"]]
    assert turns(run)[-4:] in ([*again[0], *again[1]], [*again[1], *again[0]])


@pytest.mark.slow
@pytest.mark.row("P7")
def test_one_that_fails_for_good_fails_the_run_and_resume_asks_only_that_one(plan: Plans) -> None:
    always = {**ASSETS_FAIL, "address": "plan/assets/assets/*"}
    run = plan("advanced", [always], config=BESIDE, alone=True)
    assert run.done.code == 1
    assert run.summary("coverage")["status"] == "completed"
    before = len(run.asked("plan/coverage/*"))
    resumed = run.resumed()
    assert resumed.done.code == 0
    assert len(resumed.asked("plan/coverage/*")) == before
    assert resumed.summary("assets")["status"] == "completed"
