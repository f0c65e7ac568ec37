"""Every token of a template has its offset in the text, and an unknown escape is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import nodes

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Text
from skillrun.templates.expressions import compile_string

SIGNS = [
    "+",
    "-",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "{{-}}",
    "{%-",
    "-%}",
    "+%}",
    "-#}",
    "{%+",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "%",
    "#",
    ".",
    ",",
    "|",
    "==",
    "!=",
    "<=",
    "//",
    "**",
    "~",
    ":",
    "=",
]
WORDS = ["text", " ", "\n", "\r\n", "raw", "name", "if", "é", "'a'", '"b"', "1", "2.5", "1_000", "3e2", "'"]
TAGS = ["{% raw %}", "{%- raw -%}", "{% endraw %}", "{%- endraw -%}", "{{ x }}", "{% if x %}"]
PARTS = st.lists(st.sampled_from([*SIGNS, *WORDS, *TAGS]), max_size=12)


@given(PARTS)
def test_a_syntax_error_has_a_place_in_the_text(parts: list[str]) -> None:
    problems = Problems()
    text = Text.of("".join(parts))
    if compile_string(text, problems) is None:
        assert all(1 <= problem.line <= text.value.count("\n") + 1 for problem in problems)
        assert len(problems)


@given(PARTS)
def test_each_name_has_its_place_in_the_text(parts: list[str]) -> None:
    text = Text.of("".join(parts))
    template = compile_string(text, Problems())
    for node in template.tree.find_all(nodes.Name) if template else ():
        assert text.value.startswith(node.name, node.lineno)


@pytest.mark.parametrize(
    ("source", "value"),
    [(r"'a\nb\t'", "a\nb\t"), (r"'\bauth\d\s'", r"\bauth\d\s"), (r"'it\'s \\'", "it's \\"), (r'"é\x41"', "éA")],
)
def test_an_unknown_escape_is_kept(source: str, value: str) -> None:
    template = compile_string(Text.of(f"{{{{ {source} }}}}"), Problems())
    assert template is not None
    assert template.render({}) == value
