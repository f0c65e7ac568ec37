"""Plans on random replies: loops stop at their limits, lists stay short, prompts fit, and every run ends."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Final

import pytest

from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.frontmatter import from_frontmatter
from tests.acceptance.plan.conftest import Plan, share_estimate, skillrun
from tests.acceptance.plan.test_specify_gate import GATE
from tests.acceptance.plan.test_windows import set_window

SEEDS: Final = range(1, 1 + int(os.environ.get("NOISE_SEEDS", "1")))
REQUEST: Final = "Let people sign in with a second factor"
WINDOW: Final = {"standard": 8192, "complete": 32768}
DROPPED: Final = "context_dropped"  # lists every omitted entry
LISTS: Final = {"rejections": 20, "untested": 20, "risk_flags": 5, "parallel_pairs": 1}


def settings() -> dict[str, Any]:
    config = Library((Root(package_library(), "", "library"),)).config("planning")
    assert config is not None
    return config.data


CONFIG: Final = settings()
BREAKERS: Final[dict[str, Any]] = CONFIG["breakers"]


@pytest.fixture
def noisy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    mode, seed = request.param
    project = tmp_path_factory.mktemp("noise")
    (project / "answers.yaml").write_text(
        f"{GATE}: [{', '.join(f'Answer {n}.' for n in range(9))}]\nexpert-review/cycle/choice: [redesign, override]\n"
        "reason: So.\n"
    )
    with pytest.MonkeyPatch.context() as patch, share_estimate({"": None}, ""):
        patch.chdir(project)
        set_window(patch, WINDOW[mode])
        arguments = ("--mode", mode, "--model", f"scripted:noise-{seed}", "--name", "run")
        done = skillrun("plan", REQUEST, *arguments, "--unattended", "--answers", "answers.yaml")
    return Plan(project / "runs" / "run", project, done)


def count_returns(run: Plan) -> Counter[str]:
    """How often each phase returned to an earlier one."""
    return Counter(event["source"] for event in run.events if event["event"] == "WentBack")


CASES = [(mode, seed) for mode in ("standard", "complete") for seed in SEEDS]


@pytest.mark.slow  # noise sends a plan back as often as its breakers allow
@pytest.mark.row("P13", "P14")
@pytest.mark.parametrize("noisy", CASES, indirect=True, ids=lambda case: f"{case[0]}-{case[1]}")
def test_a_plan_on_random_replies_completes(noisy: Plan) -> None:
    assert (noisy.done.code, noisy.overview["status"]) == (0, "completed"), noisy.overview["reason"]
    check_limits(noisy)
    check_breakers(noisy)
    check_sizes(noisy)


def check_limits(run: Plan) -> None:
    returns = count_returns(run)
    assert returns["validation"] <= BREAKERS["validation"]["limit"]
    assert returns["coverage"] <= BREAKERS["coverage"]["limit"]
    assert returns["expert-review"] <= BREAKERS["redesign"]["limit"]
    assert run.overview["round"] == 1 + returns.total()
    assert run.overview["state"]["review_rounds"] <= CONFIG["expert_review"]["rounds"]
    scored = run.addresses("plan/clarify/gate#*/score/*")
    assert len(scored) <= BREAKERS["specify_gate"]["limit"] + 1
    assert not run.addresses(f"plan/validation/judged/debate#{CONFIG['consensus']['debate_rounds'] + 1}/*")


def check_breakers(run: Plan) -> None:
    """Remaining faults were sent back as often as allowed and are reported."""
    for phase in ("validation", "coverage"):
        record = run.summary(phase)
        if record["outputs"]["level"] == "RED":
            assert count_returns(run)[phase] == BREAKERS[phase]["limit"]
            assert "still RED" in str(record["quality_warnings"])
            (trip,) = {one["action"] for one in run.events if one["event"] == "Tripped" and one["breaker"] == phase}
            assert trip == BREAKERS[phase]["then"]
    gate = run.summary("clarify")
    score = gate["outputs"]["specify_score"]
    if score < gate["outputs"]["threshold"]:
        assert f"Went on at {score}/10" in str(gate["quality_warnings"])
    assert bool(gate["flags"].get("low_specify_score")) == (score < CONFIG["specify_gate"]["low_score"])
    review = run.summary("expert-review")
    assert review["outputs"]["outcome"] in ("pass", "pass-with-risk")
    if any(one["severity"] == "CRITICAL" for one in review["risks_identified"]):
        assert review["flags"]["review_override"]


def check_sizes(run: Plan) -> None:
    assert max(estimate_tokens(prompt) for prompt in run.prompts()) < WINDOW[run.overview["state"]["mode"]]
    for name, maximum in LISTS.items():
        assert len(run.overview["state"][name]) <= maximum
    for path in run.folder.rglob("summaries/*.md"):
        record = from_frontmatter(path)[0]
        assert all(len(value) <= 40 for key, value in record.items() if isinstance(value, list) and key != DROPPED), (
            path
        )
