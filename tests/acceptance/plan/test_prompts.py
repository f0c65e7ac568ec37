"""The parts of a plan's prompts, how much of them can be cached, and whether they fit a small window."""

from __future__ import annotations

import re
from os.path import commonprefix

import pytest

from tests.acceptance.plan.conftest import REQUEST, Plan, Plans

SECTIONS = ("# Original request", "# Accumulated context", "# Acceptance criteria", "# Current task", "# Your role")
LONG = "\n\n".join(
    f"## Part {part}\n\n" + "The settings page keeps what you had set before. " * 22 for part in range(5)
)
"""About the maximum length of a document: 900 words."""
SPEC = "## Acceptance criteria\n\nAC-1: The page is dark.\n\n" + LONG
STEPS = (
    "research/findings/first", "architecture/proposals/first", "architecture/draft",
    "test-strategy/proposals/first", "test-strategy/draft", "assets/assets", "completion/tasks",
)  # fmt: skip
WRITTEN = (
    {"address": "plan/clarify/spec/*", "text": SPEC},
    *({"address": f"plan/{step}/*", "text": LONG} for step in STEPS),
)
SMALL = ("--model", "embedded")  # sets the window; the script still replies


def cacheable_share(prompts: list[str]) -> float:
    """The share of the text that repeats the beginning of an earlier prompt."""
    same = sum(
        max((len(commonprefix([prompt, other])) for other in prompts[:place]), default=0)  # noqa: RUF071 (texts)
        for place, prompt in enumerate(prompts)
    )
    return same / sum(map(len, prompts))


@pytest.mark.row("P9")
@pytest.mark.parametrize("mode", ["rapid", "standard", "complete"])
def test_every_prompt_has_its_sections_in_the_same_order(plan: Plans, mode: str) -> None:
    run = plan(mode)
    for address, prompt in run.calls:
        expected = [one for one in SECTIONS if one != "# Your role" or "/summary/" not in address]
        places = [prompt.index(f"{one}") for one in expected]
        assert places == sorted(places), address
        assert all(prompt.count(f"\n{one}") == 1 for one in expected), address
        assert REQUEST in prompt[places[0] : places[1]], address


def test_panel_members_get_the_same_prompt_except_for_their_role(plan: Plans) -> None:
    panels = (
        "architecture/proposals/first",
        "validation/judged/scores",
        "expert-review/*/review",
        "test-strategy/proposals/first",
    )
    for step in panels:
        prompts = plan("standard").prompts(f"plan/{step}/*")
        assert len(prompts) > 1
        assert len({prompt.partition("# Your role")[0] for prompt in prompts}) == 1


def test_consecutive_phases_share_the_beginning_of_their_prompts(plan: Plans) -> None:
    """Prompts begin with the documents of earlier phases, in the order in which they were written."""
    run = plan("standard")

    def opening(phase: str) -> str:
        return run.prompts(f"plan/{phase}/*")[0].partition("# Accumulated context")[0]

    def documents(phase: str) -> list[str]:
        return [line for line in opening(phase).splitlines() if line.startswith("# The ")]

    assert documents("research") == []
    assert documents("clarify") == ["# The research"]
    assert documents("architecture") == ["# The research", "# The specification"]
    assert documents("validation") == documents("expert-review") == ["# The specification", "# The design"]
    assert documents("completion") == [*documents("validation"), "# The test plan"]
    assert opening("assets") == opening("completion")
    assert opening("assets").startswith(opening("validation").rstrip())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["standard", "advanced", "complete"])
def test_most_of_the_prompt_text_repeats_an_earlier_prompt(plan: Plans, mode: str) -> None:
    run: Plan = plan(mode, rules=WRITTEN)
    assert run.done.code == 0, run.done.err
    assert cacheable_share([prompt for _, prompt in run.calls]) > 0.69


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["rapid", "standard"])
def test_long_replies_fit_the_small_model(plan: Plans, mode: str) -> None:
    run = plan(mode, rules=WRITTEN, flags=SMALL)
    assert run.done.code == 0, run.done.err
    phases = [one["phase"] for one in run.overview["phases"]]
    warnings = [one for phase in phases for one in run.summary(phase).get("quality_warnings", [])]
    assert not [one for one in warnings if "left out" in one]


@pytest.mark.slow
def test_a_small_window_shortens_material_and_the_summary_reports_it(plan: Plans) -> None:
    models = 'models: {"embedded:smollm2-135m": {window: 4380}}\n'
    run = plan("standard", rules=WRITTEN, files={"config/models.yaml": models}, flags=SMALL)
    assert run.done.code == 0, run.done.err
    left_out = run.summary("completion")["left_out"]
    assert any(
        re.match(r"tasks: The specification: about [\d,]+ of [\d,]+ tokens, under ", line) for line in left_out
    ), left_out
    prompt = run.prompt("plan/completion/tasks/*")
    assert re.search(r"# The specification\n\nAbout \d+ of its \d+ tokens are left out here", prompt)
    assert any(
        re.match(r"read: The specification: about [\d,]+ of [\d,]+ tokens, under Part 0;", line) for line in left_out
    )
    assert "# The test plan" in prompt
