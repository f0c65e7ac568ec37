"""What `resume` asks about a run folder that has come from elsewhere: whether it keeps what it would decide.

Its records are kept either way; the question is about paths out of the project and about models.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Final

import click

from skillrun.cli.loading import LoadedWorkflow
from skillrun.cli.output import Output
from skillrun.cli.preview import AutoResponder
from skillrun.models.scripted import ScriptedGateway
from skillrun.runtime.foreign_runs import foreign_claims, format_claims, raise_undecided_error
from skillrun.store.seal import CHANGE_INPUT_HINT
from skillrun.store.stored_run import StoredRun

QUESTION: Final = "Take over what it says?"
KEEP_OWN: Final = "No goes on with what holds here."
STOP_HERE: Final = f"No ends here; you may {CHANGE_INPUT_HINT}."

adopt = click.option(
    "--adopt/--no-adopt",
    default=None,
    help="For a run folder from another machine: keep its models and paths, or use this project's.",
)


def resolve_adopt_option(
    loaded: LoadedWorkflow, run: StoredRun, adopt: bool | None, out: Output, *, can_ask: bool
) -> bool | None:
    """What was said, or what the person says in a terminal; None where nothing has to be decided.

    Raises SkillrunError where something has to be decided and nobody is there.
    """
    session = replace(loaded.build_session(ScriptedGateway(), AutoResponder()), adopt=adopt)
    claims = foreign_claims(session, run) if adopt is None else None
    if claims is None or not claims.has_claims:
        return adopt
    if not (can_ask and sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())):
        raise_undecided_error(session, run, claims)
    out.note(format_claims(claims))
    return click.confirm(f"{QUESTION} {STOP_HERE if claims.paths else KEEP_OWN}", default=False, err=True)
