"""Asks whether a run folder from another machine keeps its own models and its paths outside the project.

The records of the run are kept in both cases.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from skillrun.cli.loading import LoadedWorkflow
from skillrun.cli.output import Output
from skillrun.cli.preview import AutoResponder
from skillrun.models.scripted import ScriptedGateway
from skillrun.runtime.foreign_runs import foreign_claims, format_claims, raise_undecided_error
from skillrun.store.seal import CHANGE_INPUT_HINT
from skillrun.store.stored_run import StoredRun

QUESTION: Final = "Keep these settings?"
KEEP_OWN: Final = "No: use this project's settings."
STOP_HERE: Final = f"No: stop, so that you can {CHANGE_INPUT_HINT}."

adopt = click.option(
    "--adopt/--no-adopt",
    default=None,
    help="For a run folder from another machine: keep its models and paths, or use this project's.",
)


def resolve_adopt_option(
    loaded: LoadedWorkflow, run: StoredRun, adopt: bool | None, out: Output, *, can_ask: bool
) -> bool | None:
    """Return the value of `--adopt` or, if it is not set, the user's answer; None if there is nothing to decide.

    Raises SkillrunError if a decision is required and the user cannot be asked.
    """
    session = loaded.build_session(ScriptedGateway(), AutoResponder())
    session.options.adopt = adopt
    claims = foreign_claims(session, run) if adopt is None else None
    if claims is None or not claims.has_claims:
        return adopt
    if not (can_ask and sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())):
        raise_undecided_error(session, run, claims)
    out.note(format_claims(claims))
    return click.confirm(f"{QUESTION} {STOP_HERE if claims.paths else KEEP_OWN}", default=False, err=True)
