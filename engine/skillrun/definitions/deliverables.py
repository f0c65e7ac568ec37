"""Finds the deliverables of a workflow: the artifacts among its outputs. Does not read runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from skillrun.definitions.definitions import Workflow
from skillrun.templates.expressions import RenderError

_MARK: Final = "\0"  # prefix that distinguishes artifact names from other texts


def list_deliverables(workflow: Workflow, inputs: Mapping[str, Any], artifacts: Collection[str]) -> list[str]:
    """Return the artifacts of a run that are outputs of its workflow, in the order of the outputs.

    The value of such an output is the text of the artifact: `phases.<phase>.artifacts['<name>']`.
    """
    names = {name: f"{_MARK}{name}" for name in artifacts}
    phases = {name.replace("-", "_"): {"artifacts": names} for name in workflow.phases}
    return list(dict.fromkeys(_outputs(workflow, {"phases": phases, "inputs": dict(inputs)})))


def _outputs(workflow: Workflow, names: Mapping[str, Any]) -> Iterator[str]:
    for value in workflow.outputs.values():
        if value.template is None or not value.template.mentions_name("phases"):
            continue
        try:
            text = value.template.render(names)
        except RenderError:  # it needs other data of the run
            continue
        if isinstance(text, str) and text.startswith(_MARK):
            yield text.removeprefix(_MARK)
