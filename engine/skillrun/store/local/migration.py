"""Migrates a run of `schema_version: 1`, and keeps its old state as `state.v1.md`.

The `was:` of the workflow's phases gives the new name of its `current_phase`. Defaults are filled in on resume.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.frontmatter import from_frontmatter, to_frontmatter
from skillrun.store.local.atomic import write_atomic
from skillrun.store.local.journal import SqliteJournal
from skillrun.store.local.verification import JOURNAL
from skillrun.store.state import MAX_ROUNDS, SCHEMA_VERSION, STATE
from skillrun.syntax.diagnostics import SkillrunError, allowed_hint
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.input_values import resolve_inputs
from skillrun.types.records import is_whole
from skillrun.types.schemas import quote_value

BACKUP: Final = "state.v1.md"
ENDED: Final = ("completed", "done")


def read_v1_state(folder: ConfinedFolder) -> dict[str, Any] | None:
    """Return the state of a run of schema version 1; None for any other."""
    there = folder.stat_file(STATE) is not None
    data = from_frontmatter(folder.path / STATE, folder.read(STATE, MAX_BYTES))[0] if there else {}
    return data if data.get("schema_version") == 1 else None


def migrate_from_v1(folder: ConfinedFolder, old: Mapping[str, Any], program: Program, now: str) -> list[str]:
    """Rewrite the state and create a journal if missing; returns what was done, as lines.

    Raises SkillrunError, with nothing changed, if the workflow lacks the phase or an input is missing.
    """
    workflow = program.workflow
    phase = _phase(old, program)
    inputs, state = _declared_values(old, "inputs", workflow.inputs), _declared_values(old, "state", workflow.state)
    names: dict[str, Any] = {"config": program.config}
    errors = [*resolve_inputs(workflow.inputs, inputs, names)[1]]
    errors += resolve_inputs(workflow.state, state, {**names, "inputs": inputs})[1] if not errors else []
    if errors:
        raise SkillrunError(f"{folder.path / STATE}: {'; '.join(errors)}", "fix it in the frontmatter")
    over = str(old.get("phase_status", old.get("status", ""))) in ENDED and phase == list(workflow.phases)[-1]
    data = {
        "schema_version": SCHEMA_VERSION,
        "workflow": workflow.name,
        "started_at": str(old.get("started_at") or old.get("created_at") or now),
        "inputs": inputs,
        "state": state,
        "status": "completed" if over else "waiting" if old.get("waiting_for_user") else "interrupted",
        "phase": [phase],
        "round": _round(old),
        "project": str(old.get("project") or ""),
    }
    if folder.stat_file(BACKUP) is None:
        write_atomic(folder, BACKUP, folder.read(STATE, MAX_BYTES))
    if folder.stat_file(JOURNAL) is None:
        SqliteJournal.create(folder).close()
    write_atomic(folder, STATE, to_frontmatter(data, f"# Log\n\n- {now} migrated from schema version 1\n"))
    return [
        f"{STATE} was migrated from schema version 1 to {SCHEMA_VERSION}; the old one is {BACKUP}",
        f"the run is in the phase {phase}",
    ]


def _round(old: Mapping[str, Any]) -> int:
    """Return the round of the old state. Raises SkillrunError if it is invalid."""
    number = old.get("current_round") or old.get("round") or 1
    if not is_whole(number) or not 1 <= number <= MAX_ROUNDS:
        raise SkillrunError(f"the old state is in round {quote_value(number)}", f"rounds are from 1 to {MAX_ROUNDS:,}")
    return int(number)


def _phase(old: Mapping[str, Any], program: Program) -> str:
    """Return the new name of the old state's phase."""
    phases = program.workflow.phases
    current = old.get("current_phase", old.get("current_stage"))
    names = {name: {name, *use.was} for name, use in phases.items()}
    matching = [
        name for name, known in names.items() if str(current).casefold() in {old_name.casefold() for old_name in known}
    ]
    if current is None:
        return next(iter(phases))
    if not matching:
        every = [old_name for known in names.values() for old_name in known]
        raise SkillrunError(
            f"the old state is in `{current}`, which is not the name of a phase", allowed_hint(sorted(every))
        )
    return matching[0]


def _declared_values(old: Mapping[str, Any], part: str, fields: Any) -> dict[str, Any]:
    """Return the values of declared names: under `inputs` or `state`, or at the top level, as in version 1."""
    nested = old.get(part)
    given = {**old, **(nested if isinstance(nested, Mapping) else {})}
    return {field.name: given[field.name] for field in fields if given.get(field.name) is not None}
