"""The questions of a run are found before it starts."""

from pathlib import Path
from textwrap import dedent

import pytest

from skillrun.checker.checker import check_workflow
from skillrun.checker.program import Program
from skillrun.library.library import Library
from skillrun.library.roots import Root, search_path
from skillrun.questions.prepared_answers import (
    PreparedAnswers,
    check_answers,
    iterate_asks,
    read_answers,
    unanswerable_questions,
)
from skillrun.syntax.diagnostics import render_problem

WORKFLOW = """
---
name: demo
inputs: {topic: string}
phases:
  one:
---
"""


def program(folder: Path, steps: str, files: dict[str, str] | None = None, workflow: str = WORKFLOW) -> Program:
    """Return a workflow whose phase `one` has these steps."""
    phase = f"---\nkind: phase\nsteps:\n{dedent(steps).strip()}\n---\n"
    for name, text in {"workflows/demo.md": workflow, "skills/demo/one.md": phase, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip(), "utf-8")
    library = Library([Root(folder, "", "project")])
    found = check_workflow(library, "demo")
    assert found is not None, "\n".join(map(render_problem, library.problems))
    return found


def answers(folder: Path, text: str) -> PreparedAnswers:
    path = folder / "answers.yaml"
    path.write_text(text)
    return read_answers(path)


@pytest.mark.row("B2", "X6")
def test_an_unattended_run_is_refused_if_a_step_asks_the_user(tmp_path: Path) -> None:
    found = program(tmp_path, "- {id: which, ask: Which one?}")
    (line,) = unanswerable_questions(found, PreparedAnswers())
    assert line == (
        "skills/demo/one.md:4: `one/which` asks the user: answer `one/which` in --answers FILE, "
        "add a `default:` to the step, or run without --unattended"
    )


@pytest.mark.row("B2", "X6")
@pytest.mark.parametrize(
    "step",
    [
        "- {id: which, ask: Which one?, default: this}",
        "- {id: which, ask: Which one?, default: ''}",
        "- {id: which, ask: Which one?, default: '{{ inputs.topic }}'}",
        "- {id: which, ask: [{id: a, text: A?, default: x}, {id: b, text: B?, default: ''}]}",
        "- {say: hello}",
    ],
)
def test_a_question_with_a_default_needs_no_user(tmp_path: Path, step: str) -> None:
    assert unanswerable_questions(program(tmp_path, step), PreparedAnswers()) == []


@pytest.mark.row("B2")
@pytest.mark.parametrize(
    "step",
    [
        "- {id: which, ask: Which one?, default: null}",
        "- {id: which, ask: [{id: a, text: A?, default: x}, {id: b, text: B?}]}",
        "- {id: which, ask: '{{ config.questions }}'}",
        "- {id: which, ask: Fill this in., pause: exit, form: form.md}",
        "- {id: which, ask: Bring reports., pause: exit, files: 'reports/*.md'}",
        "- {id: which, ask: Which one?, when: inputs.topic}",
    ],
)
def test_other_questions_need_a_user(tmp_path: Path, step: str) -> None:
    workflow = WORKFLOW.replace("phases:", "config: demo\nphases:")
    config = {"config/demo.yaml": "questions:\n  - {id: a, text: A?}\n"}
    (line,) = unanswerable_questions(program(tmp_path, step, config, workflow), PreparedAnswers())
    assert line.startswith("skills/demo/one.md:4: `one/which`")


DEEP = """
---
name: demo
inputs:
  topic: string
  deep: {type: boolean, default: false}
  kind?: string
state:
  found: {type: boolean, default: false}
config: demo
phases:
  one:
---
"""
CONFIG = {"config/demo.yaml": "ask: false\nfeatures:\n  talk: {enabled: false}\n"}


@pytest.mark.finding("FL4")
@pytest.mark.parametrize(
    "condition",
    [
        "inputs.deep", "inputs.deep and state.found", "not (state.found or not inputs.deep)", "inputs.kind",
        "inputs.kind == 'x'", "config.ask", "features.talk", "inputs.topic | length > 9 and bank('a', 'b')",
        "inputs['deep']",
    ],
)  # fmt: skip
def test_a_question_that_the_inputs_rule_out_needs_no_user(tmp_path: Path, condition: str) -> None:
    found = program(tmp_path, f'- {{id: which, when: "{condition}", ask: Which one?}}', CONFIG, DEEP)
    assert unanswerable_questions(found, PreparedAnswers(), {"topic": "tea", "deep": False}) == []
    unknown = 0 if condition == "config.ask" else 1
    assert len(unanswerable_questions(found, PreparedAnswers())) == unknown, "without inputs the condition is unknown"


@pytest.mark.finding("FL4")
@pytest.mark.parametrize(
    "condition", ["inputs.deep", "state.found", "not state.found", "inputs.deep or state.found", "run.round == 2"]
)
def test_a_question_that_may_be_reached_needs_a_user(tmp_path: Path, condition: str) -> None:
    found = program(tmp_path, f'- {{id: which, when: "{condition}", ask: Which one?}}', CONFIG, DEEP)
    assert len(unanswerable_questions(found, PreparedAnswers(), {"topic": "tea", "deep": True})) == 1


@pytest.mark.finding("FL4")
def test_conditions_of_phases_loops_protocols_and_inline_workflows_are_evaluated(tmp_path: Path) -> None:
    workflow = DEEP.replace("  one:\n", "  one:\n  two: {when: inputs.deep, skill: demo/one}\n")
    steps = """
    - when: inputs.deep
      repeat:
        - {ask: In a group?}
    - {id: sub, run: other, with: {topic: x, deep: "{{ inputs.deep }}"}}
    - {id: unsure, run: other, with: {topic: x, deep: "{{ state.found }}"}}
    - {id: talk, panel: [judge], protocol: talk, with: {loud: "{{ inputs.deep }}"}}
    """
    files = {
        **CONFIG,
        "roles/judge.md": "---\nname: judge\n---\nYou judge.\n",
        "skills/protocols/talk.md": """
            ---
            kind: protocol
            seats: [speaker]
            inputs: {loud: boolean, long: {type: boolean, default: true}}
            steps:
              - {id: asked, when: inputs.loud, ask: In a protocol?}
              - {id: other, when: inputs.long and config.ask, ask: In a protocol?}
            ---
            """,
        "workflows/other.md": (
            "---\nname: other\ninputs: {topic: string, deep: boolean}\nphases:\n  first: {when: inputs.deep}\n---\n"
        ),
        "skills/other/first.md": "---\nkind: phase\nsteps:\n  - {id: asked, ask: Inline?}\n---\n",
    }
    found = program(tmp_path, steps, files, workflow)
    assert [ask.address for ask in iterate_asks(found, {"topic": "tea", "deep": False})] == ["one/unsure/first/asked"]
    assert len(list(iterate_asks(found, {"topic": "tea", "deep": True}))) == 8


@pytest.mark.finding("FL4")
def test_features_are_unknown_if_the_mode_is_in_the_state(tmp_path: Path) -> None:
    workflow = DEEP.replace("  found:", "  mode: {type: string, default: a}\n  found:")
    found = program(tmp_path, "- {id: which, when: features.talk, ask: Which one?}", CONFIG, workflow)
    assert len(unanswerable_questions(found, PreparedAnswers(), {"topic": "tea", "deep": False})) == 1


@pytest.mark.parametrize("key", ["one/which", "which"])
def test_a_question_with_a_prepared_answer_needs_no_user(tmp_path: Path, key: str) -> None:
    found = program(tmp_path, "- {id: which, ask: Which one?}")
    assert unanswerable_questions(found, answers(tmp_path, f"{key}: this")) == []


LOOPS = """
- id: built
  each: [hat, coat]
  steps: [{id: sure, ask: Sure?, choices: [yes, no]}]
- {id: again, at_most: 2, repeat: [{id: more, ask: [More?, Why?]}]}
"""


def test_the_refusal_shows_the_address_of_one_repetition_of_a_question(tmp_path: Path) -> None:
    lines = unanswerable_questions(program(tmp_path, LOOPS), PreparedAnswers())
    built = "`one/built/sure` in --answers FILE (this answers it every time; `one/built~ID/sure` answers it once)"
    assert [built in line for line in lines] == [True, False]
    assert (
        "`one/again/more` in --answers FILE (this answers it every time; `one/again#2/more` answers it once)"
        in lines[1]
    )


def test_answers_for_single_items_and_passes_are_used_and_checked(tmp_path: Path) -> None:
    found = program(tmp_path, LOOPS)
    given = "one/built~hat/sure: yes\none/built~coat/sure: perhaps\none/again#1/more-1: a\none/again#1/more-2: b\n"
    prepared = answers(tmp_path, given + "one/again#2/mor-1: c\n")
    assert unanswerable_questions(found, prepared) == []
    assert [f"{p.line} {p.code}" for p in check_answers(found, prepared)] == ["2 answer", "5 unknown-question"]


def test_a_prepared_answer_for_another_question_does_not_help(tmp_path: Path) -> None:
    found = program(tmp_path, "- {id: which, ask: [{id: a, text: A?}, {id: b, text: B?}]}")
    assert len(unanswerable_questions(found, answers(tmp_path, "a: this"))) == 1


def test_files_cannot_be_prepared(tmp_path: Path) -> None:
    found = program(tmp_path, "- {id: which, ask: Bring reports., pause: exit, files: 'reports/*.md'}")
    assert len(unanswerable_questions(found, answers(tmp_path, "which: this"))) == 1


def test_questions_in_loops_fallbacks_protocols_and_inline_workflows_are_found(tmp_path: Path) -> None:
    steps = """
    - id: loop
      at_most: 2
      repeat:
        - {id: inner, ask: In a loop?}
    - repeat:
        - {id: grouped, ask: In a group?}
    - id: talk
      panel: [judge]
      protocol: talk
      otherwise: {id: instead, ask: Instead?}
    - {id: sub, run: other, with: {topic: x}}
    """
    files = {
        "roles/judge.md": "---\nname: judge\n---\nYou judge.\n",
        "skills/protocols/talk.md": """
            ---
            kind: protocol
            seats: [speaker]
            steps:
              - {id: asked, ask: In a protocol?}
            ---
            """,
        "workflows/other.md": "---\nname: other\ninputs: {topic: string}\nphases:\n  first:\n---\n",
        "skills/other/first.md": "---\nkind: phase\nsteps:\n  - {id: asked, ask: Inline?}\n---\n",
    }
    phase_and_section = program(tmp_path, steps, files)
    assert [ask.address for ask in iterate_asks(phase_and_section)] == [
        "one/loop#2/inner", "one/grouped", "one/talk/asked", "one/talk.otherwise/instead", "one/sub/first/asked",
    ]  # fmt: skip


@pytest.mark.parametrize(("named", "refused"), [("{loud: talk}", 1), ("{loud: hush}", 0)])
@pytest.mark.parametrize("computed", ["config.strategies[inputs.topic]", "config.strategies.loud"])
def test_a_computed_protocol_counts_the_protocols_it_can_name(
    tmp_path: Path, named: str, refused: int, computed: str
) -> None:
    steps = f"""
    - {{say: There is a protocol called talk.}}
    - {{id: debate, panel: [judge], protocol: "{{{{ {computed} }}}}"}}
    """
    protocol = "---\nkind: protocol\nseats: [speaker]\nsteps:\n  - {steps}\n---\n"
    files = {
        "config/demo.yaml": f"strategies: {named}\n",
        "roles/judge.md": "---\nname: judge\n---\nYou judge.\n",
        "skills/protocols/talk.md": protocol.replace("{steps}", "{id: asked, ask: In a protocol?}"),
        "skills/protocols/hush.md": protocol.replace("{steps}", "{say: nothing}"),
    }
    found = program(tmp_path, steps, files, WORKFLOW.replace("phases:", "config: demo\nphases:"))
    assert len(unanswerable_questions(found, PreparedAnswers())) == refused


def test_a_protocol_named_by_an_input_counts_all_protocols(tmp_path: Path) -> None:
    files = {
        "roles/judge.md": "---\nname: judge\n---\nYou judge.\n",
        "skills/protocols/talk.md": "---\nkind: protocol\nseats: [speaker]\nsteps:\n  - {id: a, ask: Q?}\n---\n",
        "skills/protocols/hush.md": "---\nkind: protocol\nseats: [speaker]\nsteps:\n  - {say: nothing}\n---\n",
    }
    found = program(tmp_path, "- {id: p, panel: [judge], protocol: '{{ inputs.topic }}'}", files)
    assert [ask.address for ask in iterate_asks(found)] == ["one/p/a"]


@pytest.mark.parametrize("read", ["run.estimate.answers.which.a.calls", "run.estimate['answers']['which']"])
def test_all_names_that_are_read_are_known(tmp_path: Path, read: str) -> None:
    files = {
        "roles/judge.md": "---\nname: judge\n---\nYou judge.\n",
        "skills/protocols/talk.md": (
            f"---\nkind: protocol\nseats: [speaker]\nsteps:\n  - {{set: {{x: \"{{{{ {read} or '' }}}}\"}}}}\n---\n"
        ),
    }
    found = program(tmp_path, "- {id: p, panel: [judge], protocol: talk}\n- {say: run.cost}", files)
    assert found.reads_name("run.estimate")
    assert found.reads_name("run.estimate.answers.which")
    assert not found.reads_name("run.estimate.answers.whi")
    assert not found.reads_name("run.cost")


def test_a_recursive_protocol_is_entered_once(tmp_path: Path) -> None:
    steps = "  - {id: a, ask: Q?}\n  - {panel: '{{ seats.speaker }}', protocol: again}\n"
    again = f"---\nkind: protocol\nseats: [speaker]\nsteps:\n{steps}---\n"
    found = program(tmp_path, "- {id: p, panel: [x], protocol: again}", {"skills/protocols/again.md": again})
    assert [ask.address for ask in iterate_asks(found)] == ["one/p/a"]


@pytest.mark.row("X6")
def test_answers_that_are_not_choices_are_found_before_the_run(tmp_path: Path) -> None:
    found = program(
        tmp_path,
        """
        - {id: which, ask: Which one?, choices: [this, that]}
        - {id: whose, ask: Whose?, choices: ["{{ inputs.topic }}", mine]}
        - {id: rows, ask: [{id: a, text: A?, choices: [yes, no]}]}
        """,
    )
    prepared = answers(tmp_path, "which: [this, thet]\nwhose: anybody\na: perhaps\nrow: [yes]\n")
    assert [f"{p.line}:{p.column} {p.message} {p.hint}" for p in check_answers(found, prepared)] == [
        "1:15 `thet` is not one of the choices did you mean `that`? allowed: this, that",
        "3:4 `perhaps` is not one of the choices allowed: yes, no",
        "4:1 no question has the name `row` did you mean `rows`?",
    ]


@pytest.mark.slow
def test_the_shipped_plan_runs_unattended(tmp_path: Path) -> None:
    library = Library(search_path(tmp_path))
    found = check_workflow(library, "plan")
    assert found is not None
    assert unanswerable_questions(found, PreparedAnswers()) == []
    assert "expert-review/cycle#2/choice" in [ask.address for ask in iterate_asks(found)]


@pytest.mark.finding("FR44")
def test_the_address_of_a_computed_question_is_no_unknown_name(tmp_path: Path) -> None:
    found = program(
        tmp_path, "- {id: which, ask: \"{{ ['a', 'b'] }}\"}\n- {id: done, ask: [{id: a, text: A?}, {id: b, text: B?}]}"
    )
    right = "one/which/which-1: a\none/which#2/which-2@3: b\nwhich-2-1: b\none/which/of-its-own: c\n"
    wrong = "one/whihc/which-1: a\nwhihc-1: a\none/done/aa: b\n"
    prepared = answers(tmp_path, right + wrong)
    assert [f"{p.line} {p.code}" for p in check_answers(found, prepared)] == [
        f"{line} unknown-question" for line in (5, 6, 7)
    ]
