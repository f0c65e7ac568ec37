"""Reads engine settings: the store in the user's config, and the budget limits of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from skillrun.library.library import Library
from skillrun.library.roots import Root
from skillrun.syntax.diagnostics import Problems, UsageError
from skillrun.syntax.source import Scalar, to_plain

if TYPE_CHECKING:
    from skillrun.library.library import Library

CONFIG: Final = "skillrun"
STORE: Final = "store"


def user_store_url(roots: Iterable[Root]) -> str:
    """Return the URL of the store in the user's config; "" if not set.

    Raises UsageError if the config is invalid.
    """
    user_roots = [root for root in roots if root.name == "user" and (root.path / "config" / f"{CONFIG}.yaml").exists()]
    if not user_roots:
        return ""
    from skillrun.library.library import Library

    library = Library(user_roots)
    config = library.config(CONFIG)
    for problem in library.problems:
        raise UsageError(f"{problem.path}:{problem.line}: {problem.message}", problem.hint)
    url = config.data.get(STORE) if config is not None else None
    if url is not None and not isinstance(url, str):
        raise UsageError(
            f"`{STORE}` of {user_roots[0].label}config/{CONFIG}.yaml must be text", "write it as postgresql://…"
        )
    return url or ""


def check_user_only_settings(library: Library, problems: Problems) -> None:
    """Report a store that a project sets, because a cloned project could redirect runs with it."""
    config = library.config(CONFIG)
    source = library.files.get(("project", f"config/{CONFIG}.yaml"))
    for layer in config.layers if config is not None else ():
        entry = layer.entries.get(STORE) if layer.span.source is source else None
        if entry is not None and not (isinstance(entry.value, Scalar) and not entry.value.value):
            message = f"a project cannot set `{STORE}`: only your user config can set where runs are stored"
            hint = f"move it to `config/{CONFIG}.yaml` in your config folder, or set SKILLRUN_STORE"
            problems.report(entry.key.span, "users-only", message, hint)


LIMIT_NAMES: Final = ("calls", "tokens", "price", "minutes")
WORDS: Final = {"calls": "calls", "tokens": "tokens", "price": "dollars", "minutes": "minutes"}


def load_budget(library: Library) -> dict[str, float]:
    """Return the budget limits in the config, keyed by name.

    A project can only lower the limits that the user's config and the shipped library set.
    """
    config = library.config("skillrun")
    layers = zip(config.roots, config.layers, strict=True) if config is not None else ()
    own: dict[str, float] = {}
    projects: dict[str, float] = {}
    for root, layer in layers:  # strongest first
        written = to_plain(layer).get("budgets") or {}
        limits = {name: limit for name, limit in written.items() if isinstance(limit, int | float)}
        if root == "project":
            projects = limits
        else:
            own = {**limits, **own}
    return {**own, **{name: min(limit, own.get(name, limit)) for name, limit in projects.items()}}
