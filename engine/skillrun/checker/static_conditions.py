"""Evaluates conditions before a run, as far as inputs, config and features determine them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import UndefinedError

from skillrun.checker.program import Program
from skillrun.library.configuration import MODES, mode_dependent_keys, resolve_features
from skillrun.templates import interpreter
from skillrun.templates.expressions import RenderError, Template, Value
from skillrun.templates.limits import TemplateError, render_budget
from skillrun.templates.values import ABSENT, Absent
from skillrun.templates.vocabulary import CONTEXT_FUNCTIONS
from skillrun.types.fields import Field, coerce
from skillrun.types.types import identifier


@dataclass(frozen=True)
class StaticConditions:
    """The names with known values, the unknown inputs, and the config keys that depend on an unknown mode."""

    names: Mapping[str, Any]
    unknown_inputs: frozenset[str] = frozenset()
    mode_dependent_keys: frozenset[str] = frozenset()

    @staticmethod
    def for_program(program: Program, inputs: StaticConditions | None) -> StaticConditions:
        """Return the names whose values are known before a run. `inputs` has the known inputs, if any."""
        data, modes = program.config, program.modes
        names = dict(inputs.names) if inputs is not None else {}
        unknown = inputs.unknown_inputs if inputs is not None else frozenset()
        if inputs is None or "mode" in unknown or any(variable.name == "mode" for variable in program.workflow.state):
            return StaticConditions({"config": data, **names}, unknown, mode_dependent_keys(data, modes))
        mode = names["inputs"].get("mode")
        features = resolve_features(data.get("features") or {}, mode, data.get(MODES) or {})
        names["features"] = {name: feature.on for name, feature in features.items()}
        return StaticConditions({"config": modes.get(mode, data), **names}, unknown)

    def rules_out(self, condition: Template | None) -> bool:
        """Whether the condition is certainly false."""
        return condition is not None and self._evaluate_condition(condition.expression) is False

    def for_inputs(self, fields: Iterable[Field], input_values: Value | None) -> StaticConditions:
        """Return the values of the inputs that a step passes in `with:`, as far as they are known."""
        written = input_values.entries or {} if input_values is not None else {}
        entries = {identifier(name): value for name, value in written.items()}
        values: dict[str, Any] = {}
        unknown: set[str] = set()
        for field in fields:
            name = identifier(field.name)
            value: Any = self.evaluate(entries[name]) if name in entries else ABSENT
            if isinstance(value, Absent):  # an absent value is not passed
                if field.default is None:
                    continue
                names = {**self.names, "inputs": values}
                value = replace(self, names=names, unknown_inputs=frozenset(unknown)).evaluate(field.default)
            coerced = coerce(field, value, self.names) if value is not None else None
            if coerced is None or coerced.error:
                unknown.add(name)
            else:
                values[field.name] = coerced.value
        return StaticConditions({"inputs": values}, frozenset(unknown))

    def evaluate(self, value: Value) -> Any:
        """Return the value; None if it is unknown before the run."""
        if not all(template.is_constant or self._is_known(template.tree) for template in value.templates()):
            return None
        try:
            return value.evaluate(self.names)
        except (RenderError, UndefinedError):
            return None

    def _evaluate_condition(self, node: nodes.Node | None) -> bool | None:
        match node:
            case nodes.And() | nodes.Or():
                decides = isinstance(node, nodes.Or)
                sides = {self._evaluate_condition(node.left), self._evaluate_condition(node.right)}
                return decides if decides in sides else None if None in sides else not decides
            case nodes.Not():
                inner = self._evaluate_condition(node.node)
                return None if inner is None else not inner
        if node is None or not self._is_known(node):
            return None
        try:
            with render_budget() as active_budget:
                return bool(interpreter.evaluate(node, interpreter.Bindings(self.names, active_budget, {})))
        except (TemplateError, UndefinedError, RecursionError):
            return None

    def _is_known(self, node: nodes.Node) -> bool:
        whole = nodes.Output([node])  # `find_all` finds only nodes below a node
        called = {id(call.node) for call in whole.find_all(nodes.Call)}
        fields = {id(access.node): identifier(access.attr) for access in whole.find_all(nodes.Getattr)}
        unknown_fields = {"config": self.mode_dependent_keys, "inputs": self.unknown_inputs}
        for name in whole.find_all(nodes.Name):
            if id(name) in called and name.name not in CONTEXT_FUNCTIONS:
                continue
            unknown = unknown_fields.get(name.name)
            if name.name not in self.names or (unknown and fields.get(id(name), "") in {"", *unknown}):
                return False
        return True
