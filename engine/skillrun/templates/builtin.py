"""The class that defines a built-in filter or function, and the interface of the checker that result rules use.

`vocabulary` contains the definitions, and `return_types` contains the result rules.
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
    "a list": frozenset({"text", "number", "boolean"}),  # a mapping is used as the list of its keys
    "a list or text": frozenset({"number", "boolean"}),
    "a text": frozenset(),  # anything else is searched as JSON
}
"""The kinds of values that are rejected as the first argument."""


class InferenceContext(Protocol):
    """The methods of type inference that result rules call."""

    def infer(self, node: nodes.Node) -> Type:
        """Return the type of an expression."""
        ...

    def infer_filter_result(self, node: nodes.Filter, types: list[Type]) -> Type:
        """Return the result type of a filter; `types` are the types of the filtered value and the arguments."""
        ...

    def infer_attribute(self, node: nodes.Node, items: Type, path: str) -> Type:
        """Return the type of the field at `path` in the items of a list. Report a field that the items do not have."""
        ...

    def report_comparison(self, node: nodes.Node, left: Type, sign: str, right: Type, name: str) -> None:
        """Report, at `node`, a comparison that can never be true; `node` is the expression whose type is `right`."""
        ...

    def non_empty_facts(self, node: nodes.Node) -> Facts:
        """Return the facts that must hold for the value of `node` to be present and not empty."""
        ...

    def is_known_non_empty(self, node: nodes.Node) -> bool:
        """Whether the `non_empty_facts` of the expression hold at this point."""
        ...

    def report(self, node: nodes.Node, code: str, message: str, hint: str = "", severity: Severity = "error") -> None:
        """Report a problem at an expression."""
        ...


Rule = Callable[[InferenceContext, nodes.Call | nodes.Filter, list[Type]], Type]
"""Infers the result type from the types of the arguments. The first argument of a filter is the filtered value."""


@dataclass(frozen=True)
class Builtin:
    """A built-in that can be used as a filter, as a function, or as both.

    If `needs_run` is set, `function` only declares the parameters, and the run provides the implementation.
    `number_arguments` holds the positions and names of numeric arguments. `pattern_argument` is the position of the
    argument with regular expressions. The value before the `|` is at position 0. `name_argument` is set if an argument
    names a filter or a test: it says which of the two, and the position of the argument after the `|`.

    The manual has a row for each of the project's own built-ins, made from `usages` and `description`. It lists
    Jinja's filters by `group`.
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
        """Return the result type for arguments of these types."""
        return self.result_type if isinstance(self.result_type, Type) else self.result_type(context, node, types)

    @property
    def manual_row(self) -> str:
        """The row of this built-in in the manual's table of project built-ins."""
        cells = (", ".join(f"`{form}`" for form in self.usages), self.use, self.description)
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
