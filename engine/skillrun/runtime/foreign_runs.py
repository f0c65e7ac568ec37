"""Restricts which settings a run takes from the `state.md` of a folder that comes from another source.

The seal in `state.md` (see `store.seal`) shows whether a run of this user has written the file.
"""

from __future__ import annotations

from typing import Final, NoReturn

from skillrun.library.roots import USER
from skillrun.runtime.run import Session
from skillrun.store.local.signing_key import key_trouble
from skillrun.store.seal import CHANGE_INPUT_HINT, Claims, find_claims, revoke_claims
from skillrun.store.state import State
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import to_plain

FOREIGN_RUN: Final = "this run folder is from another source, or from an older version of skillrun"


def foreign_claims(session: Session, run: StoredRun) -> Claims | None:
    """Return the settings that a run folder from another source contains; None for a folder of this user."""
    state = run.state()
    if run.is_sealed(session.program, state, session.options.project):
        return None
    return _find_claims(session, state)


def _find_claims(session: Session, state: State) -> Claims:
    services = session.services
    return find_claims(session.program, state, services.catalogue, services.environ, session.options.project)


def check_adoption_decision(session: Session, run: StoredRun) -> None:
    """Raise SkillrunError if the user must first decide whether to keep the settings of a foreign run folder."""
    claims = foreign_claims(session, run) if session.options.adopt is None else None
    if claims is not None and claims.has_claims:
        raise_undecided_error(session, run, claims)


def raise_undecided_error(session: Session, run: StoredRun, claims: Claims) -> NoReturn:
    """Raise SkillrunError, which lists the settings and the commands with which the user decides about them."""
    typed = f"skillrun resume {run.command_argument(session.options.project)}"
    other = f"or {CHANGE_INPUT_HINT}" if claims.paths else f"`{typed} --no-adopt` uses this project's settings"
    raise SkillrunError(format_claims(claims), f"`{typed} --adopt` keeps these settings, {other}")


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
        return [f"{FOREIGN_RUN}; its settings were kept"]
    claims = _find_claims(session, state)
    revoke_claims(state, session.program, claims, session.options.project)
    return [f"{FOREIGN_RUN}; it uses this project, its budget and its models"]


def effective_state(session: Session, run: StoredRun) -> State:
    """Return the state with which a run resumes. A foreign state is adopted or restricted. Raises SkillrunError."""
    state = run.state()
    if not run.is_sealed(session.program, state, session.options.project):
        apply_foreign_state(session, state)
    return state


def is_shared(session: Session) -> bool:
    """Return whether other users may read a run. The flag or the user's config allows it, never a project's config."""
    layers = session.program.library.layers("skillrun")
    return session.options.share or any(to_plain(layer).get("share") is True for root, layer in layers if root == USER)
