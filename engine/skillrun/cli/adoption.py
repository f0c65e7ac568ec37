"""What `resume` asks about a run folder that has come from elsewhere: whether it keeps what it would decide.

Its records are kept either way; the question is about paths out of the project and about models.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Final

import click

from skillrun.cli.loading import Loaded
from skillrun.cli.output import Output
from skillrun.cli.preview import StandIn
from skillrun.models.scripted import ScriptedGateway
from skillrun.runtime.foreign_runs import claims_text, foreign_claims, refuse_undecided
from skillrun.store.seal import CHANGE
from skillrun.store.stored_run import StoredRun

QUESTION: Final = "Take over what it says?"
NO: Final = "No goes on with what holds here."
NO_PATH: Final = f"No ends here; you may {CHANGE}."

adopt = click.option(
    "--adopt/--no-adopt",
    default=None,
    help="For a run folder from another machine: keep its models and paths, or use this project's.",
)


def decided(loaded: Loaded, run: StoredRun, by_flag: bool | None, out: Output, *, attended: bool) -> bool | None:
    """What was said, or what the person says in a terminal; None where nothing has to be decided.

    Raises SkillrunError where something has to be decided and nobody is there.
    """
    session = replace(loaded.session(ScriptedGateway(), StandIn()), adopt=by_flag)
    claims = foreign_claims(session, run) if by_flag is None else None
    if claims is None or not claims.matter:
        return by_flag
    if not (attended and sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())):
        refuse_undecided(session, run, claims)
    out.note(claims_text(claims))
    return click.confirm(f"{QUESTION} {NO_PATH if claims.paths else NO}", default=False, err=True)
