"""Parses a template into Jinja's tree, in which the `lineno` of a node is the node's offset in the text.

This module does not evaluate the tree. `validation` checks which names the template may call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import TokenStream
from jinja2.parser import Parser

from skillrun.syntax.diagnostics import allowed_hint
from skillrun.templates.limits import MAX_TEMPLATE, TemplateError

TAGS: Final = ("for", "if", "set")
_ENVIRONMENT: Final = Environment()  # noqa: S701  # only parses; produces no HTML


def parse_template(source: str, bare: bool) -> nodes.Template:
    """Return the tree of a template. A bare expression becomes the only output of its tree. Raises TemplateError."""
    if len(source) > MAX_TEMPLATE:
        raise TemplateError(f"a template has at most {MAX_TEMPLATE:,} characters", "split it into several", 0)
    reader = _TemplateParser(source)
    try:
        reader.start("variable" if bare else None)
        if not bare:
            return nodes.Template(reader.subparse(), lineno=0)
        expression = reader.parse_expression()
        reader.stream.expect("eof")
        return nodes.Template([nodes.Output([expression], lineno=0)], lineno=0)
    except TemplateSyntaxError as error:
        raise _explain_error(error, reader, bare) from None
    except RecursionError:
        raise TemplateError("the expressions are nested too deeply", "use `set` for a part of them", 0) from None


def _explain_error(error: TemplateSyntaxError, reader: _TemplateParser, bare: bool) -> TemplateError:
    """Return the error with Jinja's message in the notation that authors use, and with the offset from the parser."""
    message, at, source = str(error.message), min(error.lineno, len(reader.source)), reader.source
    if not bare and re.search(r"nexpected end of template|'end of template'|Missing end", message):
        at = reader.open_tags[-2 if message.startswith("U") else -1]
        opened = _OPENING.match(source, at)
        return TemplateError(f"`{opened[0] if opened else message}` is never closed", _BRACES, at)
    if source[at : at + 1] == "=" and source[at : at + 2] != "==":
        return TemplateError("`=` compares nothing", "write `==`", at)
    for word, sign in _WORDS.items():
        message = message.replace(word, sign)
    return TemplateError(message, _SIGN_HINTS.get(source[at : at + 1], ""), at)


class _TemplateParser(Parser):
    """Jinja's parser, limited to the tags in TAGS, with an offset in place of each line number."""

    def __init__(self, source: str) -> None:
        super().__init__(_ENVIRONMENT, "")
        self.source = source
        self.open_tags = [0]  # offsets of the statements that are still open, then of the tag being parsed

    def start(self, state: str | None) -> None:
        self.stream = TokenStream(_ENVIRONMENT.lexer.wrap(self._tokens(state)), None, None)

    def _tokens(self, state: str | None) -> Iterator[tuple[int, str, str]]:
        """Yield the tokens of Jinja's lexer with their offsets. A `\\` in quotes that escapes nothing is kept."""
        at = 0
        try:
            for _, sort, value in _ENVIRONMENT.lexer.tokeniter(self.source, None, None, state):
                at = self.source.index(value, at)
                if sort.endswith("_begin"):
                    self.open_tags[-1:] = [at]
                # the first digits of an overlong number are enough to reject it
                yield at, sort, _ESCAPE.sub(_escape, value) if sort == "string" else value[: _LENGTHS.get(sort)]
                at += len(value)
        except TemplateSyntaxError as error:
            raise TemplateSyntaxError(str(error.message).removesuffix(f" at {at}"), at) from None

    def parse_statement(self) -> nodes.Node | list[nodes.Node]:
        token = self.stream.current
        if token.value not in TAGS:
            within = f"; `{{% {self._tag_stack[-1]} %}}` is open" if self._tag_stack else ""
            raise TemplateError(
                f"there is no tag `{token.value}` here", allowed_hint([*TAGS, "raw"]) + within, token.lineno
            )
        self.open_tags.append(self.open_tags[-1])
        statement = super().parse_statement()
        self.open_tags.pop()
        return statement

    def parse_subscript(self, node: nodes.Expr) -> nodes.Getattr | nodes.Getitem:
        """Parse `.name` or `[key]`. The node of `.name` has the offset of the name, not of the dot."""
        if self.stream.current.type == "dot" and self.stream.look().type == "name":
            next(self.stream)
            name = next(self.stream)
            return nodes.Getattr(node, name.value, "load", lineno=name.lineno)
        return super().parse_subscript(node)

    def parse_test(self, node: nodes.Expr) -> nodes.Expr:
        """Parse a test. Its node has the offset of the test's name, not of the `is`."""
        name = _TEST.match(self.source, self.stream.current.lineno)
        test = super().parse_test(node)
        (test.node if isinstance(test, nodes.Not) else test).lineno = name.end() if name else node.lineno
        return test


def _escape(match: re.Match[str]) -> str:
    return match[0] if match[1] else r"\\"


_ESCAPE: Final = re.compile(r"\\([nt\\'\"xu])?")
_LENGTHS: Final = {"integer": 40, "float": 40}
_TEST: Final = re.compile(r"is\s+(?:not\s+)?")
_OPENING: Final = re.compile(r"\{%[-+]?\s*\w*|\{.")
_BRACES: Final = "close it; to write braces as text, put them between `{% raw %}` and `{% endraw %}`"
_WORDS: Final = {
    "end of print statement": "}}",
    "end of statement block": "%}",
    "begin of print statement": "{{",
    "begin of statement block": "{%",
    "end of template": "the end",
}
_SIGN_HINTS: Final = {
    **dict.fromkeys("'\"", "close the quotes"),
    "&": "write `and`",
    "!": "write `not x`, or `x != y`",
    "?": "write `a if condition else b`",
    "`": "put text between quotes",
    **dict.fromkeys("“”‘’„«»", "put text between straight quotes"),
}
