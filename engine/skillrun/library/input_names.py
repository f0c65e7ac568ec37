"""Checks the members and models named in workflow inputs, and lists the models that they use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from skillrun.definitions.definitions import Workflow
from skillrun.library.library import Library
from skillrun.library.lookups import Lookups
from skillrun.types.fields import Field, MemberError, parse_member


def check_input_names(library: Library, workflow: Workflow, inputs: Mapping[str, Any]) -> list[str]:
    """Return an error for each invalid member or model that a workflow's inputs name."""
    lookups = Lookups(library)
    errors = []
    for field, written in _iter_input_names(workflow, inputs):
        is_model = field.item.word == "model"
        reasons = [lookups.models.check_model(written)] if is_model else lookups.member_errors(written)
        errors += [
            f"`{field.name}` is `{written}`: {reason.message}; {reason.hint}"
            for reason in reasons
            if reason is not None
        ]
    for field in workflow.inputs:
        if field.is_list and field.item.word == "member":
            for written, times in Counter(inputs.get(field.name) or ()).items():
                if times > 1:
                    errors.append(
                        f"`{field.name}` contains `{written}` twice; add a variant or a model to distinguish members"
                    )
    if not errors and any(problem.severity == "error" for problem in library.problems):
        errors.append("a role that an input names is invalid; run `skillrun validate` for details")
    return errors


def referenced_models(library: Library, workflow: Workflow, inputs: Mapping[str, Any]) -> list[str]:
    """Return the model names that a workflow's inputs use: directly, or through members and their roles."""
    names = []
    for field, written in _iter_input_names(workflow, inputs):
        names += [written] if field.item.word == "model" else member_models(library, written)
    return list(dict.fromkeys(names))


def member_models(library: Library, written: Any) -> list[str]:
    """Return the name of a member's model, as a list; empty if the member does not exist."""
    try:
        member = parse_member(written)
    except MemberError:
        return []
    role = library.role(member.role)
    return [member.model or role.model] if role is not None else []


def _iter_input_names(workflow: Workflow, inputs: Mapping[str, Any]) -> Iterator[tuple[Field, str]]:
    """Yield each member and model that an input names, with the field of the input."""
    for field in workflow.inputs:
        value = inputs.get(field.name) if field.item.word in ("member", "model") else None
        yield from ((field, name) for name in (value if isinstance(value, list) else [value]) if isinstance(name, str))
