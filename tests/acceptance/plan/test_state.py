"""What `state.md` stores of a plan, and how states of other versions are handled."""

from __future__ import annotations

import pytest

from skillrun.store.frontmatter import from_frontmatter, to_frontmatter
from tests.acceptance.plan.conftest import CLEAR, Plan, Plans
from tests.acceptance.plan.test_features import PAUSED

PARALLEL = {"features": {"parallel_dispatch": {"enabled": True, "modes": []}}}
NEWER_FIELDS = ("untested", "review_rounds", "parallel_pairs", "rejections")
"""Variables that an older version of the workflow did not have."""


def stored_state(run: Plan) -> dict[str, object]:
    """The workflow's variables in `state.md`."""
    return dict(from_frontmatter(run.folder / "state.md")[0]["state"])


@pytest.mark.slow
@pytest.mark.row("P17")
def test_the_state_stores_mode_preset_score_review_risks_and_parallel_pairs(plan: Plans) -> None:
    run = plan("standard", request="Add a login with a second factor", config=PARALLEL)
    state = stored_state(run)
    assert (state["mode"], state["preset"]) == ("standard", "balanced")
    assert state["specify_score"] == 8
    assert state["specify_dimensions"] == CLEAR
    assert state["review_outcome"] == "pass"
    assert state["risk_flags"] == ["security-critical"]
    assert state["parallel_pairs"] == ["coverage + assets"]


@pytest.mark.row("P17")
def test_values_that_were_never_set_have_a_default_or_are_absent(plan: Plans) -> None:
    state = stored_state(plan("rapid"))
    assert (state["risk_flags"], state["parallel_pairs"]) == ([], [])
    assert not state.keys() & {"specify_score", "specify_dimensions", "review_outcome"}


@pytest.mark.slow
@pytest.mark.row("P17")
@pytest.mark.finding("FP11")
def test_a_run_without_newer_fields_gets_their_defaults_and_restores_set_values(plan: Plans) -> None:
    run = plan("standard", PAUSED, request="Let people log in", isolated=True)
    data, body = from_frontmatter(run.folder / "state.md")
    assert [data["state"].pop(name) for name in NEWER_FIELDS] == [[], 0, [], []]
    assert data["state"].pop("preset") == "balanced"
    assert data["state"].pop("risk_flags") == ["security-critical"]
    for name in ("features", "budget", "estimate", "files", "environment"):
        data.pop(name, None)
    (run.folder / "state.md").write_text(to_frontmatter(data, body), encoding="utf-8")
    resumed = run.resume(())
    assert "or from an older version of skillrun" in resumed.done.out
    assert resumed.done.code == 0
    assert stored_state(resumed)["review_rounds"] == 1
    assert stored_state(resumed)["parallel_pairs"] == []
    assert stored_state(resumed)["preset"] == "balanced"
    assert stored_state(resumed)["risk_flags"] == ["security-critical"]


@pytest.mark.slow
@pytest.mark.row("P17")
def test_a_state_of_a_newer_version_is_rejected_and_unchanged(plan: Plans) -> None:
    run = plan("standard", PAUSED, isolated=True)
    text = run.artifact("state.md").replace("schema_version: 2", "schema_version: 99")
    (run.folder / "state.md").write_text(text, encoding="utf-8")
    refused = run.resume(())
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
            "`round` is `one`\n  round: one\n         ^\n    hint: it is a whole number from 1 to 10,000\n",
        ),
        ("---\nschema_version: 2", "", "has no frontmatter with a `schema_version`"),
        ("round: 1", "round: [", "fix or restore the file; nothing was changed"),
    ],
)
def test_a_damaged_state_is_rejected_and_unchanged(plan: Plans, old: str, new: str, message: str) -> None:
    run = plan("standard", PAUSED, isolated=True)
    text = run.artifact("state.md").replace(old, new, 1)
    (run.folder / "state.md").write_text(text, encoding="utf-8")
    refused = run.resume(())
    assert refused.done.code == 1
    assert message in refused.done.err
    assert run.artifact("state.md") == text
    (run.folder / "state.md").unlink()
    missing = run.resume(())
    assert (missing.done.code, "has no state.md" in missing.done.err) == (2, True)


@pytest.mark.slow
@pytest.mark.row("P17")
def test_a_state_of_version_1_is_migrated_and_backed_up(plan: Plans) -> None:
    run = plan("standard", PAUSED, isolated=True)
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
    resumed = run.resume((), "--yes")
    assert resumed.done.code == 0
    assert resumed.artifact("state.v1.md") == text
    assert resumed.overview["state"]["mode"] == "standard"
    assert resumed.overview["state"]["preset"] == "balanced"
    assert resumed.overview["state"]["specify_score"] == 7
    assert resumed.overview["state"]["parallel_pairs"] == []
    assert (resumed.folder / "tasks.md").exists()
