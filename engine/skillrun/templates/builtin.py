"""What an entry of the vocabulary says of a filter or function, and what a rule for its result may ask the checker.

The entries themselves are in `vocabulary`; the rules that they name are in `gives`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from jinja2 import nodes

from skillrun.syntax.diagnostics import Severity
from skillrun.types.types import ANY, Facts, Type

Use = Literal["both", "filter", "function"]
AcceptedInput = Literal["anything", "a list", "a list or text", "a text"]
REJECTED_KINDS: Final[dict[AcceptedInput, frozenset[str]]] = {
    "anything": frozenset(),
    "a list": frozenset({"text", "number", "boolean"}),  # a mapping stands for the list of its keys
    "a list or text": frozenset({"number", "boolean"}),
    "a text": frozenset(),  # anything else is searched as JSON
}
"""The kinds of values that are refused as the first one."""


class InferenceContext(Protocol):
    """The inference of one template, as far as rules ask it."""

    def infer(self, node: nodes.Node) -> Type:
        """The type of an expression."""
        ...

    def infer_filter_result(self, node: nodes.Filter, types: list[Type]) -> Type:
        """What a filter gives for values of these types."""
        ...

    def infer_attribute(self, node: nodes.Node, items: Type, path: str) -> Type:
        """The field at `path` of a list's items; one that they do not have is reported."""
        ...

    def report_comparison(self, node: nodes.Node, left: Type, sign: str, right: Type, name: str) -> None:
        """Report at `node`, which is `right`, a comparison that cannot hold."""
        ...

    def non_empty_facts(self, node: nodes.Node) -> Facts:
        """What has to be known so that the value of `node` is there and not empty."""
        ...

    def is_known_non_empty(self, node: nodes.Node) -> bool:
        """Whether that is known here."""
        ...

    def report(self, node: nodes.Node, code: str, message: str, hint: str = "", severity: Severity = "error") -> None:
        """Report a problem at an expression."""
        ...


Rule = Callable[[InferenceContext, nodes.Call | nodes.Filter, list[Type]], Type]
"""Makes the type of a result from those of the arguments; a filter's own value is the first of them."""


@dataclass(frozen=True)
class Builtin:
    """A filter, a function, or both: what it runs, what it takes, what it gives, and what the manual says of it.

    `runs` of one that `needs_run` has the parameters alone: the run hands in the function, among the names. `numbers`
    are the places and names of arguments that are numbers, `patterns` is the place of regular expressions; the value
    before the `|` counts as the first. `naming` is the place of an argument that names a filter or test. `written` and
    `line` are its row in the manual; one that is Jinja's stands there among the filters for a `group` of values.
    """

    function: Callable[..., Any]
    result_type: Type | Rule = ANY
    use: Use = "filter"
    accepts: AcceptedInput = "anything"
    number_arguments: tuple[int | str, ...] = ()
    pattern_argument: int | None = None
    name_argument: tuple[Literal["filter", "test"], int] | None = None
    needs_run: bool = False
    usages: tuple[str, ...] = ()
    description: str = ""
    group: str = ""

    def infer_result(self, context: InferenceContext, node: nodes.Call | nodes.Filter, types: list[Type]) -> Type:
        """The type of what it gives for arguments of these types."""
        return self.result_type if isinstance(self.result_type, Type) else self.result_type(context, node, types)

    @property
    def manual_row(self) -> str:
        """Its row in the manual's table of what the project adds."""
        cells = (", ".join(f"`{form}`" for form in self.usages), self.use, self.description)
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
