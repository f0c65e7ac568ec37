"""Inference of templates without rendering: absent values, fields, and comparisons that never hold."""

from __future__ import annotations

import pytest

from skillrun.checker.inference import Inference
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Text
from skillrun.templates.expressions import compile_condition, compile_string
from skillrun.types.types import ANY, NUMBER, TEXT, Type, infer_type, list_of, map_of, record

MODE = TEXT._replace(values=("rapid", "deep"))
NAMES: dict[str, Type] = {
    "state": record({"mode": MODE, "flags": list_of(TEXT), "count": NUMBER}, "state"),
    "inputs": record({"place": TEXT, "repo": TEXT.maybe(), "days": NUMBER.maybe()}, "inputs"),
    "step": record({"text": TEXT, "data": record({"title": TEXT, "note": TEXT.maybe()}, "step.data")}, "step"),
    "skipped": record({"text": TEXT}, "skipped").maybe(),
    "findings": list_of(record({"title": TEXT, "level": MODE, "note": TEXT.maybe()}, "the finding")),
    "answers": list_of(NUMBER, filled=True),
    "artifacts": map_of(TEXT),
    "config": infer_type(
        {"mode": "rapid", "most": 3, "teams": {"a": ["x"], "b": ["y", "z"]}}, ("config",), tunable=True
    ),
    "anything": ANY,
    "score": NUMBER._replace(bounds=(0, 10)),
}


VALID_TEMPLATES = [
    pytest.param(template, marks=pytest.mark.finding(finding))
    for finding, templates in {
        "FL8": [
            "{% if inputs.days is number %}{{ inputs.days }}{% endif %}",
            "{% if inputs.repo is string and inputs.repo is ne 'x' %}{{ inputs.repo }}{% endif %}",
            "{% for f in findings if f.note is in ['a', 'b'] %}{{ f.note }}{% endfor %}",
            "{{ [findings] | map('top', 3) | sum(start=[]) | map(attribute='title') | join }}",
            "{% for f in [findings] | map('first') %}{{ f.title }}{% endfor %}",
            "{% for name, team in config.teams | top(1) | dictsort %}{{ name }}{% endfor %}",
            "{% set a = 'x' %}{% if inputs.repo %}{% set a = 'y' %}{% endif %}{% if a == 'x' %}{% endif %}",
        ],
        "FL21": [
            "{% if score == 10 or score >= 10 or score < 1 or score in [0, 10] %}{% endif %}",
            "{% if score + 1 == 11 or score | int == 12 or [score] | sum == 20 %}{% endif %}",
            "{% if step.data == {'title': 'x'} or anything == 'x' or inputs.place == anything %}{% endif %}",
            "{% if state.flags == [] or 'x' in state.flags or 'mode' in config %}{% endif %}",
            "{{ step.text | clip(score) }}{{ findings | top(config.most) | length }}{{ step.text | length }}",
        ],
    }.items()
    for template in templates
]


def problems(template: str, *, bare: bool = False) -> list[str]:
    collected = Problems()
    compiled = (compile_condition if bare else compile_string)(Text.of(template), collected)
    assert compiled is not None, list(collected)
    inference = Inference(compiled, dict(NAMES), collected)
    if compiled.expression is not None and not bare:
        inference.check_printed_expression(compiled.expression)
    else:
        inference.infer_template()
    return [f"{problem.code} {problem.column}" for problem in collected]


@pytest.mark.parametrize(
    "template",
    [
        "{{ inputs.place }}",
        "{% if inputs.repo %}{{ inputs.repo }}{% endif %}",
        "{% if inputs.repo and inputs.days %}{{ inputs.repo }} {{ inputs.days + 1 }}{% endif %}",
        "{% if not inputs.repo %}none{% else %}{{ inputs.repo }}{% endif %}",
        "{% if inputs.repo is defined %}{{ inputs.repo }}{% endif %}",
        "{% if inputs.days > 3 %}{{ inputs.days }}{% endif %}",
        "{% if skipped.text == 'x' %}{{ skipped.text }}{% endif %}",
        "{% if skipped %}{{ skipped.text }}{% endif %}",
        "{{ inputs.repo | default('none') }}",
        "{{ inputs.repo or 'none' }}",
        "{{ inputs.repo if inputs.repo else 'none' }}",
        "{% for f in findings if f.note %}{{ f.note }}{% endfor %}",
        "{% for f in findings | selectattr('note') %}{{ f.note }}{% endfor %}",
        "{% if findings %}{{ findings | map(attribute='title') | first }}{% endif %}",
        "{{ answers | max - answers | min }}",
        "{{ (inputs.days or 0) + 1 }}",
        "{{ findings | map(attribute='note') | select | join(', ') }}",
        "{% set note = inputs.repo or 'none' %}{{ note }}",
        "{% set all %}{{ inputs.place }}{% endset %}{{ all }}",
        "{{ config.teams | list | first or '' }}",
        "{% for name, team in config.teams | dictsort %}{{ name }}: {{ team | join }}{% endfor %}",
        "{% if artifacts['a.md'] %}{{ artifacts['a.md'] }}{% endif %}",
        "{{ anything.you.like[0].more }}",
        "{% for f in findings | pick('title', what='note') | plus(round=2) %}{{ f.title }} {{ f.round }}{% endfor %}",
        "{% for f in [findings] | flatten %}{{ f.title }}{% endfor %}",
        "{% if config.mode == 'deep' %}{% endif %}",
        "{% if state.mode in ['rapid', 'deep'] %}{% endif %}",
        "{{ config.teams[inputs.place] | join(', ') }}",
        *VALID_TEMPLATES,
    ],
)
def test_a_provable_template_has_no_problems(template: str) -> None:
    assert problems(template) == []


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ inputs.repo }}", ["absent 11"]),
        ("x {{ skipped.text }}", ["absent 14"]),
        ("{{ step.data.note | upper }}", ["absent 14"]),
        ("{% if inputs.place %}{{ inputs.repo }}{% endif %}", ["absent 32"]),
        ("{% if inputs.repo or inputs.place %}{{ inputs.repo }}{% endif %}", ["absent 47"]),
        ("{% if inputs.repo %}a{% else %}{{ inputs.repo }}{% endif %}", ["absent 42"]),
        ("{{ inputs.repo if inputs.place else 'x' }}y", ["absent 4"]),
        ("{% for f in findings %}{{ f.note }}{% endfor %}", ["absent 29"]),
        ("{{ findings | first }}", ["absent 15"]),
        ("{{ findings | map(attribute='title') | first }}", ["absent 40"]),
        ("{{ inputs.days + 1 }}", ["absent 11"]),
        ("{{ 2 * inputs.days }}", ["absent 15"]),
        ("{{ 'a' ~ inputs.repo }}", ["absent 17"]),
        ("{{ artifacts['a.md'] }}", ["absent 13"]),
        ("{{ 'in ' ~ inputs.repo if inputs.repo }}x", ["absent 4"]),
        ("{{ unknown }}", ["unknown-name 4"]),
        ("{{ step.txet }}", ["unknown-field 9"]),
        ("{{ step.text.more }}", ["unknown-field 14"]),
        ("{{ findings.title }}", ["unknown-field 13"]),
        ("{% for f in findings %}{{ f.titel }}{% endfor %}", ["unknown-field 29"]),
        ("{{ findings | map(attribute='titel') | list }}", ["unknown-field 15"]),
        ("{{ findings | selectattr('titel') | list }}", ["unknown-field 26"]),
        ("{{ findings | pick('titel') | list }}", ["unknown-field 15"]),
        ("{{ findings | pick(it='titel') | list }}", ["unknown-field 15"]),
        ("{% for f in findings | pick('title') %}{{ f.level }}{% endfor %}", ["unknown-field 45"]),
        ("{% for f in findings | pick(it='note') %}{{ f.it }}{% endfor %}", ["absent 47"]),
        ("{% for f in findings | plus(x=1) %}{{ f.y }}{% endfor %}", ["unknown-field 41"]),
        ("{% for f in [findings] | flatten %}{{ f.note }}{% endfor %}", ["absent 41"]),
        ("{{ 'x' | pick('a') }}", ["arguments 10"]),
        ("{{ findings | sort(attribute='titel') | list }}", ["unknown-field 15"]),
        ("{{ findings | selectattr('level', 'eq', 'depe') | list }}", ["never 41"]),
        ("{% if state.mode == 'depe' %}{% endif %}", ["never 21"]),
        ("{% if 'depe' != state.mode %}{% endif %}", ["never 7"]),
        ("{% if state.mode in ['rapid', 'depe'] %}{% endif %}", ["never 31"]),
        ("{{ state.flags | dictsort(by='vlaue') }}", ["arguments 18"]),
        ("{{ config.taems }}", ["unknown-field 11"]),
        ("{{ step-text }}", ["unknown-name 9"]),
        ("{% set a = inputs.repo %}{{ a }}", ["absent 29"]),
    ],
)
def test_an_unprovable_template_is_reported_at_its_place(template: str, expected: list[str]) -> None:
    assert [problem.split()[0] for problem in problems(template)] == [problem.split()[0] for problem in expected]
    assert problems(template) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("inputs.repo", []),
        ("not skipped and inputs.days", []),
        ("inputs.repo == 'x'", []),
        ("findings | length > 2", []),
        ("state.mode == 'deep' and state.mod", ["unknown-field 32"]),
        ("inputs.days + 1 > 3", ["absent 8"]),
    ],
)
def test_absent_values_are_false_in_conditions(condition: str, expected: list[str]) -> None:
    assert problems(condition, bare=True) == expected


@pytest.mark.finding("FL9", "FL21")
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("score == 11", ["never 10"]),
        ("11 == score", ["never 1"]),
        ("score in [3, 11]", ["never 14"]),
        ("score > 10", ["never 9"]),
        ("0 > score", ["never 1"]),
        ("score >= '8'", ["type 10"]),
        ("score is ge '8'", ["type 13"]),
        ("score == 'five'", ["never 10"]),
        ("step.data == 'x'", ["never 14"]),
        ("step.data > 3", ["type 13"]),
        ("findings == 'x'", ["never 13"]),
        ("'x' in findings", ["never 8"]),
        ("'x' in score", ["type 8"]),
        ("score in step.text", ["type 15"]),
        ("findings | selectattr('title', 'gt', 3)", ["type 38"]),
        ("[findings] | map('top', 3) | sum(start=[]) | map(attribute='titel')", ["unknown-field 46"]),
        ("step.text | clip('many')", ["arguments 18"]),
        ("findings | dedupe('title', threshold='x')", ["arguments 38"]),
        ("step.text | join", ["arguments 13"]),
        ("score | length", ["arguments 9"]),
        ("matches(step.data, ['x'])", ["arguments 8"]),
    ],
)
def test_impossible_comparisons_and_invalid_arguments_are_reported(condition: str, expected: list[str]) -> None:
    assert problems(condition, bare=True) == expected
