"""Parses a template into Jinja's tree, and checks it. The `lineno` of a node is the node's offset in the text.

The check reports unsupported constructs. It also reports filters, functions and tests that do not exist or do not
accept their arguments. It does not check whether variables exist.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import TokenStream
from jinja2.parser import Parser

from skillrun.syntax.diagnostics import allowed_hint, did_you_mean
from skillrun.templates.filters import ARGUMENT_TESTS, TESTS
from skillrun.templates.interpreter import EXPRESSIONS, LOOP_FIELDS, STATEMENTS, error_offset
from skillrun.templates.limits import MAX_TEMPLATE, TemplateError
from skillrun.templates.vocabulary import BUILTINS, CONTEXT_FUNCTIONS, FILTERS, FUNCTIONS, PYTHON_EQUIVALENTS
from skillrun.types.records import MAX_NUMBER

TAGS: Final = ("for", "if", "set")
_ENVIRONMENT: Final = Environment()  # noqa: S701  # only parses; produces no HTML


def parse_template(source: str, bare: bool) -> nodes.Template:
    """Return the tree of a template. A bare expression becomes the only output of its tree. Raises TemplateError."""
    if len(source) > MAX_TEMPLATE:
        raise TemplateError(f"a template has at most {MAX_TEMPLATE:,} characters", "split it into several", 0)
    reader = _TemplateParser(source)
    try:
        tokens = reader.tokens("variable" if bare else None)
        reader.stream = TokenStream(_ENVIRONMENT.lexer.wrap(tokens), None, None)
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
    """Convert an error of Jinja. The message uses the notation of authors, and the offset comes from the parser."""
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
    """Jinja's parser, limited to the tags in TAGS. Nodes have offsets instead of line numbers."""

    def __init__(self, source: str) -> None:
        super().__init__(_ENVIRONMENT, "")
        self.source = source
        self.open_tags = [0]  # offsets of the statements that are still open, then of the tag being parsed

    def tokens(self, state: str | None) -> Iterator[tuple[int, str, str]]:
        """Yield the tokens of Jinja's lexer with their offsets. In quotes, a `\\` that escapes nothing is kept."""
        at = 0
        try:
            for _, sort, value in _ENVIRONMENT.lexer.tokeniter(self.source, None, None, state):
                at = self.source.index(value, at)
                if sort.endswith("_begin"):
                    self.open_tags[-1:] = [at]
                if sort == "string":
                    written = _ESCAPE.sub(lambda match: match[0] if match[1] else r"\\", value)
                else:
                    written = value[: _LENGTHS.get(sort)]  # the first digits of an overlong number suffice to reject it
                yield at, sort, written
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


# Checks

MAX_DEPTH: Final = 50  # nested tags and expressions
RESERVED: Final = frozenset({*FUNCTIONS, *CONTEXT_FUNCTIONS, "loop"})
_CALLABLES: Final[dict[type[nodes.Node], tuple[str, Mapping[str, Any], str]]] = {
    nodes.Call: ("function", {**FUNCTIONS, **CONTEXT_FUNCTIONS}, ""),
    nodes.Filter: ("filter", FILTERS, "x | "),
    nodes.Test: ("test", TESTS, "x is "),
}
_PARTS: Final = (nodes.Template, nodes.TemplateData, nodes.Pair, nodes.Keyword, nodes.Operand, nodes.Slice)
_NODES: Final = frozenset({*STATEMENTS, *EXPRESSIONS, *_PARTS})

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

Report = Callable[[int, str, str, str], None]  # offset, code, message, hint


def check_template(node: nodes.Node, report: Report, depth: int = 0) -> None:
    """Report unsupported constructs and invalid calls in a tree."""
    if depth == MAX_DEPTH:
        return report(node.lineno, "too-deep", "the template is nested too deeply here", "use `set` for a part of it")
    match node:
        case nodes.Name(name=name) if name in RESERVED and node.ctx != "load":
            report(node.lineno, "reserved-name", f"`{name}` is reserved and cannot be set", "choose another name")
        case nodes.Name(name=name) if name in RESERVED and name != "loop":
            report(node.lineno, "refused", f"`{name}` is a function", f"write `{_usage(nodes.Call, name)}`")
        case nodes.Getattr(node=nodes.Name(name="loop"), attr=name) if name not in LOOP_FIELDS:
            hint = did_you_mean(name, LOOP_FIELDS) or allowed_hint(LOOP_FIELDS)
            report(node.lineno, "unknown-field", f"`loop` has no `{name}`", hint)
        case nodes.Const(value=int() | float() as number) if abs(number) > MAX_NUMBER:
            report(node.lineno, "refused", "the number is too large", "")
        case nodes.Const(value=str() as text) if _SURROGATE.search(text):
            hint = "write the character itself, or its escape with `\\U` and eight digits"
            report(node.lineno, "refused", "the text contains half of a surrogate pair, which is not a character", hint)
        case nodes.Call() | nodes.Filter() | nodes.Test():
            _check_call(node, report)
        case _ if type(node) not in _NODES:
            report(node.lineno, "refused", f"`{getattr(node, 'operator', 'a.b =')}` is not supported", "")
    function = isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name)
    for child in node.iter_child_nodes(exclude=("node",) if function else None):
        check_template(child, report, depth + 1)
    return None


def _check_call(node: nodes.Call | nodes.Filter | nodes.Test, report: Report) -> None:
    """Report a function, filter or test that does not exist or does not accept the arguments."""
    sort, known, before = _CALLABLES[type(node)]
    called = node.node if isinstance(node, nodes.Call) else node
    name = str(getattr(called, "name", None) or getattr(called, "attr", "…"))
    if name not in known or isinstance(called, nodes.Getattr):
        uses: Iterable[str] = (_usage(kind, name) for kind, (_, names, _) in _CALLABLES.items() if name in names)
        uses = [f"write `{use}`" for use in (PYTHON_EQUIVALENTS.get(name), *uses) if use]
        is_method = isinstance(called, nodes.Getattr) and name not in known
        others = "values have no methods; use a filter, as in `x | lower`" if is_method else ""
        hint = next(iter(uses), "") or others or did_you_mean(name, known) or allowed_hint(known)
        return report(error_offset(node), f"unknown-{sort}", f"there is no {sort} `{name}`", hint)
    if node.dyn_args or node.dyn_kwargs:
        return report(error_offset(node), "refused", "arguments cannot be spread with `*`", "write them one by one")
    misfit = _argument_error(
        type(node), name, len(node.args) + bool(before), tuple(option.key for option in node.kwargs)
    )
    if misfit:
        return report(error_offset(node), "arguments", f"`{name}`: {misfit}", f"write `{_usage(type(node), name)}`")
    naming = BUILTINS[name].name_argument if isinstance(node, nodes.Filter) else None
    if naming is not None and len(node.args) > naming[1]:
        sort, at = naming
        inner, names = getattr(node.args[at], "value", "…"), FILTERS if sort == "filter" else ARGUMENT_TESTS
        if inner not in names:
            hint = did_you_mean(str(inner), names) or allowed_hint(names)
            report(node.args[at].lineno, f"unknown-{sort}", f"there is no {sort} `{inner}`", hint)
    return None


@cache
def _argument_error(sort: type[nodes.Node], name: str, count: int, named: tuple[str, ...]) -> str:
    """Return why `count` positional arguments and the `named` arguments are invalid, or "" if they are valid."""
    try:
        inspect.signature(_CALLABLES[sort][1][name]).bind(*[None] * count, **dict.fromkeys(named))
    except TypeError as error:
        return str(error)
    return ""


def _usage(sort: type[nodes.Node], name: str) -> str:
    """Return an example of how to write a function, filter or test."""
    _, known, before = _CALLABLES[sort]
    names = list(inspect.signature(known[name]).parameters)[1 if before else 0 :]
    return before + name + (f"({', '.join(names)})" if names or not before else "")
