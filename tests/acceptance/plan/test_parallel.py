"""Coverage and assets in parallel: off by default, independent of each other, and retried after failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import Call
from tests.acceptance.plan.conftest import Plan, Plans, Rule, skillrun

SHIPPED = Path(__file__).parents[3]
PARALLEL = {"features": {"parallel_dispatch": {"enabled": True}}}
ASSETS_FAIL: Rule = {"address": "plan/assets/assets/*/*.[12]", "fail": "timeout"}
COVERAGE_FAILS: Rule = {"address": "plan/coverage/judged/*/*.[12]", "fail": "timeout"}
# Without these lines the phase fails when its judges do.
STRICT = {
    "skills/plan/coverage.md": "".join(
        line
        for line in (SHIPPED / "skills" / "plan" / "coverage.md").read_text(encoding="utf-8").splitlines(keepends=True)
        if "retry: consensus" not in line and "No judge gave a score; the coverage" not in line
    )
}


def turns(run: Plan) -> list[str]:
    """The calls and the ends of coverage and assets, in order; consecutive calls count once."""
    words = {"CallStarted": "asks", "PhaseEnded": ""}
    steps = [
        f"{event['phase']} {words[event['event']] or event['status']}"
        for event in run.events
        if event["event"] in words and event["phase"] in ("coverage", "assets")
    ]
    return [one for one, previous in zip(steps, ["", *steps], strict=False) if one != previous]


@pytest.mark.slow
@pytest.mark.row("P7")
@pytest.mark.parametrize("mode", ["advanced", "complete"])
def test_enabled_phases_run_in_parallel(plan: Plans, mode: str) -> None:
    run = plan(mode, config=PARALLEL)
    assert run.done.code == 0
    assert sorted(turns(run)[:2]) == ["assets asks", "coverage asks"]
    assert turns(run).count("coverage completed") == turns(run).count("assets completed") == 1
    started = [event["phase"] for event in run.events if event["event"] == "PhaseStarted"]
    assert started[-1] == "completion"


@pytest.mark.slow
@pytest.mark.row("P7")
@pytest.mark.parametrize(("mode", "config"), [("advanced", None), ("standard", PARALLEL)], ids=["default", "standard"])
def test_otherwise_the_phases_run_sequentially(plan: Plans, mode: str, config: dict[str, object] | None) -> None:
    expected = ["coverage asks", "coverage completed", "assets asks", "assets completed"]
    assert turns(plan(mode, config=config)) == expected


@pytest.mark.slow
@pytest.mark.row("P7")
def test_parallel_and_sequential_runs_write_the_same_documents(plan: Plans) -> None:
    parallel, sequential = plan("advanced", config=PARALLEL), plan("advanced")
    for path in ("coverage.md", "assets.md", "tasks.md"):
        assert parallel.artifact(path) == sequential.artifact(path)


@pytest.mark.row("P7")
def test_the_graph_shows_that_the_phases_are_independent(project: Call) -> None:
    project()
    read = {one["phase"]: one for one in skillrun("graph", "plan", "--json").json["phases"]}
    assert read["coverage"]["after"] == read["assets"]["after"] == ["test-strategy"]
    assert "assets" not in read["coverage"]["reads"]
    assert "coverage" not in read["assets"]["reads"]


@pytest.mark.row("P7")
def test_the_checker_rejects_assets_that_read_the_coverage(plan: Plans) -> None:
    assets = (SHIPPED / "skills" / "plan" / "assets.md").read_text(encoding="utf-8")
    text = assets.replace("## assets\n", "## assets\nGaps: {{ phases.coverage.outputs.missing | join(', ') }}.\n")
    run = plan("advanced", config=PARALLEL, files={"skills/plan/assets.md": text})
    assert run.done.code == 1
    assert "skills/plan/assets.md" in run.done.err
    assert "coverage" in run.done.err
    assert not run.folder.exists()


@pytest.mark.row("P7")
@pytest.mark.finding("FT15")
@pytest.mark.parametrize("path", ["coverage.md", "cover*.md", "summaries/coverage.md"])
def test_the_checker_rejects_assets_that_read_a_file_of_the_coverage(plan: Plans, path: str) -> None:
    assets = (SHIPPED / "skills" / "plan" / "assets.md").read_text(encoding="utf-8")
    text = assets.replace("steps:\n", f'steps:\n  - {{id: gaps, read: "{path}"}}\n  - {{say: "{{{{ gaps.text }}}}"}}\n')
    run = plan("advanced", files={"skills/plan/assets.md": text})
    assert run.done.code == 1
    assert "`assets` reads `" in run.done.err
    assert "which `coverage` writes, and neither follows the other" in run.done.err


@pytest.mark.slow
@pytest.mark.row("P7")
def test_when_one_fails_the_other_is_kept_and_the_failed_one_is_retried(plan: Plans) -> None:
    run = plan("advanced", [ASSETS_FAIL], config=PARALLEL)
    assert run.done.code == 0
    assert {"coverage completed", "assets failed"} < set(turns(run)[:-2])
    assert turns(run)[-2:] == ["assets asks", "assets completed"]
    starts = [event["phase"] for event in run.events if event["event"] == "PhaseStarted"]
    assert (starts.count("assets"), starts.count("coverage")) == (2, 1)
    assert len(run.addresses("plan/coverage/judged/*")) == 3
    assert run.artifact("assets.md") in run.prompt("plan/completion/tasks/*")


@pytest.mark.slow
@pytest.mark.row("P7", "P14")
def test_when_both_fail_each_is_retried_sequentially(plan: Plans) -> None:
    run = plan("advanced", [ASSETS_FAIL, COVERAGE_FAILS], config=PARALLEL, files=STRICT)
    assert run.done.code == 0
    assert {"coverage failed", "assets failed"} < set(turns(run)[:-4])
    retries = [["coverage asks", "coverage completed"], ["assets asks", "assets completed"]]
    assert turns(run)[-4:] in ([*retries[0], *retries[1]], [*retries[1], *retries[0]])


@pytest.mark.slow
@pytest.mark.row("P7", "P16")
@pytest.mark.finding("FT19")
def test_after_a_permanent_failure_the_other_result_stays_and_the_plan_is_degraded(plan: Plans) -> None:
    always = {**ASSETS_FAIL, "address": "plan/assets/assets/*"}
    run = plan("advanced", [always], config=PARALLEL)
    assert run.done.code == 0
    assert run.summary("coverage")["status"] == "completed"
    assert run.summary("assets")["status"] == "failed"
    assert len(run.addresses("plan/coverage/judged/*")) == 3
    assert "Missing: the assets." in run.artifact("plan.md")
