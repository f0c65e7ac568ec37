"""Errors in templates are reported in the author's terms, at their position in the file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import nodes

from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.source import Scalar, Source, Text
from skillrun.syntax.yaml import parse_yaml
from skillrun.templates.expressions import RenderError, compile_condition, compile_string
from skillrun.templates.vocabulary import FILTERS, FUNCTIONS


def find_problem(value: str, bare: bool = False) -> Problem:
    problems = Problems()
    template = compile_condition(Text.of(value), problems) if bare else compile_string(Text.of(value), problems)
    assert template is None
    assert len(problems) == 1, list(problems)
    return next(iter(problems))


@pytest.mark.parametrize(
    ("source", "column", "message", "hint"),
    [
        ("a {{ b", 3, "`{{` is never closed", "{% raw %}"),
        ("a {% if b", 3, "`{% if` is never closed", "close it"),
        ("a {# b", 3, "`{#` is never closed", "{% raw %}"),
        ("a {% raw %} b", 3, "`{% raw` is never closed", "{% endraw %}"),
        ("a {% if b %} {{ c }}", 3, "`{% if` is never closed", "close it"),
        ("{% for a in b %}{% if c %}{% endfor %}", 30, "no tag `endfor` here", "`{% if %}` is open"),
        ("{% if a %}{% endif %}{% endif %}", 25, "no tag `endif` here", "allowed: for, if"),
        ("{% else %}", 4, "no tag `else` here", "allowed: for, if"),
        ("{{ a b }}", 6, "expected token '}}', got 'b'", ""),
        ("{{ a. }}", 7, "expected name or number", ""),
        ("{{ }}", 4, "Expected an expression, got '}}'", ""),
        ("{{ a + }}", 8, "unexpected '}}'", ""),
        ("{{ a and }}", 10, "unexpected '}}'", ""),
        ("{{ f(a }}", 8, "unexpected '}', expected ')'", ""),
        ("{{ [a }}", 7, "unexpected '}', expected ']'", ""),
        ("{{ a) }}", 5, "unexpected ')'", ""),
        ("{{ a && b }}", 6, "unexpected char '&'", "write `and`"),
        ("{{ “a” }}", 4, "unexpected char '“'", "straight quotes"),
        ("{{ 'a }}", 4, "unexpected char", "close the quotes"),
        ("{{ 99999999999999999999 }}", 4, "too large", ""),
        ("{{ 1e99 }}", 4, "too large", ""),
        ("{% for a b %}{% endfor %}", 10, "expected token 'in', got 'b'", ""),
        ("{% set a %}x", 1, "`{% set` is never closed", "close it"),
        ("{{ ² }}", 4, "Invalid character in identifier", ""),
    ],
)
def test_a_syntax_error_is_reported_at_its_place(source: str, column: int, message: str, hint: str) -> None:
    problem = find_problem(source)
    assert (problem.code, problem.column) == ("refused" if "large" in message else "syntax", column)
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("source", "column", "code", "message", "hint"),
    [
        ("{{ a | lenght }}", 8, "unknown-filter", "no filter `lenght`", "`length`"),
        ("{{ a | others }}", 8, "unknown-filter", "no filter `others`", "write `others(step)`"),
        ("{{ a | map('uper') }}", 12, "unknown-filter", "no filter `uper`", "`upper`"),
        ("{{ a | map(b) }}", 12, "unknown-filter", "no filter `…`", "allowed"),
        ("{{ a | select('evn') }}", 15, "unknown-test", "no test `evn`", "`even`"),
        ("{{ a | selectattr('x', 'equals', 3) }}", 24, "unknown-test", "no test `equals`", "`equalto`"),
        ("{{ a is stringy }}", 9, "unknown-test", "no test `stringy`", "`string`"),
        ("{{ a is not  stringy }}", 14, "unknown-test", "no test `stringy`", "`string`"),
        ("{{ a is undefined }}", 9, "unknown-test", "no test `undefined`", "`defined`"),
        ("{{ matchs(a, b) }}", 4, "unknown-function", "no function `matchs`", "`matches`"),
        ("{{ upper(a) }}", 4, "unknown-function", "no function `upper`", "write `x | upper`"),
        ("{{ a.b.upper() }}", 8, "unknown-function", "no function `upper`", "write `x | upper`"),
        ("{{ a[0]() }}", 5, "unknown-function", "no function `…`", "allowed"),
        ("{{ clip(a) }}", 4, "arguments", "missing a required argument: 'n'", "clip(text, n)"),
        ("{{ a | clip }}", 8, "arguments", "missing a required argument: 'n'", "x | clip(n)"),
        ("{{ a | upper(1) }}", 8, "arguments", "too many positional arguments", "x | upper"),
        ("{{ a | join(by=',') }}", 8, "arguments", "unexpected keyword argument 'by'", "join(d, attribute)"),
        ("{{ bank('a') }}", 4, "arguments", "missing a required argument: 'group'", "bank(name, group, n)"),
        ("{{ others }}", 4, "refused", "`others` is a function", "others(step)"),
        ("{{ 2 ** 3 }}", 4, "refused", "`**` is not supported", ""),
        ("{{ slug(*a) }}", 4, "refused", "cannot be spread", ""),
        ("{% set top = 1 %}", 8, "reserved-name", "`top`", "another name"),
        ("{% for section in a %}{% endfor %}", 8, "reserved-name", "`section`", "another name"),
        ("{% for a, loop in b %}{% endfor %}", 11, "reserved-name", "`loop`", "another name"),
        ("{% set a.b = 1 %}", 8, "refused", "`a.b =` is not supported", ""),
        ("{% for a in b %}{{ loop.cycle }}{% endfor %}", 25, "unknown-field", "no `cycle`", "allowed"),
        ("{% for a in b recursive %}{{ loop(a) }}{% endfor %}", 30, "unknown-function", "no function `loop`", ""),
    ],
)  # fmt: skip
def test_an_unsupported_feature_is_reported(source: str, column: int, code: str, message: str, hint: str) -> None:
    problem = find_problem(source)
    assert (problem.code, problem.column) == (code, column)
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    "tag", ["macro f()", "call f()", "import 'a' as b", "from 'a' import b", "include 'a'", "extends 'a'", "block a",
            "autoescape true", "with a = 1", "filter upper", "print a", "do a"],
)  # fmt: skip
def test_other_jinja_tags_do_not_exist(tag: str) -> None:
    name = tag.partition(" ")[0]
    problem = find_problem(f"text {{% {tag} %}}")
    assert (problem.message, problem.column) == (f"there is no tag `{name}` here", 9)


@pytest.mark.parametrize("name", ["lipsum", "cycler", "joiner", "namespace", "dict", "super", "caller"])
def test_other_jinja_functions_do_not_exist(name: str) -> None:
    assert find_problem(f"{{{{ {name}() }}}}").message == f"there is no function `{name}`"


@pytest.mark.parametrize(
    ("source", "column", "message"),
    [
        ("{{ a }}", 1, "a condition is written without braces"),
        ("  {% if a %}", 3, "a condition is written without braces"),
        ("a b", 3, "expected token 'the end', got 'b'"),
        ("a, b", 2, "expected token 'the end', got ','"),
        ("", 1, "unexpected 'the end'"),
        ("a and", 3, "unexpected 'the end'"),
        ("a }}", 3, "expected token 'the end', got '}}'"),
        ("a = 3", 3, "`=` compares nothing"),
    ],
)
def test_an_invalid_condition_is_reported(source: str, column: int, message: str) -> None:
    problem = find_problem(source, bare=True)
    assert (problem.column, problem.message) == (column, message)


def test_all_problems_of_a_text_are_reported_at_once() -> None:
    problems = Problems()
    assert compile_string(Text.of("{{ a | nope }}\n{{ b | nix }} {{ c is nie }}"), problems) is None
    assert [(problem.line, problem.column) for problem in problems] == [(1, 8), (2, 8), (2, 23)]


@pytest.mark.parametrize(
    ("source", "place", "message"),
    [
        ("{{ a }}\n  {{ a ~ (a + 'x') }}", (2, 11), "`+` cannot take a number and a text"),
        ("x\n{{ a < 'x' }}.", (2, 4), "a number cannot be compared with a text"),
        ("x {{ 1 }}\n\n{% for b in a %}{% endfor %}", (3, 4), "a number is not a list"),
        ("{% for b in c if b > 'x' %}{% endfor %}", (1, 18), "a number cannot be compared with a text"),
        ("{% for b, d in c %}{% endfor %}", (1, 4), "a number is not a list"),
        ("é {{ 'é' }} {{ a / 0 }}", (1, 16), "division by zero"),
        ("{{ a | join }}", (1, 8), "a number is not a list"),
        ("{{ a in 3 }}", (1, 4), "a number is not a list"),
        ("{{ {a: 1}[[1]] }}", (1, 10), "a list cannot be a key"),
        ("{{ {[a]: 1} }}", (1, 4), "unhashable"),
        ("{{ a | selectattr('x') }}", (1, 8), "a number is not a list"),
        ("{{ c | sort(attribute=[]) }}", (1, 8), "a list is not the name of a field"),
        ("{{ (c + ['x']) | sort }}", (1, 18), "a number and a text cannot be sorted together"),
        ("{% if a %}\n{{ c[::0] }}\n{% endif %}", (2, 5), "step 0"),
        ("{{ range(1, 2, 0) }}", (1, 4), "must not be zero"),
        ("{{ clip('a', 'b') }}", (1, 4), "a text is not a number"),
        ("{{ 'a' | matches(['(']) }}", (1, 10), "not a regular expression"),
        ("{{ 'a' | convergence(3) }}", (1, 10), "must be a mapping, not a number"),
        ("{{ ['b a'] | convergence({}) }}x", (1, 14), "absent"),
        ("{{ ['b', 'c'] | convergence({}) }}", (1, 17), "lack"),
    ],
)
def test_a_render_error_has_its_place(source: str, place: tuple[int, int], message: str) -> None:
    template = compile_string(Text.of(source), Problems())
    assert template is not None
    with pytest.raises(RenderError) as caught:
        template.render({"a": 1, "c": [1]})
    problem = caught.value.problem
    assert message in problem.message
    assert (problem.line, problem.column) == place
    assert problem.source_line == source.split("\n")[place[0] - 1]
    assert str(caught.value).startswith(f"<text>:{place[0]}:{place[1]}: ")


STYLES = {
    "plain": "key:\n  - before {X} after\n",
    "plain over lines": "key:\n  - before\n    and {X}\n    after\n",
    "single": "key:\n  - 'it''s {X} after'\n",
    "double": 'key:\n  - "a \\u00e9 \\" {X} \\\n    after"\n',
    "literal": "key:\n  - |\n    first é\n      {X}\n    after\n",
    "folded": "key:\n  - >-\n    first\n    second\n\n    third {X}\n    after\n",
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("tag", "name"),
    [("{{ x | nofilter }}", "nofilter"), ("{{ nofunction(x) }}", "nofunction"), ("{{ x is notest }}", "notest")],
)
def test_places_refer_to_the_file_in_every_yaml_style(style: str, tag: str, name: str) -> None:
    file = Source.of(STYLES[style].replace("{X}", tag))
    problems = Problems()
    node = parse_yaml(file, 0, len(file.text), problems)
    scalar = node.get("key").items[0]  # type: ignore[union-attr]
    assert isinstance(scalar, Scalar)
    assert scalar.text is not None
    assert compile_string(scalar.text, problems) is None
    (problem,) = problems
    line = file.text.split("\n")[problem.line - 1]
    assert line[problem.column - 1 :].startswith(name)


@given(
    st.lists(
        st.sampled_from(
            [
                "text ",
                "\n",
                "é",
                "{{ a.b }}",
                "{% if a %}{% endif %}",
                "{# x #}",
                "{{- 'é' -}}",
                "\r\n",
                "{% raw %}{{{% endraw %}",
            ]
        )
    )
)
def test_every_name_has_its_place_in_the_text(parts: list[str]) -> None:
    text = "".join(parts) + "{{ wanted }}"
    template = compile_string(Text.of(text), Problems())
    assert template is not None
    (node,) = [node for node in template.tree.find_all(nodes.Name) if node.name == "wanted"]
    assert text[template.span(node).offset :].startswith("wanted")


def test_every_function_except_range_and_zip_is_also_a_filter() -> None:
    assert set(FUNCTIONS) - set(FILTERS) == {"range", "zip"}


def test_bank_can_be_called_without_a_number() -> None:
    problems = Problems()
    assert compile_string(Text.of("{{ bank('trip/questions', 'weather') }}"), problems) is not None
    assert list(problems) == []
