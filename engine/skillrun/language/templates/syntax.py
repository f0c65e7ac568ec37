"""Reads the text of a template into Jinja's tree, and says in an author's words what cannot be read.

In these trees a node's `lineno` is its offset in the text. Evaluates nothing; what may be called is `vetting`'s.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import TokenStream
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from skillrun.language.diagnostics import allowed, did_you_mean
from skillrun.language.templates.limits import MAX_TEMPLATE
from skillrun.language.templates.tokens import Misread, tokens, tokens_inside

MAX_TAGS: Final = 12  # tags inside one another
TAGS: Final = ("for", "if", "set")
_CLOSING: Final = {"endfor": "for", "endif": "if", "endset": "set", "elif": "if", "else": "if"}


class SyntaxEnvironment(ImmutableSandboxedEnvironment):
    """Gives the parser tokens that carry offsets."""

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        return TokenStream(tokens_inside(source) if state else tokens(source), name, filename)


def read(environment: SyntaxEnvironment, source: str, bare: bool) -> nodes.Template:
    """The tree of a template, or of a bare expression as its only output. Raises Misread."""
    if len(source) > MAX_TEMPLATE:
        raise Misread(0, f"a text with tags has at most {MAX_TEMPLATE:,} characters", "split it into several")
    try:
        reader = _Reader(environment, source, state="variable" if bare else None)
        return nodes.Template([nodes.Output([reader.condition()], lineno=0)] if bare else reader.subparse(), lineno=0)
    except TemplateSyntaxError as error:
        raise Misread(error.lineno, *_explained(error.message or "", bare)) from None
    except RecursionError:
        raise Misread(0, "the expressions are too deep inside one another", "use `set` for a part of them") from None


class _Reader(Parser):
    """Jinja's parser with better places, and with messages for what templates do not have."""

    def __init__(self, environment: SyntaxEnvironment, source: str, state: str | None) -> None:
        super().__init__(environment, source, state=state)
        self._source = source
        self._open: list[tuple[str, int]] = []

    def condition(self) -> nodes.Expr:
        found = self.parse_expression()
        if not self.stream.eos:
            self.fail(f"expected token 'end of print statement', got {str(self.stream.current)!r}")
        return found

    def parse_statement(self) -> nodes.Node | list[nodes.Node]:
        token = self.stream.current
        if token.type == "name" and token.value not in TAGS:
            self._refuse(token.value, token.lineno)
        if len(self._open) >= MAX_TAGS:
            raise Misread(token.lineno, f"more than {MAX_TAGS} tags stand inside one another")
        self._open.append((token.value, token.lineno))
        found = super().parse_statement()
        self._open.pop()
        return found

    def parse_subscript(self, node: nodes.Expr) -> nodes.Getattr | nodes.Getitem:
        """A name after a dot stands where the name is, not the dot."""
        if self.stream.current.type == "dot" and self.stream.look().type == "name":
            next(self.stream)
            name = next(self.stream)
            return nodes.Getattr(node, name.value, "load", lineno=name.lineno)
        return super().parse_subscript(node)

    def parse_test(self, node: nodes.Expr) -> nodes.Expr:
        """A test stands where its name is, not the `is`."""
        name = _TEST.match(self._source, self.stream.current.lineno)
        found = super().parse_test(node)
        test = found.node if isinstance(found, nodes.Not) else found
        test.lineno = name.end() if name else node.lineno
        return found

    def parse_tuple(self, *arguments: Any, **options: Any) -> nodes.Tuple | nodes.Expr:
        """Several expressions stand where they begin."""
        place = self.stream.current.lineno
        found = super().parse_tuple(*arguments, **options)
        if isinstance(found, nodes.Tuple):
            found.lineno = place
        return found

    def parse_compare(self) -> nodes.Expr:
        """A comparison stands where it begins."""
        place = self.stream.current.lineno
        found = super().parse_compare()
        if isinstance(found, nodes.Compare):
            found.lineno = place
            for operand in found.ops:
                operand.lineno = operand.expr.lineno
        return found

    def _fail_ut_eof(self, *_: object) -> NoReturn:
        """The text ended while a tag was open."""
        opened, place = self._open[-1]
        raise Misread(place, f"`{{% {opened} %}}` is never closed", f"close it with `{{% end{opened} %}}`")

    def _refuse(self, tag: str, place: int) -> NoReturn:
        if tag in _CLOSING and self._open:
            opened, _ = self._open[-1]
            message = f"`{{% {tag} %}}` stands inside `{{% {opened} %}}`"
            raise Misread(place, message, f"`{{% end{opened} %}}` is missing before it")
        if tag in _CLOSING:
            raise Misread(place, f"`{{% {tag} %}}` closes nothing", f"`{{% {_CLOSING[tag]} … %}}` is missing before it")
        known = (*TAGS, "raw")
        raise Misread(place, f"there is no tag `{tag}`", did_you_mean(tag, [*known, *_CLOSING]) or allowed(known))


_TEST: Final = re.compile(r"is\s+(?:not\s+)?")
_GOT: Final = re.compile(r"expected token '(.*)', got '(.*)'\Z", re.DOTALL)
_ENDS: Final = {"end of print statement": "}}", "end of statement block": "%}"}
_NOUNS: Final = {"begin of print statement": "{{", "begin of statement block": "{%", "end of template": "the end"}


def _explained(message: str, bare: bool) -> tuple[str, str]:
    """Jinja's message in an author's words, and a hint."""
    if found := _GOT.match(message):
        expected, got = (_ENDS.get(part) or _NOUNS.get(part, part) for part in found.groups())
        if found[1] not in _ENDS:
            return f"`{got}` stands where `{expected}` is expected", ""
        if bare:
            return f"`{got}` cannot stand here", "a condition is one expression; join two with `and` or `or`"
        return f"`{got}` cannot stand here", f"a `{expected}` or an operator is missing before it"
    if message.startswith(("Expected an expression", "unexpected 'end of", "unexpected end of")):
        return "an expression is missing here", ""
    return message[:1].lower() + message[1:].rstrip("."), ""
