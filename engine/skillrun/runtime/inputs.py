"""Validates the inputs of a run, and reports all errors together."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from skillrun.checker.checker import check_sizes
from skillrun.checker.program import Program
from skillrun.definitions.definitions import Workflow
from skillrun.library.lookups import check_input_names
from skillrun.store.frontmatter import MAX_DATA, to_frontmatter
from skillrun.syntax.diagnostics import UsageError, sanitize
from skillrun.syntax.reading import is_outside
from skillrun.types.fields import Field, resolve_inputs


def validate_inputs(
    program: Program,
    given: Mapping[str, Any],
    project: Path | None = None,
    remote: Collection[str] = (),
    *,
    confined: bool = False,
) -> tuple[dict[str, object], list[str]]:
    """Return the inputs of the workflow, including defaults, and warnings. Raises UsageError with all errors.

    `remote` names the inputs whose paths are on another machine. These paths are not checked. If `confined` is set,
    a path outside of the project is an error, also where a link leads to it.
    """
    base = project or Path.cwd()
    values, errors, warnings = resolve_inputs(program.workflow.inputs, given, {"config": program.config})
    for field in program.workflow.inputs if confined else ():
        value = values.get(field.name) if field.item.word == "path" and field.name not in remote else None
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            if is_outside(base / each, base):
                errors.append(f"`{field.name}` is `{each}`, which is outside of the project")
    for field in path_inputs(program.workflow) if not errors else ():
        if field.name in values and field.name not in remote:
            path = base / values[field.name]
            if not path.exists():
                is_url = ":/" in str(values[field.name])  # normalized as a path, so a URL has only one slash left
                more = "; to have a worker fetch URL@COMMIT, use `skillrun submit`" if is_url else ""
                errors.append(f"`{field.name}` is `{values[field.name]}`: the path {path} does not exist{more}")
    first = program.workflow.first_input
    if first is not None and isinstance(values.get(first.name), str) and not values[first.name].strip():
        errors.append(f"`{first.name}` is empty")
    for name, value in values.items():  # an argument that is not valid UTF-8 contains lone surrogates
        if re.search(r"[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)):
            errors.append(f"`{name}` is not UTF-8")
    if (size := len(to_frontmatter(values).encode())) > MAX_DATA:
        errors.append(f"the inputs have {size:,} bytes in `state.md`, and at most {MAX_DATA:,} are allowed")
    library = program.library
    known = set(library.problems)
    errors += check_input_names(library, program.workflow, values)
    check_sizes(library, program.engine.get("token_lint") or {}, library.problems)
    for problem in library.problems:  # of the roles that only inputs name
        if problem not in known:
            text = f"{problem.path}:{problem.line}: {problem.message}"
            (errors if problem.severity == "error" else warnings).append(text)
    if errors:
        raise UsageError("; ".join(errors), f"`skillrun {program.workflow.name} --help` shows the inputs")
    return sanitize(values), warnings


def path_inputs(workflow: Workflow) -> list[Field]:
    """Return the inputs that name one file or folder."""
    return [field for field in workflow.inputs if field.type.word == "path"]
