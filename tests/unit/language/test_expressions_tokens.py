"""The tokens of a template are those of Jinja's own lexer, each at its place."""

import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import Token

from skillrun.language.diagnostics import Problems
from skillrun.language.expressions import compile_string
from skillrun.language.source import Text
from skillrun.language.templates.tokens import Misread, tokens, tokens_inside

LEXER = Environment().lexer
SIGNS = [
    "+",
    "-",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "{{-",
    "-}}",
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
WORDS = ["text", " ", "\n", "raw", "name", "if", "é", "'a'", '"b"', "1", "2.5", "1_000", "3e2"]
TAGS = ["{% raw %}", "{%- raw -%}", "{% endraw %}", "{%- endraw -%}", "{{ x }}", "{% if x %}"]
PARTS = st.lists(st.sampled_from([*SIGNS, *WORDS, *TAGS]), max_size=12)


def outcome(read: Iterator[Token]) -> list[tuple[str, object]] | str:
    """Sorts and values, or why not; the value of a delimiter does not matter."""
    try:
        return [(one.type, "" if one.type.endswith(("_begin", "_end")) else one.value) for one in read]
    except Misread as error:
        return error.message
    except TemplateSyntaxError:
        return "refused"


@given(PARTS)
def test_the_tokens_are_jinjas(parts: list[str]) -> None:
    """Jinja leaves what is never closed to its parser."""
    source = "".join(parts)
    expected = outcome(LEXER.wrap(LEXER.tokeniter(source, None)))
    found = outcome(tokens(source))
    assert isinstance(found, str) if expected == "refused" else found == expected or "never closed" in found


@given(PARTS)
def test_each_token_stands_where_it_is_written(parts: list[str]) -> None:
    source = "".join(parts)
    with contextlib.suppress(Misread):
        for token in tokens(source):
            if token.type in ("name", "data", "dot", "lparen", "pipe"):
                assert source.startswith(token.value, token.lineno)


@given(PARTS)
def test_what_cannot_be_read_has_a_place_in_the_text(parts: list[str]) -> None:
    problems = Problems()
    text = Text.of("".join(parts))
    if compile_string(text, problems) is None:
        assert all(1 <= one.line <= text.value.count("\n") + 1 for one in problems)
        assert len(problems)


@pytest.mark.parametrize(
    ("written", "value"),
    [(r"'a\nb\t'", "a\nb\t"), (r"'\bauth\d\s'", r"\bauth\d\s"), (r"'it\'s \\'", "it's \\"), (r'"é\x41"', "éA")],
)
def test_an_escape_that_means_nothing_stays_as_it_is(written: str, value: str) -> None:
    assert [token.value for token in tokens_inside(written)] == [value]
