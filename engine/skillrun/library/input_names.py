"""The members and models that the inputs of a workflow name: whether there are such, and which models are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from skillrun.definitions.definitions import Workflow
from skillrun.library.library import Library
from skillrun.library.lookups import Lookups
from skillrun.types.fields import Field, MemberError, parse_member


def check_input_names(library: Library, workflow: Workflow, inputs: Mapping[str, Any]) -> list[str]:
    """What is wrong with the members and models that the inputs of a workflow name."""
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
                    errors.append(f"`{field.name}` has `{written}` twice; a variant or a model tells members apart")
    if not errors and any(problem.severity == "error" for problem in library.problems):
        errors.append("a role that an input names cannot be read: `skillrun validate` shows why")
    return errors


def referenced_models(library: Library, workflow: Workflow, inputs: Mapping[str, Any]) -> list[str]:
    """The names of models that the inputs of a workflow ask for: as they are, and those of members and their roles."""
    names = []
    for field, written in _iter_input_names(workflow, inputs):
        names += [written] if field.item.word == "model" else member_models(library, written)
    return list(dict.fromkeys(names))


def member_models(library: Library, written: Any) -> list[str]:
    """The name of a member's model; none where there is no such member."""
    try:
        member = parse_member(written)
    except MemberError:
        return []
    role = library.role(member.role)
    return [member.model or role.model] if role is not None else []


def _iter_input_names(workflow: Workflow, inputs: Mapping[str, Any]) -> Iterator[tuple[Field, str]]:
    """Each member and model that an input names, with its field."""
    for field in workflow.inputs:
        value = inputs.get(field.name) if field.item.word in ("member", "model") else None
        yield from ((field, name) for name in (value if isinstance(value, list) else [value]) if isinstance(name, str))
