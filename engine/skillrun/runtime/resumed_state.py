"""Prepares the state of a run that resumes: migrates it, and restricts a state that comes from another source.

The seal in `state.md` (see `store.seal`) shows whether a run of this user has written the file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection
from typing import Any, Final, NoReturn

from skillrun.checker.program import Program
from skillrun.library.roots import USER
from skillrun.runtime.run import Session
from skillrun.store.files import sha256_of
from skillrun.store.local.signing_key import key_trouble, read_signing_key
from skillrun.store.run_data import RunData
from skillrun.store.seal import CHANGE_INPUT_HINT, Claims, find_claims, is_sealed, revoke_claims
from skillrun.store.state import STATE, State
from skillrun.store.stored_run import StoredRun
from skillrun.store.summaries import Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import to_plain
from skillrun.types.fields import recheck_values, resolve_inputs

_USED_AS: Final = re.compile(
    r"(?:^|[:/])(?:(?:roles|skills/protocols)/(?P<name>[^/]+)|skills/(?P<skill>[^/]+/[^/]+)|config/[^/]+)\.\w+$"
)
"""How the files of phases name a file: a role or protocol by its name, a skill by its path, config as `config`."""


async def migrate_state(
    program: Program, store: RunData, *, from_start: bool = False
) -> tuple[State, list[str], list[str]]:
    """Return a run's state, changed to fit the current workflow, the run's log, and notices for the user.

    Renamed phases get their current names. A field that the state lacks gets the value that a phase has set last, or
    else its default, unless a phase has unset it. A value that the field does not allow is replaced by the field's
    `fallback`; without one, raise SkillrunError. With `from_start`, variables are not checked, because they begin anew.
    """
    workflow = program.workflow
    state, log = store.state.read()
    names_now = {old: name for name, use in workflow.phases.items() for old in use.was if old not in workflow.phases}
    await store.summaries.rename(names_now)
    state.phase = [names_now.get(name, name) for name in state.phase]
    state.going = {key: names_now.get(value, value) for key, value in state.going.items()}
    past = [summary for earlier in store.summaries.history(state.round) for summary in earlier.phases.values()]
    for name in workflow.phases:
        with contextlib.suppress(SkillrunError):  # an unreadable summary is recovered later
            past.append(store.summaries.find_completed(name) or Summary())
    sets: dict[str, object] = {}
    for summary in past:
        sets |= summary.set
    names: dict[str, Any] = {"config": program.config}
    inputs, _, _ = resolve_inputs(workflow.inputs, state.inputs, names)
    state.inputs = {**inputs, **state.inputs}
    values, _, _ = resolve_inputs(workflow.state, {}, {**names, "inputs": state.inputs})
    values |= {field.name: sets[field.name] for field in workflow.state if field.name in sets}
    state.state = {**{name: value for name, value in values.items() if value is not None}, **state.state}
    errors, notices = recheck_values(workflow.inputs, state.inputs, names)
    if not errors and not from_start:
        errors, more = recheck_values(workflow.state, state.state, {**names, "inputs": state.inputs})
        notices += more
    if errors:
        hint = "restore what the workflow or its config allowed when the run began, or change the value in state.md"
        raise SkillrunError(f"{STATE} of {store.files.path}: {'; '.join(errors)}", hint)
    return state, log, list(dict.fromkeys(notices))


def file_hashes(program: Program) -> dict[str, str]:
    """Return the hash, shortened, of every file of the program, keyed by the file's label."""
    return {source.label: sha256_of(source.text)[:16] for source in program.library.files.values()}


def changed_files(program: Program, state: State) -> list[str]:
    """Return the files of the program that have changed since the run was last evaluated."""
    before, after = state.files, file_hashes(program)
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name) and name in after
    )


def phases_using(program: Program, file: str) -> list[str]:
    """Return the phases whose files name a file of the program.

    If no phase names it, return all phases, because names can be computed.
    """
    own = [name for name, phase in program.phases.items() if phase.document.source.label == file]
    match = _USED_AS.search(file)
    if own or match is None:
        return own or [*program.phases]
    word = re.escape(match["name"] or match["skill"] or "config")
    name = re.compile(rf"(?<![\w/-]){word}(?![\w/-])")
    return [each for each, phase in program.phases.items() if name.search(phase.document.source.text)] or [
        *program.phases
    ]


def note_outdated_phases(program: Program, store: RunData, state: State) -> None:
    """Record in the state which files of phases that have ended were edited since, with their earlier hashes."""
    for file in changed_files(program, state):
        is_own = file in state.files and not file.startswith("skillrun:")
        for phase in phases_using(program, file) if is_own else ():
            summary = store.summaries.find_readable(phase)
            if summary is not None and summary.is_over:
                state.outdated.setdefault(phase, {}).setdefault(file, state.files[file])


def unused_edits(program: Program, state: State, ended: Collection[str]) -> dict[str, list[str]]:
    """Return the phases in `ended` that have not used the current version of a file, keyed by file."""
    now, edits = file_hashes(program), dict[str, list[str]]()
    recorded = (file for files in state.outdated.values() for file in files)
    for file in sorted({*changed_files(program, state), *recorded} & now.keys()):
        versions = {name: state.outdated.get(name, {}).get(file, state.files.get(file)) for name in ended}
        if phases := [name for name in phases_using(program, file) if versions.get(name, now[file]) != now[file]]:
            edits[file] = phases
    return edits


def is_own_state(session: Session, state: State) -> bool:
    """Return whether this user wrote the state, on this machine and in this project."""
    try:
        return is_sealed(session.program, state, session.options.project, read_signing_key())
    except (OSError, SkillrunError):  # the user's key is unusable
        return False


FOREIGN_RUN: Final = "this run is from another source, or from an older version of skillrun"


def foreign_claims(session: Session, run: StoredRun) -> Claims | None:
    """Return the settings that a run folder from another source contains; None for a folder of this user."""
    state = run.state()
    if is_own_state(session, state):
        return None
    return _find_claims(session, state)


def _find_claims(session: Session, state: State) -> Claims:
    services = session.services
    return find_claims(session.program, state, services.catalogue, services.environ, session.options.project)


def raise_undecided_error(session: Session, run: StoredRun, claims: Claims) -> NoReturn:
    """Raise SkillrunError, which lists the settings and the commands with which the user decides about them."""
    command = f"skillrun resume {run.command_argument(session.options.project)}"
    other = f"or {CHANGE_INPUT_HINT}" if claims.paths else f"`{command} --no-adopt` uses this project's settings"
    raise SkillrunError(format_claims(claims), f"`{command} --adopt` keeps these settings, {other}")


def format_claims(claims: Claims) -> str:
    """Return a text that lists the settings of a foreign run folder, and the problem if its seal cannot be checked."""
    trouble = key_trouble()
    unknown = [f"  cannot verify that you started it: {trouble}"] if trouble else []
    return "\n".join([f"{FOREIGN_RUN}:", *(f"  {line}" for line in claims.lines), *unknown])


def apply_foreign_state(session: Session, state: State) -> list[str]:
    """Adopt a state from another source, or restrict it, as the user decided. Return notices for the user.

    Changes the state in place. Raises SkillrunError.
    """
    if session.options.adopt:
        state.project = str(session.options.project)
        return []
    claims = _find_claims(session, state)
    revoke_claims(state, session.program, claims, session.options.project)
    return [f"{FOREIGN_RUN}; it uses this project, its budget and its models"]


def effective_state(session: Session, run: StoredRun) -> State:
    """Return the state with which a run resumes. A foreign state is adopted or restricted. Raises SkillrunError."""
    state = run.state()
    if not is_own_state(session, state):
        apply_foreign_state(session, state)
    return state


def is_shared(session: Session) -> bool:
    """Return whether other users may read a run. The flag or the user's config allows it, never a project's config."""
    layers = session.program.library.layers("skillrun")
    return session.options.share or any(to_plain(layer).get("share") is True for root, layer in layers if root == USER)
