"""Validates the names of artifacts before they are used, because a run's files may be untrusted.

Every name is validated, whether it comes from a model, an author or an earlier record.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from skillrun.repository.confined_folder import LONGEST
from skillrun.repository.paths import PathRefused
from skillrun.store.state import STATE
from skillrun.types.schemas import quote_value

INBOX: Final = ".run/inbox"  # answers of users, until the run reads them
SUMMARIES: Final = "summaries"
FORBIDDEN_NAMES: Final = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl", "head"})
"""Names that turn a folder into a repository, whose hooks version control may execute. `HEAD` makes a bare one."""
MAX_PART_BYTES: Final = 240  # bytes: the limit of file systems, minus what temporary names add


def normalize_artifact_name(name: str) -> str:
    """Return the canonical name of an artifact, however its path is written.

    Raises PathRefused for a path outside of the run, and for files of the engine.
    """
    if not name.isprintable():
        raise PathRefused(f"{quote_value(name)} is not a name for an artifact: it has a non-printable character")
    if len(name) > LONGEST or any(len(part.encode(errors="replace")) > MAX_PART_BYTES for part in name.split("/")):
        raise PathRefused(f"{quote_value(name)} is not a name for an artifact: it is too long")
    if name.startswith("/"):
        raise PathRefused(
            f"{quote_value(name)} leads out of its folder", "It is absolute; use a path relative to the folder."
        )
    parts: list[str] = []
    for part in name.split("/"):
        if part == ".." and not parts:
            raise PathRefused(f"{quote_value(name)} leads out of its folder", "It goes up with `..`.")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    for part in parts:
        if part.casefold() in FORBIDDEN_NAMES:
            raise PathRefused(f"{quote_value(name)} is not a name for an artifact: version control uses `{part}`")
    top = "".join(parts[:1]).casefold()  # some file systems ignore case
    if top in ("", ".run", SUMMARIES, STATE) or top.startswith("round-"):
        raise PathRefused(f"`{name}` is not a name for an artifact: it belongs to the run itself")
    return "/".join(parts)


def variant_names(path: str) -> Iterator[str]:
    """Yield other names for a file: `plan.new.md`, `plan.new-2.md` and so on.

    They are used if the existing file may be a user's work.
    """
    stem, dot, suffix = path.rpartition(".")
    for number in count(1):
        new = "new" if number == 1 else f"new-{number}"
        yield f"{stem}.{new}.{suffix}" if dot and "/" not in suffix else f"{path}.{new}"


def is_artifact_name(name: Any) -> bool:
    """Whether a recorded name is a canonical artifact name."""
    try:
        return isinstance(name, str) and normalize_artifact_name(name) == name
    except PathRefused:
        return False
