"""What a run may decide by its own `state.md`: all of it where a run of this user has written it, else what is said.

`seal` says which is which.
"""

from __future__ import annotations

from typing import Final, NoReturn

from skillrun.runtime.run import Session
from skillrun.store.local.signing_key import key_trouble
from skillrun.store.seal import CHANGE_INPUT_HINT, Claims, find_claims, revoke_claims
from skillrun.store.state import State
from skillrun.store.stored_run import StoredRun
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import to_plain

FOREIGN_RUN: Final = "this run folder has come from elsewhere, or from an older skillrun"


def foreign_claims(session: Session, run: StoredRun) -> Claims | None:
    """What a run folder would decide that has come from elsewhere; None for one of this user's own."""
    state = run.state()
    if run.is_sealed(session.program, state, session.project):
        return None
    return find_claims(session.program, state, session.catalogue, session.environ, session.project)


def check_adoption_decision(session: Session, run: StoredRun) -> None:
    """Raises SkillrunError where somebody has to decide about a run folder from elsewhere, and nobody has."""
    claims = foreign_claims(session, run) if session.adopt is None else None
    if claims is not None and claims.has_claims:
        raise_undecided_error(session, run, claims)


def raise_undecided_error(session: Session, run: StoredRun, claims: Claims) -> NoReturn:
    """Raises SkillrunError with what has to be decided, and the ways to say it."""
    typed = f"skillrun resume {run.command_argument(session.project)}"
    other = f"or {CHANGE_INPUT_HINT}" if claims.paths else f"`{typed} --no-adopt` goes on with what holds here"
    raise SkillrunError(format_claims(claims), f"`{typed} --adopt` takes over what it says, {other}")


def format_claims(claims: Claims) -> str:
    """What a run folder from elsewhere would decide, a line each, and why the key does not tell whose it is."""
    trouble = key_trouble()
    unknown = [f"  whether you began it cannot be told: {trouble}"] if trouble else []
    return "\n".join([f"{FOREIGN_RUN}:", *(f"  {line}" for line in claims.lines), *unknown])


def apply_foreign_state(session: Session, state: State) -> list[str]:
    """Go on with a state that has come from elsewhere; what became of its powers, for people. Raises SkillrunError."""
    if session.adopt:
        state.project = str(session.project)
        return [f"{FOREIGN_RUN}; what it says was taken over"]
    claims = find_claims(session.program, state, session.catalogue, session.environ, session.project)
    revoke_claims(state, session.program, claims, session.project)
    return [f"{FOREIGN_RUN}; the project, the budget and the models are those of here"]


def effective_state(session: Session, run: StoredRun) -> State:
    """The state that a run folder goes on with, as far as it has powers. Raises SkillrunError."""
    state = run.state()
    if not run.is_sealed(session.program, state, session.project):
        apply_foreign_state(session, state)
    return state


def is_shared(session: Session) -> bool:
    """Whether others may read a run: by the flag, or because the user's own config says so; a project's does not."""
    config = session.program.library.config("skillrun")
    own = [root.path for root in session.program.library.roots if root.name == "user"]
    layers = config.layers if config is not None else ()
    return session.share or any(
        to_plain(layer).get("share") is True
        for layer in layers
        for root in own
        if layer.span.source.path.is_relative_to(root)
    )
