"""No template hangs or exhausts memory: hostile ones fail quickly, with an error at a position."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Text
from skillrun.templates import limits
from skillrun.templates.expressions import RenderError, compile_string

TWINS = "{% set a = [1] %}{% set b = [1] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40
BIG = "a" * 900_000
WORK = "this template exceeds the work limit of a render"
NAMES: dict[str, Any] = {"big": BIG, "items": list(range(90_000)), "records": [{"a": i % 7} for i in range(50_000)]}


@pytest.fixture
def reduced_work_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the work limit, so that tests that reach it take a quarter of the time."""
    monkeypatch.setattr(limits, "MAX_WORK", limits.MAX_WORK // 4)


def failure(source: str, **names: Any) -> str:
    """The error message of checking or rendering the template; empty if it renders."""
    problems = Problems()
    template = compile_string(Text.of(source), problems)
    message = ""
    if template is None:
        message = next(iter(problems)).message
    else:
        try:
            template.render({**NAMES, **names})
        except RenderError as error:
            message = error.problem.message
    return message


@pytest.mark.slow
@pytest.mark.usefixtures("reduced_work_limit")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ 9**9**9 }}", "`**` is not supported"),
        ("{{ 'x' * 1000000000 }}", "`*` cannot take a text and a number"),
        ("{{ [1] * 1000000000 }}", "`*` cannot take a list and a number"),
        ("{% set a = 999999999 %}" + "{% set a = a * a %}" * 40, "the number is too large"),
        ("{{ 1e18 * 10 }}", "the number is too large"),
        ("{{ range(1000000000) }}", WORK),
        ("{{ '%999999999d' | format(1) }}", "is not a valid format"),
        ("{{ '%.999999999f' | format(1) }}", "is not a valid format"),
        ("{{ '%*d' | format(9999999, 1) }}", "is not a valid format"),
        ("{% set a = 'xxxxxxxx' %}" + "{% set a = a ~ a %}" * 40, "longer than 1,000,000 characters"),
        ("{% set a = 'xxxxxxxx' %}" + "{% set a = a + a %}" * 40, "longer than 1,000,000 characters"),
        ("{% set a = 'xxxxxxxx' %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40, "longer than 1,000,000 characters"),
        ("{% set a = 'xxxxxxxx' %}" + "{% set a = [a, a] | join %}" * 40, "longer than 1,000,000 characters"),
        ("{% set a = 'xxxxxxxx' %}" + "{% set a = '%s%s' | format(a, a) %}" * 40, "longer than 1,000,000 characters"),
        ("{% set a = 'xxxxxxxx' %}" + "{% set a = a | replace('x', a) %}" * 10, "longer than 1,000,000 characters"),
        ("{% set a = 'xxxxxxxx' %}" + "{% set a = a | replace('', a) %}" * 10, "longer than 1,000,000 characters"),
        ("{{ range(9999) | join('\n') | indent(999999) }}", "longer than 1,000,000 characters"),
        ("{% set a = [1, 2] %}" + "{% set a = a + a %}" * 40, WORK),
        ("{% set a = [1, 2] %}" + "{% set a = [a, a] | sum(start=[]) %}" * 40, WORK),
        (f"{TWINS}{{{{ a }}}}", WORK),
        (f"{TWINS}{{{{ a | tojson }}}}", WORK),
        (f"{TWINS}{{{{ a | map('string') }}}}", WORK),
        (f"{TWINS}{{{{ [a, b] | unique }}}}", WORK),
        (f"{TWINS}{{{{ a == b }}}}", WORK),
        (f"{TWINS}{{{{ a in [b] }}}}", WORK),
        (f"{TWINS}{{{{ [a, b] | sort }}}}", WORK),
        (f"{TWINS}{{{{ [a, b] | max }}}}", WORK),
        (f"{TWINS}{{{{ [a, b] | select('eq', a) }}}}", WORK),
        ("{% set a = {} %}" + "{% set a = {'a': a, 'b': a} %}" * 40 + "{{ a }}", WORK),
        ("{{ items | map('string') | dedupe(0.9) }}", WORK),
        ("{{ matches(big, ['(a+)+$']) }}", ""),
        ("{{ matches(big, ['(?:(?:a{1000}){1000}){1000}']) }}", "invalid repetition size"),
        ("{{ matches(big, ['(?:a?){10}a*b']) }}", ""),
        ("{{ matches(big, ['" + "a?" * 30 + "b']) }}", ""),
        ("{{ matches(big, ['((a?){10}){10}b']) }}", ""),
        ("{{ matches(big, ['(a|aa){10}(a|aa){10}b']) }}", ""),
        ("{{ matches(big, ['a{5000}']) }}", ""),
    ],
)
def test_an_oversized_result_is_rejected_before_it_is_built(source: str, message: str) -> None:
    assert message in failure(source)


@pytest.mark.slow
@pytest.mark.usefixtures("reduced_work_limit")
@pytest.mark.parametrize(
    "body",
    [
        "{% for b in range(20000) %}x{% endfor %}",
        "{% for b in range(20000) if false %}x{% endfor %}",
        "{% for b in range(20000) %}{{ loop.length }}{% endfor %}",
        "{{ big }}",
        "{% set c %}{{ big }}{{ big }}{% endset %}",
        "{{ items | sort | length }}",
        "{{ records | groupby('a') | length }}",
        "{{ records | map(attribute='" + "a." * 100 + "') | length }}",
        "{{ items | select('in', items) | length }}",
        "{{ overlap(big ~ a, big) }}",
        "{{ (big ~ a) | clip(10) }}",
        "{{ big | title | length }}",
        "{{ (big ~ a) | untrusted | length }}",
        "{{ section(big, 'x') | length }}",
        "{{ items[1:][0] }}",
        "{{ 'aab' in big }}",
        "{{ items | tojson | length }}",
        "{{ (big ~ a) | wordcount }}",
    ],
)
def test_a_loop_stops_at_the_work_limit(body: str) -> None:
    message = failure("{% for a in range(20000) %}" + body + "{% endfor %}")
    assert message in (
        WORK,
        "the text would be longer than 1,000,000 characters",
    )


@pytest.mark.slow
@pytest.mark.usefixtures("reduced_work_limit")
def test_nested_templates_share_one_work_limit() -> None:
    inner = compile_string(Text.of("{% for b in range(1000) %}{% endfor %}x"), Problems())
    assert inner is not None
    assert inner.render({}) == "x"
    message = failure("{% for a in range(1000) %}{{ others(a) }}{% endfor %}", others=lambda _step: inner.render({}))
    assert message == WORK


@pytest.mark.slow
@pytest.mark.usefixtures("reduced_work_limit")
def test_each_render_has_its_own_work_limit() -> None:
    template = compile_string(Text.of("{% for a in range(25000) %}{% endfor %}x"), Problems())
    assert template is not None
    assert [template.render({}) for _ in range(3)] == ["x"] * 3


@pytest.mark.parametrize(
    "source",
    [
        "{{ x" + ".a" * 5000 + " }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "[" * 5000 + "]" * 5000 + " }}",
        "{{ " + "-" * 5000 + "1 }}",
        "{{ " + "not " * 5000 + "1 }}",
        "{{ 1" + " + 1" * 5000 + " }}",
        "{{ 1" + " and 1" * 5000 + " }}",
        "{{ x" + " | string" * 5000 + " }}",
        "{{ " + "1 if x else " * 5000 + "2 }}",
        "{% if 1 %}" * 500 + "{% endif %}" * 500,
    ],
)
def test_deep_nesting_is_a_problem_and_not_a_crash(source: str) -> None:
    assert "deep" in failure(source) or "inside one another" in failure(source)


@pytest.mark.parametrize(
    "shape",
    ["(1 if ({}) else 2)", "('a' ~ ({}) ~ 'b')", "(x | default({}))", "(1 < 2 < ({}))", "[{}]", "{{'a': {}}}", "x[{}]",
     "items[{}:]", "(1 + ({}))", "-({})", "not ({})", "(1 is eq({}))", "tokens({})", "({}).a", "(0 or ({}))"],
)  # fmt: skip
@given(st.integers(1, 45))
def test_an_expression_that_passes_the_check_compiles(shape: str, depth: int) -> None:
    expression = "1"
    for _ in range(depth):
        expression = shape.format(expression)
    template = compile_string(Text.of(f"{{{{ {expression} }}}}"), Problems())
    if template is not None:
        try:
            template.render({"x": {}, "items": [1]})
        except RenderError as error:
            assert "not a number" in error.message  # noqa: PT017


def test_twelve_nested_loops_compile() -> None:
    source = "{% for a in x if a != 2 %}{{ loop.index }}" * 12 + "{% else %}none{% endfor %}" * 12
    assert failure(source, x=[1]) == ""


def test_a_text_with_tags_has_a_maximum_length() -> None:
    assert "at most 100,000 characters" in failure("{{ x }}" * 20_000)
    assert failure("x" * 200_000) == ""


@pytest.mark.parametrize("pattern", [r"\w+@", r"\w*\w*\w*@", "a*a*a*a*b", ".*.*=", "a{1,999}a{1,999}b"])
def test_a_pattern_search_ends_on_its_worst_text(pattern: str) -> None:
    failure("{{ matches(big, [p]) }}", p=pattern)
    failure("{{ matches(big[:9000], {'name': [p, p, p]}) }}", p=pattern)
