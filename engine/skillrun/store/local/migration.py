"""Brings a run that an older version has left (`schema_version: 1`) forward, and keeps its state as `state.v1.md`.

Its `current_phase` becomes today's by the `was:` of the workflow's phases. Defaults are filled in when it is resumed.
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
    """The state of a run of the first version; None for any other."""
    there = folder.stat_file(STATE) is not None
    data = from_frontmatter(folder.path / STATE, folder.read(STATE, MAX_BYTES))[0] if there else {}
    return data if data.get("schema_version") == 1 else None


def migrate_from_v1(folder: ConfinedFolder, old: Mapping[str, Any], program: Program, now: str) -> list[str]:
    """Write the state anew and begin a journal where there is none; what was done, a line each.

    Raises SkillrunError, with nothing changed, when the phase is none of the workflow's or an input is missing.
    """
    workflow = program.workflow
    phase = _phase(old, program)
    inputs, state = _declared_values(old, "inputs", workflow.inputs), _declared_values(old, "state", workflow.state)
    names: dict[str, Any] = {"config": program.config}
    errors = [*resolve_inputs(workflow.inputs, inputs, names)[1]]
    errors += resolve_inputs(workflow.state, state, {**names, "inputs": inputs})[1] if not errors else []
    if errors:
        raise SkillrunError(f"{folder.path / STATE}: {'; '.join(errors)}", "put it right in its frontmatter")
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
    write_atomic(folder, STATE, to_frontmatter(data, f"# Log\n\n- {now} brought forward from schema version 1\n"))
    return [
        f"{STATE} was of schema version 1 and is now {SCHEMA_VERSION}; the old one is {BACKUP}",
        f"it is in {phase}",
    ]


def _round(old: Mapping[str, Any]) -> int:
    """The round that the old state is in. Raises SkillrunError for what is none."""
    number = old.get("current_round") or old.get("round") or 1
    if not is_whole(number) or not 1 <= number <= MAX_ROUNDS:
        raise SkillrunError(f"the old state is in round {quote_value(number)}", f"rounds are from 1 to {MAX_ROUNDS:,}")
    return int(number)


def _phase(old: Mapping[str, Any], program: Program) -> str:
    """Today's name of the phase that the old state is in."""
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
            f"the old state is in `{current}`, which no phase has been called", allowed_hint(sorted(every))
        )
    return matching[0]


def _declared_values(old: Mapping[str, Any], part: str, fields: Any) -> dict[str, Any]:
    """The values of declared names: below `inputs` or `state`, or at the top, where the first version kept them."""
    nested = old.get(part)
    given = {**old, **(nested if isinstance(nested, Mapping) else {})}
    return {field.name: given[field.name] for field in fields if given.get(field.name) is not None}
