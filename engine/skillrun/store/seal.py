"""The seal of a run, which shows that its `state.md` was written by this user on this machine.

The seal covers the privileges of a run: which project and files it reads, which models it calls, how much it may spend,
and who may read it. The seal is made with the user's key. A run folder from another user or machine keeps its records,
but its seal is invalid here, so its state grants no privileges.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillrun.checker.program import Program
from skillrun.library.settings import load_budget
from skillrun.store.frontmatter import replace_surrogates
from skillrun.store.state import State
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import quote_value

if TYPE_CHECKING:
    from skillrun.models.catalogue import Catalogue

CHANGE_INPUT_HINT: Final = "change the path under `inputs` in its state.md"


def compute_seal(program: Program, state: State, key: bytes) -> str:
    """Return the seal of the state's privileges, as hexadecimal digits."""
    privileges = {
        "workflow": state.workflow,
        "project": state.project,
        "inputs": _paths(program, state),
        "typed": state.typed,
        "override": state.override,
        "models": state.models,
        "budget": {name: float(limit) for name, limit in state.budget.items()},
        "share": state.share,
    }
    text = json.dumps(privileges, sort_keys=True, separators=(",", ":"), default=str, ensure_ascii=False)
    return hmac.new(key, b"skillrun seal 1\n" + replace_surrogates(text).encode(), hashlib.sha256).hexdigest()


def is_sealed(program: Program, state: State, project: Path, key: bytes | None) -> bool:
    """Whether the state has a valid seal by this user's key, and was written in this project."""
    if replace_surrogates(os.path.realpath(state.project)) != replace_surrogates(os.path.realpath(project)):
        return False  # the workflow's name may mean another workflow here
    return key is not None and hmac.compare_digest(compute_seal(program, state, key).encode(), state.seal.encode())


@dataclass(frozen=True)
class Claims:
    """The privileges that the state of a run from another source requests.

    `paths` contains the inputs outside of the project. `models` contains the names that refer to another model here, as
    (name, model in the run, model here).
    """

    paths: Mapping[str, str]
    models: tuple[tuple[str, str, str], ...]

    @property
    def lines(self) -> list[str]:
        """Descriptions of the claims that the user has to decide on."""
        paths = self.paths.items()
        return [
            *(f"`{name}` is {quote_value(path)}, which is outside of this project" for name, path in paths),
            *(f"`{name}` means the model {there} in the run, and {here} here" for name, there, here in self.models),
        ]


def find_claims(
    program: Program, state: State, catalogue: Catalogue, environ: Mapping[str, str], project: Path
) -> Claims:
    """Return the claims that the user must decide on before the run resumes.

    Overrides on the command line are not part of the state, and need no decision.
    """
    project_root = project.resolve()
    paths = {
        name: value
        for name, values in _paths(program, state).items()
        for value in values
        if not (project_root / value).resolve().is_relative_to(project_root)
    }
    models = []
    for name, model in sorted(state.models.items()):
        if model.startswith("scripted:"):  # a scripted model costs nothing and sends nothing
            continue
        try:
            if not catalogue.can_resolve_to(name, model, environ):
                models.append((name, model, catalogue.resolve(name, environ).model))
        except SkillrunError:
            models.append((name, model, "nothing"))
    return Claims(paths, tuple(models))


def revoke_claims(state: State, program: Program, claims: Claims, project: Path) -> None:
    """Remove the privileges from a state. The run's records stay.

    Raises SkillrunError if an input is a path outside of the project, because the run needs its inputs.
    """
    if claims.paths:
        names = ", ".join(f"`{name}`" for name in claims.paths)
        raise SkillrunError(
            f"the run is from another source, and {names} would let it read outside of this project",
            f"{CHANGE_INPUT_HINT}, or adopt the run with `--adopt`",
        )
    for name, _, _ in claims.models:
        del state.models[name]
    state.project, state.override, state.typed, state.share = str(project), "", [], False
    state.budget = load_budget(program.library)


def _paths(program: Program, state: State) -> dict[str, list[str]]:
    """Return the path inputs and their values."""
    typed: dict[str, list[str]] = {}
    for field in program.workflow.inputs:
        value = state.inputs.get(field.name)
        if field.item.word == "path" and value not in (None, "", []):
            typed[field.name] = list(map(str, value if isinstance(value, list) else [value]))
    return typed
