"""Strings and conditions as templates: their values, how values print, and which names are valid."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Text
from skillrun.templates.expressions import Absent, RenderError, Template, compile_condition, compile_string


def template(value: str, bare: bool = False) -> Template:
    problems = Problems()
    made = compile_condition(Text.of(value), problems) if bare else compile_string(Text.of(value), problems)
    assert made is not None, list(problems)
    return made


def rendered(value: str, **names: Any) -> Any:
    return template(value).render(names)


def holds(condition: str, **names: Any) -> Any:
    return template(condition, bare=True).render(names)


def failure(value: str, **names: Any) -> RenderError:
    with pytest.raises(RenderError) as caught:
        rendered(value, **names)
    return caught.value


def test_text_without_tags_is_itself() -> None:
    assert rendered("just { text } with } and %") == "just { text } with } and %"


@pytest.mark.parametrize("value", ["text\n", "{{ x }}text\n"])
def test_one_line_end_at_the_end_does_not_count(value: str) -> None:
    assert rendered(value, x="") == "text"
    assert rendered(value + "\n", x="") == "text\n"


@pytest.mark.parametrize("value", [3, 2.5, True, None, [1, "a"], {"a": {"b": []}}, "text"])
@pytest.mark.parametrize("written", ["{{ x }}", "  {{ x }}\n", "{{- x -}}", "{# why #}{{ x }}"])
def test_a_single_expression_keeps_its_type(written: str, value: object) -> None:
    assert rendered(written, x=value) == value
    assert type(rendered(written, x=value)) is type(value)


def test_anything_around_an_expression_makes_a_text() -> None:
    assert rendered("{{ x }}.", x=3) == "3."
    assert rendered("{{ x }}{{ x }}", x=3) == "33"
    assert rendered("{% if x %}{{ x }}{% endif %}", x=3) == "3"


def test_a_condition_is_an_expression_without_braces() -> None:
    assert holds("state.mode in ['advanced', 'complete'] and not questions", state={"mode": "complete"}, questions=[])
    assert holds("words | length >= 2", words=["a", "b"]) is True


@pytest.mark.parametrize(
    ("value", "printed"),
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
def test_values_print_as_a_person_would_write_them(value: object, printed: str) -> None:
    assert rendered("{{ x }}!", x=value) == printed + "!"
    assert rendered("{{ '' ~ x }}", x=value) == printed


def test_null_is_not_printed() -> None:
    assert "null cannot be printed" in failure("{{ x }}!", x=None).message


def test_a_dot_is_an_item_and_never_an_attribute() -> None:
    assert rendered("{{ x.items }}", x={"items": 1}) == 1
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
        assert isinstance(rendered(f"{{{{ {path} }}}}", x={"y": "text"}, n=1, l=[1]), Absent), path


def test_an_underscore_finds_a_hyphen_after_the_exact_name() -> None:
    phases = {"test-strategy": 1, "think_deep": 2, "think-deep": 3, "a-b_c": 4}
    assert rendered("{{ phases.test_strategy }}", phases=phases) == 1
    assert rendered("{{ phases.think_deep }}", phases=phases) == 2
    assert rendered("{{ phases.a_b_c }}", phases=phases) == 4
    assert rendered("{{ phases['think-deep'] }}", phases=phases) == 3
    assert isinstance(rendered("{{ phases['test_strategy'] }}", phases=phases), Absent)
    assert template("{{ test_plan.x }}").render({"test-plan": {"x": 5}}) == 5


def test_lists_have_indexes_and_slices() -> None:
    names = {"l": [1, 2, 3], "t": "text", "i": 1}
    written = "{{ [l[0], l[-1], l.1, l[i], l[1:], l[-20:], l[::2], l[5:], t[0], t[1:3]] }}"
    assert rendered(written, **names) == [1, 3, 2, 2, [2, 3], [1, 2, 3], [1, 3], [], "t", "ex"]
    assert isinstance(rendered("{{ l[3] }}", **names), Absent)
    assert isinstance(rendered("{{ l[true] }}", **names), Absent)


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


def test_any_mapping_is_looked_up_and_comes_out_as_a_plain_one() -> None:
    assert rendered("{{ x.phase_a.name }}", x=Lazy()) == "phase-a"
    assert rendered("{{ x }}", x=Lazy()) == {"phase-a": {"name": "phase-a"}}
    assert rendered("{{ x }}", x=(1, (2,))) == [1, [2]]


def test_what_comes_out_is_plain_and_nobody_elses() -> None:
    inner = {"a": [1]}
    found = rendered("{{ x }}", x=inner)
    found["a"].append(2)
    assert inner == {"a": [1]}
    assert rendered("{{ x | map(attribute='a') }}", x=[{"a": 1}]) == [1]
    assert rendered("{{ (1, 2) }}") == [1, 2]
    assert rendered("{{ x | dictsort }}", x={"b": 1, "a": 2}) == [["a", 2], ["b", 1]]
    assert "unsupported value" in failure("{{ x }}", x=object()).message


def test_a_name_that_nobody_handed_in_is_an_error_with_a_suggestion() -> None:
    error = failure("a {{ stat.mode }}", state={})
    assert error.problem.code == "unknown-name"
    assert (error.problem.line, error.problem.column) == (1, 6)
    assert "unknown name `stat`" in error.message
    assert error.next_step == "did you mean `state`?"


def test_an_unknown_name_that_is_not_reached_does_no_harm() -> None:
    assert rendered("{% if x %}{{ nobody }}{% endif %}ok", x=False) == "ok"


def test_set_loop_and_block_set_make_names() -> None:
    assert rendered("{% set a = 1 %}{% set a = a + 1 %}{{ a }}") == "2"
    assert rendered("{% set a %}<{{ x }}>{% endset %}{{ a | upper }}", x="q") == "<Q>"
    assert rendered("{% set a | upper | trim %} {{ x }} {% endset %}{{ a }}.", x="q") == "Q."
    assert (
        rendered("{% for k, v in x | items %}{{ loop.index }}{{ k }}{{ v }}{% endfor %}", x={"a": 1, "b": 2})
        == "1a12b2"
    )
    written = "{% for a in x if a > 1 %}{{ a }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}"
    assert rendered(written, x=[1, 2, 3]) == "2,3"
    assert rendered(written, x=[1]) == "none"


def test_a_name_of_the_caller_may_be_called_like_the_engines_own() -> None:
    for name in ("the_value", "environment", "context", "missing", "undefined", "concat", "resolve", "t_1", "l_0_x"):
        assert rendered(f"{{{{ {name} }}}}", **{name: 7}) == 7
        assert rendered(f"{{{{ {name} }}}}.{{% set {name} = 8 %}}{{{{ {name} }}}}", **{name: 7}) == "7.8"


def test_context_functions_come_in_with_the_names() -> None:
    def others(step: Any) -> str:
        return f"others of {step['id']}"

    assert rendered("{{ others(first) }}", others=others, first={"id": "first"}) == "others of first"
    assert rendered("{{ others(first) | tokens }}", others=others, first={"id": "first"}) == 3
    assert "`others` cannot be used here" in failure("{{ others(x) }}", x=1).message


def test_an_error_of_a_context_function_is_not_taken_for_the_authors() -> None:
    def others(step: Any) -> str:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        rendered("{{ others(x) }}", others=others, x=1)


def test_a_template_inside_another_reports_its_own_place() -> None:
    inner = template("\n  {{ y }}!")

    def others(step: Any) -> Any:
        return inner.render({"y": step})

    error = failure("{{ others(x.z) }}", others=others, x={})
    assert (error.problem.line, error.problem.column) == (2, 6)


def test_a_single_expression_is_rendered_as_text_where_text_is_wanted() -> None:
    made = template("{{ x.a }}")
    assert made.render_text({"x": {"a": 2.0}}) == "2"
    with pytest.raises(RenderError, match=r"`x\.a` is absent"):
        made.render_text({"x": {}})
    assert template("plain").render_text({}) == "plain"


def test_the_single_expression_is_offered_to_the_checker() -> None:
    assert template(" {{ x }} ").expression is not None
    assert template("x", bare=True).expression is not None
    assert template("a {{ x }}").expression is None
    assert template("a").expression is None


def test_rendering_is_the_same_every_time() -> None:
    made = template("{{ x | unique | list }}{{ x | groupby(0) }}{{ x | untrusted }}")
    names = {"x": [[i % 7, str(i)] for i in range(50)]}
    assert len({made.render(names) for _ in range(5)}) == 1
