"""What is known of conditions before a run: whether one holds, as far as inputs, config and features tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import UndefinedError

from skillrun.checker.program import Program
from skillrun.library.configuration import resolve_features
from skillrun.library.modes import MODES, varying
from skillrun.templates import interpreter
from skillrun.templates.absent import ABSENT, Absent
from skillrun.templates.expressions import RenderError, Template, Value
from skillrun.templates.limits import Fault, budget
from skillrun.templates.vocabulary import CONTEXT_FUNCTIONS
from skillrun.types.fields import Field, coerce
from skillrun.types.types import identifier


@dataclass(frozen=True)
class Foresight:
    """The names whose values are known; those of the inputs that are not, and what goes by a mode that nobody knows."""

    names: Mapping[str, Any]
    unknown: frozenset[str] = frozenset()
    varying: frozenset[str] = frozenset()

    @staticmethod
    def of(program: Program, inputs: Foresight | None) -> Foresight:
        """What a workflow's templates see; `inputs` is what its inputs are known to be, if anything."""
        data, modes = program.config, program.modes
        names = dict(inputs.names) if inputs is not None else {}
        unknown = inputs.unknown if inputs is not None else frozenset()
        if inputs is None or "mode" in unknown or any(variable.name == "mode" for variable in program.workflow.state):
            return Foresight({"config": data, **names}, unknown, varying(data, modes))
        mode = names["inputs"].get("mode")
        features = resolve_features(data.get("features") or {}, mode, data.get(MODES) or {})
        names["features"] = {name: feature.on for name, feature in features.items()}
        return Foresight({"config": modes.get(mode, data), **names}, unknown)

    def rules_out(self, condition: Template | None) -> bool:
        """Whether the condition is sure not to hold."""
        return condition is not None and self._truth(condition.expression) is False

    def handed_over(self, fields: Iterable[Field], given: Value | None) -> Foresight:
        """What the inputs are that a step hands over in `with:`."""
        entries = {identifier(name): value for name, value in (given.entries or {}).items()} if given else {}
        values: dict[str, Any] = {}
        unknown: set[str] = set()
        for field in fields:
            name = identifier(field.name)
            value: Any = self.value(entries[name]) if name in entries else ABSENT
            if isinstance(value, Absent):  # what is handed over and absent is left out
                if field.default is None:
                    continue
                value = replace(self, names={**self.names, "inputs": values}, unknown=frozenset(unknown)).value(
                    field.default
                )
            coerced = coerce(field, value, self.names) if value is not None else None
            if coerced is None or coerced.error:
                unknown.add(name)
            else:
                values[field.name] = coerced.value
        return Foresight({"inputs": values}, frozenset(unknown))

    def value(self, value: Value) -> Any:
        """The value; None where nobody knows it yet."""
        if not all(template.constant or self._knows(template.tree) for template in value.templates()):
            return None
        try:
            return value.evaluate(self.names)
        except (RenderError, UndefinedError):
            return None

    def _truth(self, node: nodes.Node | None) -> bool | None:
        match node:
            case nodes.And() | nodes.Or():
                decides = isinstance(node, nodes.Or)
                sides = {self._truth(node.left), self._truth(node.right)}
                return decides if decides in sides else None if None in sides else not decides
            case nodes.Not():
                inner = self._truth(node.node)
                return None if inner is None else not inner
        if node is None or not self._knows(node):
            return None
        try:
            with budget() as left:
                return bool(interpreter.value(node, interpreter.Bindings(self.names, left, {})))
        except (Fault, UndefinedError, RecursionError):
            return None

    def _knows(self, node: nodes.Node) -> bool:
        """Whether every name that an expression reads is known."""
        own = [node] if isinstance(node, nodes.Name) else []
        calls = {id(call.node) for call in node.find_all(nodes.Call)}
        if isinstance(node, nodes.Call):
            calls.add(id(node.node))
        owned = {
            id(access.node): access.attr for access in [*_self(node, nodes.Getattr), *node.find_all(nodes.Getattr)]
        }
        for name in (*own, *node.find_all(nodes.Name)):
            if id(name) in calls and name.name not in CONTEXT_FUNCTIONS:
                continue
            if name.name not in self.names:
                return False
            if name.name == "config" and self.varying and identifier(owned.get(id(name), "")) in {"", *self.varying}:
                return False
            if name.name == "inputs" and self.unknown and identifier(owned.get(id(name), "")) in {"", *self.unknown}:
                return False
        return True


def _self(node: nodes.Node, kind: type[nodes.Getattr]) -> list[nodes.Getattr]:
    return [node] if isinstance(node, kind) else []
