"""Reads the settings that only the user's config may contain: the store of runs. Opens no store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from skillrun.library.roots import Root
from skillrun.syntax.diagnostics import Problems, UsageError
from skillrun.syntax.source import Scalar

if TYPE_CHECKING:
    from skillrun.library.library import Library

CONFIG: Final = "skillrun"
STORE: Final = "store"


def user_store_url(roots: Iterable[Root]) -> str:
    """The URL of the store in the user's config; "" if not set. Raises UsageError."""
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
    """Report a store set by a project, because a cloned project could redirect runs."""
    config = library.config(CONFIG)
    source = library.files.get(("project", f"config/{CONFIG}.yaml"))
    for layer in config.layers if config is not None else ():
        entry = layer.entries.get(STORE) if layer.span.source is source else None
        if entry is not None and not (isinstance(entry.value, Scalar) and not entry.value.value):
            message = f"a project cannot set `{STORE}`: only your user config can set where runs are stored"
            hint = f"move it to `config/{CONFIG}.yaml` in your config folder, or set SKILLRUN_STORE"
            problems.report(entry.key.span, "users-only", message, hint)
