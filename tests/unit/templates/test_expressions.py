"""Strings and conditions as templates: their values, how values print, and which names are valid."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Text
from skillrun.templates.expressions import RenderError, Template, compile_condition, compile_string
from skillrun.templates.values import Absent


def compile_template(value: str, bare: bool = False) -> Template:
    problems = Problems()
    template = compile_condition(Text.of(value), problems) if bare else compile_string(Text.of(value), problems)
    assert template is not None, list(problems)
    return template


def render(value: str, **names: Any) -> Any:
    return compile_template(value).render(names)


def check(condition: str, **names: Any) -> Any:
    return compile_template(condition, bare=True).render(names)


def render_error(value: str, **names: Any) -> RenderError:
    with pytest.raises(RenderError) as caught:
        render(value, **names)
    return caught.value


def test_text_without_tags_is_unchanged() -> None:
    assert render("just { text } with } and %") == "just { text } with } and %"


@pytest.mark.parametrize("value", ["text\n", "{{ x }}text\n"])
def test_one_final_line_end_is_removed(value: str) -> None:
    assert render(value, x="") == "text"
    assert render(value + "\n", x="") == "text\n"


@pytest.mark.parametrize("value", [3, 2.5, True, None, [1, "a"], {"a": {"b": []}}, "text"])
@pytest.mark.parametrize("source", ["{{ x }}", "  {{ x }}\n", "{{- x -}}", "{# why #}{{ x }}"])
def test_a_single_expression_keeps_its_type(source: str, value: object) -> None:
    assert render(source, x=value) == value
    assert type(render(source, x=value)) is type(value)


def test_text_around_an_expression_makes_the_result_text() -> None:
    assert render("{{ x }}.", x=3) == "3."
    assert render("{{ x }}{{ x }}", x=3) == "33"
    assert render("{% if x %}{{ x }}{% endif %}", x=3) == "3"


def test_a_condition_is_an_expression_without_braces() -> None:
    assert check("state.mode in ['advanced', 'complete'] and not questions", state={"mode": "complete"}, questions=[])
    assert check("words | length >= 2", words=["a", "b"]) is True


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (14.0, "14"),
        (2 / 3, "0.67"),
        (0.5, "0.5"),
        (-0.001, "0"),
        (10**18, "1000000000000000000"),
        (True, "true"),
        (["é", {"b": 1, "a": None}], '["é", {"b": 1, "a": null}]'),
    ],
)
def test_values_print_in_a_readable_form(value: object, expected: str) -> None:
    assert render("{{ x }}!", x=value) == expected + "!"
    assert render("{{ '' ~ x }}", x=value) == expected


def test_null_cannot_be_printed() -> None:
    assert "null cannot be printed" in render_error("{{ x }}!", x=None).message


def test_a_dot_reads_an_item_and_never_a_python_attribute() -> None:
    assert render("{{ x.items }}", x={"items": 1}) == 1
    for path in (
        "x.keys",
        "x.y.upper",
        "x.y.format",
        "n.real",
        "x['keys']",
        "l.append",
        "x.__class__",
        "n.__class__.__mro__",
        "x.y.join.strip",
    ):
        assert isinstance(render(f"{{{{ {path} }}}}", x={"y": "text"}, n=1, l=[1]), Absent), path


def test_an_underscore_matches_a_hyphen_when_the_exact_name_is_missing() -> None:
    phases = {"test-strategy": 1, "think_deep": 2, "think-deep": 3, "a-b_c": 4}
    assert render("{{ phases.test_strategy }}", phases=phases) == 1
    assert render("{{ phases.think_deep }}", phases=phases) == 2
    assert render("{{ phases.a_b_c }}", phases=phases) == 4
    assert render("{{ phases['think-deep'] }}", phases=phases) == 3
    assert isinstance(render("{{ phases['test_strategy'] }}", phases=phases), Absent)
    assert compile_template("{{ test_plan.x }}").render({"test-plan": {"x": 5}}) == 5


def test_lists_have_indexes_and_slices() -> None:
    names = {"l": [1, 2, 3], "t": "text", "i": 1}
    source = "{{ [l[0], l[-1], l.1, l[i], l[1:], l[-20:], l[::2], l[5:], t[0], t[1:3]] }}"
    assert render(source, **names) == [1, 3, 2, 2, [2, 3], [1, 2, 3], [1, 3], [], "t", "ex"]
    assert isinstance(render("{{ l[3] }}", **names), Absent)
    assert isinstance(render("{{ l[true] }}", **names), Absent)


class Lazy(Mapping[str, Any]):
    """A mapping that is not a dict, as in a run."""

    def __getitem__(self, key: str) -> Any:
        if key.startswith("phase-"):
            return {"name": key}
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["phase-a"])

    def __len__(self) -> int:
        return 1


def test_any_mapping_can_be_read_and_becomes_a_plain_dict() -> None:
    assert render("{{ x.phase_a.name }}", x=Lazy()) == "phase-a"
    assert render("{{ x }}", x=Lazy()) == {"phase-a": {"name": "phase-a"}}
    assert render("{{ x }}", x=(1, (2,))) == [1, [2]]


def test_results_are_plain_copies() -> None:
    inner = {"a": [1]}
    copy = render("{{ x }}", x=inner)
    copy["a"].append(2)
    assert inner == {"a": [1]}
    assert render("{{ x | map(attribute='a') }}", x=[{"a": 1}]) == [1]
    assert render("{{ (1, 2) }}") == [1, 2]
    assert render("{{ x | dictsort }}", x={"b": 1, "a": 2}) == [["a", 2], ["b", 1]]
    assert "unsupported value" in render_error("{{ x }}", x=object()).message


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    error = render_error("a {{ stat.mode }}", state={})
    assert error.problem.code == "unknown-name"
    assert (error.problem.line, error.problem.column) == (1, 6)
    assert "unknown name `stat`" in error.message
    assert error.next_step == "did you mean `state`?"


def test_an_unknown_name_that_is_not_evaluated_is_ignored() -> None:
    assert render("{% if x %}{{ unknown }}{% endif %}ok", x=False) == "ok"


def test_set_for_and_block_set_define_names() -> None:
    assert render("{% set a = 1 %}{% set a = a + 1 %}{{ a }}") == "2"
    assert render("{% set a %}<{{ x }}>{% endset %}{{ a | upper }}", x="q") == "<Q>"
    assert render("{% set a | upper | trim %} {{ x }} {% endset %}{{ a }}.", x="q") == "Q."
    assert (
        render("{% for k, v in x | items %}{{ loop.index }}{{ k }}{{ v }}{% endfor %}", x={"a": 1, "b": 2}) == "1a12b2"
    )
    source = "{% for a in x if a > 1 %}{{ a }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}"
    assert render(source, x=[1, 2, 3]) == "2,3"
    assert render(source, x=[1]) == "none"


def test_a_name_can_equal_an_internal_name_of_jinja() -> None:
    for name in ("the_value", "environment", "context", "missing", "undefined", "concat", "resolve", "t_1", "l_0_x"):
        assert render(f"{{{{ {name} }}}}", **{name: 7}) == 7
        assert render(f"{{{{ {name} }}}}.{{% set {name} = 8 %}}{{{{ {name} }}}}", **{name: 7}) == "7.8"


def test_context_functions_are_passed_with_the_names() -> None:
    def others(step: Any) -> str:
        return f"others of {step['id']}"

    assert render("{{ others(first) }}", others=others, first={"id": "first"}) == "others of first"
    assert render("{{ others(first) | tokens }}", others=others, first={"id": "first"}) == 3
    assert "`others` cannot be used here" in render_error("{{ others(x) }}", x=1).message


def test_a_bug_in_a_context_function_is_not_a_template_error() -> None:
    def others(step: Any) -> str:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        render("{{ others(x) }}", others=others, x=1)


def test_a_nested_template_reports_its_own_place() -> None:
    inner = compile_template("\n  {{ y }}!")

    def others(step: Any) -> Any:
        return inner.render({"y": step})

    error = render_error("{{ others(x.z) }}", others=others, x={})
    assert (error.problem.line, error.problem.column) == (2, 6)


def test_render_text_renders_a_single_expression_as_text() -> None:
    template = compile_template("{{ x.a }}")
    assert template.render_text({"x": {"a": 2.0}}) == "2"
    with pytest.raises(RenderError, match=r"`x\.a` is absent"):
        template.render_text({"x": {}})
    assert compile_template("plain").render_text({}) == "plain"


def test_a_template_exposes_its_single_expression() -> None:
    assert compile_template(" {{ x }} ").expression is not None
    assert compile_template("x", bare=True).expression is not None
    assert compile_template("a {{ x }}").expression is None
    assert compile_template("a").expression is None


def test_rendering_is_deterministic() -> None:
    template = compile_template("{{ x | unique | list }}{{ x | groupby(0) }}{{ x | untrusted }}")
    names = {"x": [[i % 7, str(i)] for i in range(50)]}
    assert len({template.render(names) for _ in range(5)}) == 1
