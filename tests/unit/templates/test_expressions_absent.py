"""An absent value supports chained lookups, is empty and false, equals nothing, and cannot be printed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Text
from skillrun.templates.expressions import RenderError, compile_condition, compile_string
from skillrun.templates.filters import TESTS
from skillrun.templates.values import ABSENT, Absent
from skillrun.templates.vocabulary import FILTERS

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.floats(-1e6, 1e6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def render(value: str, **names: Any) -> Any:
    problems = Problems()
    template = compile_string(Text.of(value), problems)
    assert template is not None, list(problems)
    return template.render(names)


def check(value: str, **names: Any) -> Any:
    problems = Problems()
    template = compile_condition(Text.of(value), problems)
    assert template is not None, list(problems)
    return template.render(names)


def absence(value: str, **names: Any) -> str:
    with pytest.raises(RenderError) as caught:
        render(value, **names)
    return caught.value.problem.message


@given(PLAIN)
@pytest.mark.parametrize("sign", ["==", "!=", "<", ">", "<=", ">=", "in", "not in"])
def test_every_comparison_with_an_absent_value_is_false(sign: str, value: Any) -> None:
    assert check(f"x.gone {sign} y", x={}, y=value) is False
    assert check(f"y {sign} x.gone", x={}, y=value) is False
    assert check(f"x.gone {sign} x.gone", x={}) is False
    assert check(f"y {sign} z", y=value, z=ABSENT) is False


@given(PLAIN)
def test_comparisons_in_python_are_false_too(value: Any) -> None:
    for left, right in ((ABSENT, value), (value, ABSENT), (ABSENT, Absent("x"))):
        assert not left == right  # noqa: SIM201
        assert not left != right  # noqa: SIM202
    assert not ABSENT < 3
    assert not ABSENT >= 3
    assert value not in ABSENT


def test_a_chain_of_comparisons_with_an_absent_value_is_false() -> None:
    assert check("1 < x.gone < 3", x={}) is False
    assert check("1 < 2 < 3") is True
    assert check("3 > 2 > 2") is False


@pytest.mark.parametrize("name", sorted(TESTS))
def test_every_template_test_of_an_absent_value_is_false(name: str) -> None:
    argument = (
        ""
        if name not in {"divisibleby", "in", "eq", "equalto", "ne", "lt", "lessthan", "le", "gt", "greaterthan", "ge"}
        else "(3)"
    )
    assert check(f"x.gone is {name}{argument}", x={}) is False
    assert check(f"x.gone is not {name}{argument}", x={}) is True
    if argument:
        assert check(f"3 is {name}(x.gone)", x={}) is False


def test_an_absent_value_chains_and_is_empty_and_false() -> None:
    for path in (
        "x.gone",
        "x.gone.further",
        "x.gone['a'][0].b",
        "x[y.gone]",
        "x.gone[1:2]",
        "x.list[7]",
        "n.a",
        "null.a",
    ):
        assert isinstance(render(f"{{{{ {path} }}}}", x={"list": []}, y={}, n=3, null=None), Absent), path
        assert check(f"not {path}", x={"list": []}, y={}, n=3, null=None) is True
    assert check("x.gone or 'x'", x={}) == "x"
    assert render("{% for a in x.gone %}{{ a }}{% else %}none{% endfor %}", x={}) == "none"
    assert render("{% if x.gone %}there{% endif %}gone", x={}) == "gone"


def test_a_conditional_expression_without_else_can_be_absent() -> None:
    assert isinstance(render("{{ 'a' if x }}", x=False), Absent)
    assert render("{{ 'a' if x }}", x=True) == "a"


def test_printing_an_absent_value_is_an_error_that_names_it() -> None:
    names: dict[str, Any] = {"phases": {"plan": {"outputs": {}}, "test": ABSENT}, "step": ABSENT}
    assert absence("a {{ phases.plan.outputs.score }}", **names) == "`phases.plan.outputs.score` is absent"
    assert absence("a {{ phases.research.outputs.score }}", **names) == (
        "`phases.research.outputs.score` is absent: there is no `phases.research`"
    )
    assert absence("a {{ phases.test.outputs }}", **names) == (
        "`phases.test.outputs` is absent: there is no `phases.test`"
    )
    assert absence("a {{ step }}", **names) == "`step` is absent"
    assert absence("a {{ step.text | clip(3) | untrusted }}", **names) == ("`step.text` is absent: there is no `step`")
    assert absence("{% set a = step.text %}{{ a }}", **names) == "`step.text` is absent: there is no `step`"
    assert absence("a {{ phases['x'][0] }}", **names) == "`phases['x'][0]` is absent: there is no `phases['x']`"
    assert absence("a {{ [] | first }}", **names) == "`… | first` is absent"
    assert absence("{{ [step.text, 'a'] | join(', ') }}", **names) == "`step.text` is absent: there is no `step`"


@pytest.mark.parametrize(
    "expression",
    [
        "x.gone + 1",
        "1 - x.gone",
        "x.gone * 2",
        "-x.gone",
        "[1] + x.gone",
        "'a' ~ x.gone",
        "x.gone ~ 'a'",
        "[1, x.gone] | sum",
    ],
)
def test_arithmetic_and_concatenation_with_an_absent_value_are_errors(expression: str) -> None:
    assert absence(f"{{{{ {expression} }}}}", x={}) == "`x.gone` is absent"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("length", 0),
        ("count", 0),
        ("list", []),
        ("join(', ')", ""),
        ("map(attribute='a')", []),
        ("select", []),
        ("rejectattr('a')", []),
        ("sort", []),
        ("unique", []),
        ("items", []),
        ("dictsort", []),
        ("groupby('a')", []),
        ("sum", 0),
        ("sum(start=[])", []),
        ("reverse", []),
        ("wordcount", 0),
        ("tokens", 0),
        ("dedupe", []),
        ("top(3)", []),
        ("mean", {}),
        ("hits(['a'])", []),
        ("matches(['a'])", {}),
        ("latest", []),
        ("overlap('a')", 0.0),
        ("default('x')", "x"),
        ("default('x', true)", "x"),
        ("int(5)", 5),
        ("float(5)", 5),
    ],
)
def test_collection_filters_treat_an_absent_value_as_empty(expression: str, expected: object) -> None:
    assert render(f"{{{{ x.gone | {expression} }}}}", x={}) == expected


@pytest.mark.row("R3")
@pytest.mark.parametrize(
    "expression",
    [
        "upper", "lower", "title", "capitalize", "trim", "string", "replace('a', 'b')", "indent", "format(1)", "tojson",
        "int", "float", "round", "abs", "first", "last", "min", "max", "untrusted", "clip(3)", "slug", "section('a')",
    ],
)  # fmt: skip
def test_text_and_number_filters_keep_an_absent_value_absent(expression: str) -> None:
    assert isinstance(render(f"{{{{ x.gone | {expression} }}}}", x={}), Absent)
    assert absence(f"a {{{{ x.gone | {expression} }}}}", x={}).endswith("is absent")


def test_no_filter_fails_on_an_absent_value() -> None:
    arguments = dict.fromkeys(["section", "split", "overlap", "groupby", "selectattr", "rejectattr"], "('a')")
    arguments |= {
        "replace": "('a', 'b')",
        "map": "('upper')",
        "hits": "(['a'])",
        "matches": "(['a'])",
        "convergence": "({})",
    }
    arguments |= {"clip": "(3)", "top": "(3)", "links_between": "('a', 'b')", "new_in": "([], 'a')", "amended": "([])"}
    arguments |= dict.fromkeys(["hits", "hits_in", "ids_in"], "(['a'])")
    for name in FILTERS:
        result = render(f"{{{{ x.gone | {name}{arguments.get(name, '')} }}}}", x={})
        assert not (result["text"] if name == "amended" else result), name


def test_items_without_a_field_are_neither_selected_nor_rejected() -> None:
    records = [{"c": 90}, {"c": 10}, {}]
    assert render("{{ x | rejectattr('c', 'lt', 80) }}", x=records) == [{"c": 90}, {}]
    assert render("{{ x | selectattr('c', 'lt', 80) }}", x=records) == [{"c": 10}]
    assert render("{{ x | selectattr('c') }}", x=records) == [{"c": 90}, {"c": 10}]
    assert render("{{ x | selectattr('c', 'ne', 10) }}", x=records) == [{"c": 90}]


def test_a_missing_field_keeps_its_position_inside_an_expression() -> None:
    records = [{"a": 1}, {}, {"a": 3}]
    assert render("{{ x | map(attribute='a') | length }}", x=records) == 3
    assert render("{{ (x | map(attribute='a'))[2] }}", x=records) == 3
    assert render("{{ x | map(attribute='a', default=0) }}", x=records) == [1, 0, 3]
    assert render("{{ x | map(attribute='a') | max }}", x=records) == 3
    assert render("{{ x | sort(attribute='a', reverse=true) }}", x=records) == [{"a": 3}, {"a": 1}, {}]
    assert render("{{ x | map(attribute='b') | sum(start=[]) }}", x=[{"b": [1]}, {}, {"b": [2]}]) == [1, 2]


def test_absent_items_are_left_out_of_results() -> None:
    assert render("{{ [1, x.gone, {'a': x.gone, 'b': [x.gone]}] }}", x={}) == [1, {"b": []}]
    assert render("{{ x | map(attribute='a') }}", x=[{"a": 1}, {}]) == [1]
