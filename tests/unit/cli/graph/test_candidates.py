"""The members, protocols and limits that a drawing shows for values given by expressions."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillrun.cli.graph.model import StepNode, build_graph
from skillrun.library.library import Library
from skillrun.library.roots import search_path

Draw = Callable[[str], list[StepNode]]
CONFIG = """
team: {small: [a], large: [a, "b:x", "b:y"]}
seats: {red-team: {left: a, right: b}}
one: b
judges: consensus
limits: {tries: 3}
modes: {deep: {judges: debate}}
breakers: {tries: {limit: 4, then: skip}}
"""


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """Return a function that writes a workflow with one phase of the given steps and builds its nodes."""

    def build(steps: str) -> list[StepNode]:
        files = {
            "workflows/w.md": "---\nname: w\ninputs: {x: string}\nstate: {who: {type: string, default: a}}\nconfig: w\n"
            "phases: {p: }\n---\n",
            "skills/w/p.md": f"---\nkind: phase\nsteps:\n{steps}\n---\n",
            "config/w.yaml": CONFIG,
            "roles/a.md": "---\nname: a\n---\nA.\n",
            "roles/b.md": "---\nname: b\nvariants: {x: x, y: y}\n---\nB.\n",
        }
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        library = Library(search_path(tmp_path))
        workflow = library.workflow("w")
        assert workflow is not None
        return list(build_graph(workflow, library, None).phases[0].steps)

    return build


@pytest.mark.parametrize(
    ("expression", "members"),
    [
        ("{{ config.one }}", ("b",)),
        ("{{ config.team.large }}", ("a", "b:x", "b:y")),
        ("{{ config.team[inputs.x] }}", ("a", "b:x", "b:y")),
        ("{{ config.team[inputs.x] or config.one }}", ("a", "b:x", "b:y", "b")),
        ("{{ config.one if inputs.x else 'a' }}", ("b", "a")),
        ("{{ config.team.large | first | default('b') }}", ("a", "b:x", "b:y", "b")),
        ("b:{{ 'x' if inputs.x else 'y' }}", ("b:x", "b:y")),
        ("{{ config.team.small + [config.one] }}", ("a", "b")),
        ("{{ config.seats.red_team }}", ("a", "b")),
        ("{{ state.who }}", ("a",)),
        ("{{ seated }}", ("a", "b")),
        ("{{ inputs.x }}", ()),
        ("{{ config.judges }}", ()),
        ("{{ config.nothing.at.all }}", ()),
    ],
)
def test_members_are_collected_from_the_files_that_the_expression_reads(
    expression: str, members: tuple[str, ...], draw: Draw
) -> None:
    agent = draw(f'  - set: {{seated: "{{{{ [\'a\', config.one] }}}}"}}\n  - {{id: s, agent: "{expression}"}}')[1]
    assert (agent.members, agent.is_fixed) == (members, False)
    assert agent.expression == ("" if members else expression.strip("{} "))


def test_literal_members_are_exact(draw: Draw) -> None:
    (agent,) = draw('  - {id: s, agent: [a, "b:x@opus"]}')
    assert (agent.members, agent.is_fixed) == (("a", "b:x@opus"), True)


def test_a_protocol_can_differ_by_mode(draw: Draw) -> None:
    (panel,) = draw('  - {id: s, panel: [a], protocol: "{{ config.judges }}"}')
    assert panel.protocols == ("consensus", "debate")


@pytest.mark.parametrize(
    ("at_most", "shown"),
    [
        ("2", "2"),
        ("tries", "4"),
        ('"{{ config.limits.tries + 1 }}"', "4"),
        ('"{{ inputs.x | length }}"', "inputs.x | length"),
    ],
)
def test_a_limit_is_a_number_only_where_no_run_can_change_it(at_most: str, shown: str, draw: Draw) -> None:
    (loop,) = draw(f"  - {{at_most: {at_most}, repeat: [{{id: s, agent: a}}]}}")
    assert loop.at_most == shown


def test_circular_names_terminate(draw: Draw) -> None:
    names = ", ".join(f'n{number}: "{{{{ n{number - 1} or n{number - 1} or n{number} }}}}"' for number in range(1, 60))
    *_, agent = draw(f'  - set: {{n0: "{{{{ n0 or \'a\' }}}}", {names}}}\n  - {{id: s, agent: "{{{{ n3 }}}}"}}')
    assert agent.members == ("a",)
    *_, last = draw(f'  - set: {{n0: a, {names}}}\n  - {{id: s, agent: "{{{{ n59 }}}}"}}')
    assert last.expression == "n59"
