"""Migrates a run's state to the current workflow, and finds the files that were edited since the last evaluation."""

from __future__ import annotations

import contextlib
from typing import Any

from skillrun.checker.program import Program
from skillrun.store.files import sha256_of
from skillrun.store.run_data import RunData
from skillrun.store.state import State
from skillrun.store.summaries import Summary
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.fields import apply_fallbacks, resolve_inputs


async def migrate_state(program: Program, store: RunData) -> tuple[State, list[str], list[str]]:
    """Return a run's state, changed to fit the current workflow, the run's log, and notices for the user.

    Renamed phases get their current names. A field that the state lacks gets the value that a phase has set last, or
    else its default, unless a phase has unset it. A value that the field does not allow is replaced by the field's
    `fallback`.
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
    notices = apply_fallbacks(workflow.inputs, state.inputs, names)
    notices += apply_fallbacks(workflow.state, state.state, {**names, "inputs": state.inputs})
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
