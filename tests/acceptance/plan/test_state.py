"""What `state.md` keeps of a plan, and a plan that an older version has left."""

from __future__ import annotations

import pytest

from skillrun.store.frontmatter import from_frontmatter, to_frontmatter
from tests.acceptance.plan.conftest import CLEAR, Plan, Plans
from tests.acceptance.plan.test_features import PAUSED

SIDE_BY_SIDE = {"features": {"parallel_dispatch": {"enabled": True, "modes": []}}}
LATER = ("untested", "review_rounds", "parallel_pairs", "rejections")
"""Variables that an older version of the workflow did not have."""


def kept(run: Plan) -> dict[str, object]:
    """The workflow's variables as they stand in the file."""
    return dict(from_frontmatter(run.folder / "state.md")[0]["state"])


@pytest.mark.slow
@pytest.mark.row("P17")
def test_the_state_keeps_mode_preset_score_review_risks_and_the_pairs_that_ran_side_by_side(plan: Plans) -> None:
    run = plan("standard", request="Add a login with a second factor", config=SIDE_BY_SIDE)
    found = kept(run)
    assert (found["mode"], found["preset"]) == ("standard", "balanced")
    assert found["specify_score"] == 8
    assert found["specify_dimensions"] == CLEAR
    assert found["review_outcome"] == "pass"
    assert found["risk_flags"] == ["security-critical"]
    assert found["parallel_pairs"] == ["coverage + assets"]


@pytest.mark.row("P17")
def test_what_did_not_happen_has_a_default_or_is_not_there(plan: Plans) -> None:
    found = kept(plan("rapid"))
    assert (found["risk_flags"], found["parallel_pairs"]) == ([], [])
    assert not found.keys() & {"specify_score", "specify_dimensions", "review_outcome"}


@pytest.mark.slow
@pytest.mark.row("P17")
@pytest.mark.finding("FP11")
def test_a_run_that_lacks_newer_fields_gets_their_defaults_and_what_was_set_comes_back(plan: Plans) -> None:
    run = plan("standard", PAUSED, request="Let people log in", alone=True)
    data, body = from_frontmatter(run.folder / "state.md")
    assert [data["state"].pop(name) for name in LATER] == [[], 0, [], []]
    assert data["state"].pop("preset") == "balanced"
    assert data["state"].pop("risk_flags") == ["security-critical"]
    for name in ("features", "budget", "estimate", "files", "environment"):
        data.pop(name, None)
    (run.folder / "state.md").write_text(to_frontmatter(data, body), encoding="utf-8")
    resumed = run.resumed(())
    assert "or from an older version of skillrun" in resumed.done.out
    assert resumed.done.code == 0
    assert kept(resumed)["review_rounds"] == 1
    assert kept(resumed)["parallel_pairs"] == []
    assert kept(resumed)["preset"] == "balanced"
    assert kept(resumed)["risk_flags"] == ["security-critical"]


@pytest.mark.slow
@pytest.mark.row("P17")
def test_a_state_of_a_newer_version_is_refused_and_left_alone(plan: Plans) -> None:
    run = plan("standard", PAUSED, alone=True)
    text = run.artifact("state.md").replace("schema_version: 2", "schema_version: 99")
    (run.folder / "state.md").write_text(text, encoding="utf-8")
    refused = run.resumed(())
    assert refused.done.code == 1
    assert "schema version 99" in refused.done.err
    assert run.artifact("state.md") == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "round: 1",
            "round: one",
            "`round` is `one`\n  round: one\n         ^\nhint: it is a whole number from 1 to 10,000\n",
        ),
        ("---\nschema_version: 2", "", "has no frontmatter with a `schema_version`"),
        ("round: 1", "round: [", "fix or restore the file; nothing was changed"),
    ],
)
def test_a_state_that_was_spoilt_by_hand_is_refused_and_left_alone(
    plan: Plans, old: str, new: str, message: str
) -> None:
    run = plan("standard", PAUSED, alone=True)
    text = run.artifact("state.md").replace(old, new, 1)
    (run.folder / "state.md").write_text(text, encoding="utf-8")
    refused = run.resumed(())
    assert refused.done.code == 1
    assert message in refused.done.err
    assert run.artifact("state.md") == text
    (run.folder / "state.md").unlink()
    missing = run.resumed(())
    assert (missing.done.code, "has no state.md" in missing.done.err) == (2, True)


@pytest.mark.slow
@pytest.mark.row("P17")
def test_a_state_of_the_first_version_is_brought_forward_and_kept_beside(plan: Plans) -> None:
    run = plan("standard", PAUSED, alone=True)
    data, _ = from_frontmatter(run.folder / "state.md")
    first = {
        "schema_version": 1,
        "workflow": "plan",
        "current_phase": "validation",
        "started_at": data["started_at"],
        "inputs": {"request": data["inputs"]["request"]},
        "mode": "standard",
        "specify_score": 7,
    }
    text = to_frontmatter(first, "# Log\n")
    (run.folder / "state.md").write_text(text, encoding="utf-8")
    resumed = run.resumed((), "--yes")
    assert resumed.done.code == 0
    assert resumed.artifact("state.v1.md") == text
    assert resumed.story["state"]["mode"] == "standard"
    assert resumed.story["state"]["preset"] == "balanced"
    assert resumed.story["state"]["specify_score"] == 7
    assert resumed.story["state"]["parallel_pairs"] == []
    assert (resumed.folder / "tasks.md").exists()
