"""The seal of a run, which shows that its `state.md` was written by this user on this machine.

The seal covers the privileges of a run: which project and files it reads, which models it calls, how much it may spend,
and who may read it. The seal is made with the user's key. A run folder from another user or machine keeps its records,
but its seal is invalid here, so its state grants no privileges. The same holds for a run in a store.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from skillrun.checker.program import Program
from skillrun.library.settings import load_budget
from skillrun.scoring.overlap import iterate_texts
from skillrun.store.frontmatter import replace_surrogates
from skillrun.store.state import State, belongs_to
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.reading import is_outside
from skillrun.types.fields import MemberError, parse_member, resolve_inputs
from skillrun.types.schemas import quote_value

if TYPE_CHECKING:
    from skillrun.models.catalogue import Catalogue

CHANGE_INPUT_HINT: Final = "change the path under `inputs` in its state.md"


@dataclass(frozen=True)
class GivenInputs:
    """The inputs that the user gave: in the command line of this process, or of the process that sealed the state.

    They are values, not names, so a later change of a value takes the grant away. Only `grant_inputs` in
    `cli/run_request.py` and `restore_given_inputs` make them; an import contract and a test ensure it.
    """

    values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def matching(self, inputs: Mapping[str, object]) -> dict[str, object]:
        """Return the given inputs that still have the given value in `inputs`."""
        return {name: value for name, value in self.values.items() if name in inputs and inputs[name] == value}


NO_INPUTS: Final = GivenInputs()


def restore_given_inputs(state: State) -> GivenInputs:
    """Return the inputs that the user gave when a run started. The caller has verified the seal of the state."""
    return GivenInputs({name: state.inputs[name] for name in state.typed if name in state.inputs})


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
    if choices := _model_choices(program, state):  # absent otherwise, so that older seals of such runs stay valid
        privileges["choices"] = choices
    text = json.dumps(privileges, sort_keys=True, separators=(",", ":"), default=str, ensure_ascii=False)
    return hmac.new(key, b"skillrun seal 1\n" + replace_surrogates(text).encode(), hashlib.sha256).hexdigest()


def is_sealed(program: Program, state: State, project: Path, key: bytes | None) -> bool:
    """Whether the state has a valid seal by this user's key, and was written in this project."""
    if not belongs_to(state, project):
        return False  # the workflow's name may mean another workflow here
    return key is not None and hmac.compare_digest(compute_seal(program, state, key).encode(), state.seal.encode())


@dataclass(frozen=True)
class Claims:
    """The privileges that the state of a run from another source requests.

    `paths` contains the inputs outside of the project. `models` contains the names that refer to another model here, as
    (name, model in the run, model here). `choices` contains the inputs and state variables that name models themselves,
    with these names, if they do not have their default.
    """

    paths: Mapping[str, str]
    models: tuple[tuple[str, str, str], ...]
    choices: Mapping[str, list[str]]

    @property
    def lines(self) -> list[str]:
        """Descriptions of the claims that the user has to decide on."""
        paths = self.paths.items()
        return [
            *(f"`{name}` is {quote_value(path)}, which is outside of this project" for name, path in paths),
            *(f"`{name}` means the model {there} in the run, and {here} here" for name, there, here in self.models),
            *(f"`{name}` chooses {', '.join(map(quote_value, models))}" for name, models in self.choices.items()),
        ]


def find_claims(
    program: Program, state: State, catalogue: Catalogue, environ: Mapping[str, str], project: Path
) -> Claims:
    """Return the claims that the user must decide on before the run resumes.

    Overrides on the command line are not part of the state, and need no decision.
    """
    paths = {
        name: value
        for name, values in _paths(program, state).items()
        for value in values
        if is_outside(project / value, project)
    }
    pins = []
    for name, model in sorted(state.models.items()):
        if model.startswith("scripted:"):  # a scripted model costs nothing and sends nothing
            continue
        try:
            if not catalogue.can_resolve_to(name, model, environ):
                pins.append((name, model, catalogue.resolve(name, environ).model))
        except SkillrunError:
            pins.append((name, model, "nothing"))
    defaults = _defaults(program, state)
    tiers = {name.casefold() for name in catalogue.tiers}
    choices = {}
    for place, names in _model_choices(program, state).items():
        section, _, name = place.partition(".")
        models = [each for each in names if each.casefold() not in tiers and not each.startswith("scripted:")]
        if models and vars(state)[section][name] != defaults[section].get(name):
            choices[place] = models
    return Claims(paths, tuple(pins), choices)


def revoke_claims(state: State, program: Program, claims: Claims, project: Path) -> None:
    """Remove the privileges from a state. The run's records stay.

    A variable that names models gets its default. Raises SkillrunError if an input without a default names models or is
    a path outside of the project, because the run needs its inputs.
    """
    required = [f"inputs.{declared.name}" for declared in program.workflow.inputs if declared.required]
    for needed, effect, hint in (
        (claims.paths, "let it read outside of this project", CHANGE_INPUT_HINT),
        ([name for name in required if name in claims.choices], "choose its models", "change it in its state.md"),
    ):
        if needed:
            names = ", ".join(f"`{name}`" for name in needed)
            message = f"the run is from another source, and {names} would {effect}"
            raise SkillrunError(message, f"{hint}, or adopt the run with `--adopt`")
    for name, _, _ in claims.models:
        del state.models[name]
    defaults = _defaults(program, state)
    for place in claims.choices:
        section, _, name = place.partition(".")
        del vars(state)[section][name]
        if name in defaults[section]:
            vars(state)[section][name] = defaults[section][name]
    state.project, state.override, state.typed, state.share = str(project), "", [], False
    state.budget = load_budget(program.library)


def _paths(program: Program, state: State) -> dict[str, list[str]]:
    """Return the path inputs and their values."""
    paths: dict[str, list[str]] = {}
    for declared in program.workflow.inputs:
        value = state.inputs.get(declared.name)
        if declared.item.word == "path" and value not in (None, "", []):
            paths[declared.name] = list(map(str, value if isinstance(value, list) else [value]))
    return paths


def _model_choices(program: Program, state: State) -> dict[str, list[str]]:
    """Return the models that inputs and state variables name, keyed by place, such as `inputs.panel`."""
    config = program.library.config("models")
    providers = config.data.get("providers", {}) if config is not None else {}
    choices: dict[str, list[str]] = {}
    for section, fields in (("inputs", program.workflow.inputs), ("state", program.workflow.state)):
        words = {declared.name: declared.item.word for declared in fields}
        for name, value in vars(state)[section].items():
            models = [_named_model(text, words.get(name, ""), providers) for text in iterate_texts(value)]
            if any(models):
                choices[f"{section}.{name}"] = [model for model in models if model]
    return choices


def _named_model(text: str, word: str, providers: Container[str]) -> str:
    """Return the model that a text of the type `word` names, directly or as a member; empty if it names none.

    A text of another type counts if it names a provider, since a template can make a member of it.
    """
    model = None
    with suppress(MemberError):
        model = parse_member(text).model
    if word in ("member", "model"):
        return text if word == "model" else model or ""
    model = model or text
    return model if model.partition(":")[0] in providers and len(model.split()) == 1 else ""


def _defaults(program: Program, state: State) -> dict[str, dict[str, Any]]:
    """Return the defaults of inputs and state variables, keyed by section and name."""
    names: dict[str, Any] = {"config": program.config}
    inputs, _, _ = resolve_inputs(program.workflow.inputs, {}, names)
    values, _, _ = resolve_inputs(program.workflow.state, {}, {**names, "inputs": state.inputs})
    return {"inputs": inputs, "state": values}
