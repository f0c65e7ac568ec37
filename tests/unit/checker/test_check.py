"""Files that a project adds or overrides are checked with the shipped library and become part of its programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillrun.checker.checker import check_library, check_workflow
from skillrun.checker.program import Program
from skillrun.library.library import Library
from skillrun.library.roots import Root
from skillrun.syntax.diagnostics import render_problem
from tests.property import mutants
from tests.shipped import SHIPPED, checked_library

CheckPlan = Callable[..., tuple[Program | None, list[str]]]


def write(folder: Path, files: dict[str, str]) -> None:
    for relative, text in files.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def check_plan(tmp_path: Path) -> CheckPlan:
    """Return a function that checks the plan workflow with project files, and returns its program and problems."""

    def check(**files: str) -> tuple[Program | None, list[str]]:
        write(tmp_path, {path.replace("__", "/"): text for path, text in files.items()})
        library = Library((Root(tmp_path, "", "project"), SHIPPED), checked_library())
        program = check_workflow(library, "plan")
        return program, [f"{item.severity} {item.path}:{item.line} {item.message}" for item in library.problems]

    return check


def read_shipped(path: str) -> str:
    return (SHIPPED.path / path).read_text(encoding="utf-8")


@pytest.mark.row("X2")
def test_the_shipped_library_has_no_problems() -> None:
    assert [render_problem(problem) for problem in checked_library().problems] == []


@pytest.mark.parametrize("protocol", ["quick", "perspectives", "red-team"])
def test_a_shipped_protocol_names_the_config_that_is_missing(tmp_path: Path, protocol: str) -> None:
    workflow = "---\nname: own\n{}phases:\n  talk:\n---\n"
    step = f"{{id: go, panel: [judge, judge:risk], protocol: {protocol}}}"
    panel = f"---\nkind: phase\nsteps:\n  - {step}\n---\n## go\nSay.\n"
    hints = {}
    for config in ("", "config: planning\n"):
        write(tmp_path, {"workflows/own.md": workflow.format(config), "skills/own/talk.md": panel})
        library = Library((Root(tmp_path, "", "project"), SHIPPED), checked_library())
        check_workflow(library, "own")
        hints[config] = [problem.hint for problem in library.problems]
    assert hints[""]
    assert all("config" in hint for hint in hints[""])
    assert hints["config: planning\n"] == []


@pytest.mark.row("P8")
def test_a_preset_is_added_by_config_alone(check_plan: CheckPlan) -> None:
    phases = ("research", "architecture", "test_strategy", "validation", "coverage")
    team = "".join(f"    {phase}: [researcher:code]\n" for phase in phases)
    preset = f"team_presets:\n  alone:\n{team}    expert_review: []\n"
    program, problems = check_plan(**{"config/planning.yaml": preset})
    assert problems == []
    assert program is not None
    assert list(program.config["team_presets"]) == ["balanced", "rapid_prototype", "alone"]


@pytest.mark.slow
@pytest.mark.row("P8")
def test_a_preset_with_an_unknown_role_or_variant_is_reported_at_its_line(check_plan: CheckPlan) -> None:
    _, problems = check_plan(
        **{"config/planning.yaml": "team_presets:\n  balanced:\n    validation: [judge:risk,\n      jugde]\n"}
    )
    assert problems == ["error config/planning.yaml:4 there is no role `jugde`"]
    _, problems = check_plan(**{"config/planning.yaml": "team_presets:\n  balanced: {validation: ['judge:rsik']}\n"})
    assert problems == ["error config/planning.yaml:2 the role `judge` has no variant `rsik`"]


@pytest.mark.row("P8")
def test_a_preset_can_omit_phases(check_plan: CheckPlan) -> None:
    _, problems = check_plan(**{"config/planning.yaml": "team_presets:\n  alone: {research: [researcher:code]}\n"})
    assert problems == []


def test_a_risk_category_and_a_threshold_are_changed_by_config_alone(check_plan: CheckPlan) -> None:
    program, problems = check_plan(
        **{"config/planning.yaml": "risk_categories: {legal: ['\\bgdpr\\b']}\nspecify_gate: {threshold: 9}\n"}
    )
    assert problems == []
    assert program is not None
    assert (program.config["specify_gate"]["threshold"], program.config["risk_categories"]["legal"]) == (
        9,
        ["\\bgdpr\\b"],
    )


def test_a_phase_is_added_by_files_alone(check_plan: CheckPlan) -> None:
    workflow = read_shipped("workflows/plan.md").replace(
        "  completion:    {after: [coverage, assets]}\n", ("  completion:    {after: [coverage, assets]}\n  letter:\n")
    )
    letter = (
        "---\nkind: phase\nsteps:\n  - {id: letter, agent: coordinator, writes: letter.md}\n---\n"
        "## letter\nWrite a letter about {{ phases.completion.artifacts['tasks.md'] | clip(200) }}.\n"
    )
    program, problems = check_plan(**{"workflows/plan.md": workflow, "skills/plan/letter.md": letter})
    assert problems == []
    assert program is not None
    documents = {"research", "clarify", "architecture", "validation", "expert-review", "test-strategy", "coverage"}
    assert program.reads["letter"] == {"completion", *documents}
    assert list(program.phases)[-1] == "letter"


@pytest.mark.slow
def test_a_protocol_is_added_by_files_alone(check_plan: CheckPlan) -> None:
    protocol = read_shipped("skills/protocols/consensus.md").replace("Judges score once", "Judges score quietly")
    config = "modes:\n  advanced:\n    judges: quiet\n"
    _, problems = check_plan(**{"config/planning.yaml": config})
    assert problems == ["error config/planning.yaml:3 there is no protocol `quiet`"]
    _, problems = check_plan(**{"skills/protocols/quiet.md": protocol})
    assert problems == []


@pytest.mark.slow
def test_a_mode_is_added_by_files_alone(check_plan: CheckPlan) -> None:
    config = "modes:\n  extreme: {think_deep: true, judges: debate}\n"
    _, problems = check_plan(**{"config/planning.yaml": config})
    assert problems == []
    _, problems = check_plan(**{"config/planning.yaml": config.replace("debate", "debtae")})
    assert problems == ["error config/planning.yaml:2 there is no protocol `debtae`"]


def test_mode_columns_of_older_projects_define_a_mode(check_plan: CheckPlan) -> None:
    config = "strategy_per_phase:\n"
    config += "".join(f"  {phase}: {{extreme: red-team}}\n" for phase in ("research", "architecture", "test_strategy"))
    program, problems = check_plan(**{"config/planning.yaml": config})
    assert {problem.partition(" ")[0] for problem in problems} == {"warning"}
    assert program is not None
    assert set(program.config_in("extreme")["strategy_per_phase"].values()) == {"red-team"}
    assert set(program.config_in("standard")["strategy_per_phase"].values()) == {"quick"}


@pytest.mark.slow
def test_a_question_bank_named_in_the_config_must_exist_with_every_group(check_plan: CheckPlan) -> None:
    config = {"config/planning.yaml": "specify_gate:\n  bank: mine/questions\n"}
    _, problems = check_plan(**config)
    assert problems == ["error config/planning.yaml:2 there is no question bank `mine/questions`"]
    bank = read_shipped("skills/specify/questions.md").replace("## risk", "## dangers")
    _, problems = check_plan(**{"skills/mine/questions.md": bank})
    assert [problem.partition(" ")[2].partition(" ")[2] for problem in problems] == ["there is no group `risk`"]
    _, problems = check_plan(**{"skills/mine/questions.md": read_shipped("skills/specify/questions.md")})
    assert problems == []


def test_a_feature_can_only_list_modes_of_the_config(check_plan: CheckPlan) -> None:
    _, problems = check_plan(**{"config/planning.yaml": "features: {deliberation: {modes: [complete, ripad]}}\n"})
    assert problems == ["error config/planning.yaml:1 there is no mode `ripad`"]


def test_a_strategy_missing_from_the_configured_order_is_reported(check_plan: CheckPlan) -> None:
    _, problems = check_plan(**{"config/planning.yaml": "strategies: [quick, red-team]\n"})
    assert "perspectives` is not one of the values in `order`" in {problem.partition(" `")[2] for problem in problems}


def test_a_program_knows_which_phases_each_phase_reads() -> None:
    program = check_workflow(Library((SHIPPED,), checked_library()), "plan")
    assert program is not None
    assert program.reads["setup"] == frozenset()
    assert program.reads["clarify"] == {"research"}
    assert program.reads["assets"] == {
        "research",
        "clarify",
        "architecture",
        "validation",
        "expert-review",
        "test-strategy",
    }
    assert "think-deep" in program.reads["validation"]


@pytest.mark.row("S10")
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, ["warning roles/talker.md tokens"]),
        ({"warn": 4000, "error": 5000}, ["error roles/talker.md tokens"]),
        ({"warn": 50000, "error": 70000}, []),
    ],
)
def test_the_config_limits_the_size_of_a_prompt_file(
    tmp_path: Path, limits: dict[str, int], expected: list[str]
) -> None:
    role = "---\nname: talker\ndescription: Talks.\n---\n" + "Some words about nothing in particular. " * 700
    write(tmp_path, {"roles/talker.md": role})
    if limits:
        write(tmp_path, {"config/skillrun.yaml": json.dumps({"token_lint": {"roles": limits}})})
    library = Library((Root(tmp_path, "", "project"), SHIPPED), checked_library())
    check_library(library)
    assert [f"{problem.severity} {problem.path} {problem.code}" for problem in library.problems] == expected


def test_inline_workflows_are_part_of_the_program(tmp_path: Path) -> None:
    outer = "---\nname: outer\nphases:\n  go:\n---\n"
    inner = "---\nname: inner\ninputs: {place: string}\noutputs: {place: '{{ inputs.place }}'}\nphases:\n  go:\n---\n"
    steps = "steps:\n  - {id: trip, run: inner, with: {place: here}}\n  - say: '{{ trip.place or 1 }}'\n"
    run = f"---\nkind: phase\n{steps}---\n"
    say = "---\nkind: phase\nsteps:\n  - say: '{{ inputs.place }}'\n---\n"
    write(tmp_path, {"workflows/outer.md": outer, "workflows/inner.md": inner})
    write(tmp_path, {"skills/outer/go.md": run, "skills/inner/go.md": say})
    roots = (Root(tmp_path, "", "project"), SHIPPED)
    program = check_workflow(library := Library(roots, checked_library()), "outer")
    assert list(library.problems) == []
    assert program is not None
    assert list(program.inline) == ["inner"]
    write(tmp_path, {"skills/inner/go.md": say.replace("inputs.place", "inputs.palce")})
    check_workflow(library := Library(roots, checked_library()), "outer")
    assert [(problem.path, problem.code) for problem in library.problems] == [("skills/inner/go.md", "unknown-field")]


PATHS = mutants.shipped_files()
SIGNS = ("", "{{", "}}", "{%", "%}", "{#", ": ", "- ", "  ", "[", "]", "{", "}", "'", '"', "|", ">", "#", "---", "## ")
VALUES = (
    "&a",
    "*a",
    "!t",
    "null",
    "[]",
    "{}",
    "3",
    "-1",
    "true",
    "x",
    "\t",
    "\x00",
    "é😀",
    "{{ x }}",
    "{{ inputs }}",
    "task",
)
HOW = st.sampled_from(["delete", "repeat", "insert", "replace", "value", "cut"])
EDIT = st.tuples(HOW, st.integers(0, 400), st.integers(0, 90), st.sampled_from([*SIGNS, *VALUES]))


def apply_edits(text: str, edits: list[tuple[str, int, int, str]]) -> str:
    lines = text.split("\n")
    for how, number, column, piece in edits:
        index = number % len(lines)
        line = lines[index]
        offset = column % (len(line) + 1)
        match how:
            case "delete":
                lines[index : index + 1] = [piece]
            case "repeat":
                lines.insert((number * 7) % len(lines), line)
            case "insert":
                lines[index] = line[:offset] + piece + line[offset:]
            case "replace":
                lines[index] = line[:offset] + piece
            case "value" if ": " in line:
                lines[index] = f"{line.partition(': ')[0]}: {piece}"
            case "cut":
                lines[index] = line[:offset] + line[offset + 1 :]
    return "\n".join(lines)


@pytest.mark.slow  # each example checks every workflow that reads one of the files
@settings(max_examples=settings().max_examples // 3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(PATHS), st.lists(EDIT, min_size=1, max_size=4), min_size=1, max_size=3))
def test_no_edit_of_a_shipped_file_crashes_the_checker(
    tmp_path: Path, edits: dict[str, list[tuple[str, int, int, str]]]
) -> None:
    write(tmp_path, {path: apply_edits(read_shipped(path), path_edits) for path, path_edits in edits.items()})
    library = Library((Root(tmp_path, "", "project"), SHIPPED), checked_library())
    try:
        check_library(library)
    finally:
        for path in edits:
            (tmp_path / path).unlink()
    for problem in library.problems:
        assert render_problem(problem)
        assert problem.line >= 1


def with_material(title: str, value: str) -> str:
    workflow = read_shipped("workflows/plan.md")
    assert workflow.count("\nmaterial:") == 1
    return workflow.replace("\nmaterial:", f'\nmaterial:\n  {title}: "{value}" #')


@pytest.mark.slow
def test_material_must_read_existing_phases_and_not_be_a_condition(check_plan: CheckPlan) -> None:
    def problems(value: str) -> list[str]:
        return check_plan(**{"workflows/plan.md": with_material("Mine", value)})[1]

    assert problems("{{ phases.assets.artifacts['assets.md'] | clip(100) }}") == []
    (wrong,) = problems("{{ inputs.mode == 'rapid' }}")
    assert wrong.endswith("`Mine` is a boolean, which cannot be used as `material`")
    (unknown,) = problems("{{ phases.asets.artifacts['assets.md'] }}")
    assert "asets" in unknown


def test_a_phase_only_reads_material_of_earlier_phases(check_plan: CheckPlan) -> None:
    workflow = with_material("The cover", "{{ phases.coverage.artifacts['coverage.md'] }}")
    program, problems = check_plan(**{"workflows/plan.md": workflow})
    assert problems == []
    assert program is not None
    assert "coverage" in program.reads["completion"]
    assert "coverage" not in program.reads["assets"] | program.reads["setup"]
