"""The shipped `plan` through the command line, on the scripted model."""

import re
from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., Any]
REQUEST = "Add dark mode to the settings page"
ARTIFACTS = {
    "request.md",
    "research.md",
    "spec.md",
    "design.md",
    "plan.md",
    "test-plan.md",
    "coverage.md",
    "tasks.md",
    "summary.md",
}


@pytest.mark.slow
@pytest.mark.row("P19")
def test_a_dry_run_shows_calls_tokens_and_price_of_each_phase(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "an unused key")
    suggested, priced, chosen, *lines = skillrun("plan", REQUEST, "--mode", "rapid", "--dry-run").out.splitlines()
    assert suggested.startswith("Suggested: standard mode")
    assert re.match(r"In rapid mode, .* about \d+ calls, \d+ tokens, price ", priced)
    assert chosen.startswith("Going on in rapid mode")
    assert lines[0].startswith("models: strong = anthropic:claude-opus-")
    assert lines[1] == "anthropic: https://api.anthropic.com (shipped)"
    assert lines[2].split() == ["phase", "calls", "tokens", "in", "tokens", "out", "price"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[3:15]}
    assert rows["setup"] == ["0", "0", "0"]
    assert int(rows["research"][0]) >= 1
    assert float(rows["total"][-1].removeprefix("$")) > 0
    assert "guess" in lines[-1]
    assert not (folder / "runs").exists()


@pytest.mark.row("P19")
def test_an_unknown_price_is_reported_as_unknown(project: Call, skillrun: Call) -> None:
    project()
    done = skillrun("plan", REQUEST, "--mode", "rapid", "--dry-run", "--model", "openai:nobody-knows-this")
    assert "price unknown" in done.out


@pytest.mark.slow
@pytest.mark.row("P1", "P19")
def test_a_rapid_plan_writes_every_artifact_and_suggests_a_mode_before_the_first_call(
    project: Call, skillrun: Call
) -> None:
    folder = project()
    done = skillrun("plan", REQUEST, "--mode", "rapid", "--unattended", "--model", "scripted:default")
    assert done.code == 0
    lines = done.out.splitlines()
    setup_lines = lines[: lines.index("research: started")]
    assert any(line.startswith("setup: Suggested: standard mode") for line in setup_lines)
    assert any(re.search(r"In rapid mode, .* about [78] calls, \d+ tokens, price 0.00", line) for line in setup_lines)
    run = folder / "runs" / "add-dark-mode-to-the-settings-page"
    assert {path.name for path in run.glob("*.md")} - {"state.md"} == ARTIFACTS
    record = skillrun("show", run.name, "--json").json
    assert [phase["status"] for phase in record["phases"]].count("skipped") == 4
    assert len(record["phases"]) == 11
    assert record["unanswered"] == record["changed_by_hand"] == []


@pytest.mark.slow
@pytest.mark.row("P15")
def test_show_says_which_features_are_off_and_why(project: Call, skillrun: Call) -> None:
    project()
    skillrun("plan", REQUEST, "--mode", "rapid", "--unattended", "--model", "scripted:default", "--name", "dark")
    out = skillrun("show", "dark").out
    assert "  specify_gate: off, not in rapid mode" in out
    assert "  parallel_dispatch: off, not enabled" in out
    assert "  architecture: strategy = quick" in out
