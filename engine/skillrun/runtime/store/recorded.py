"""What stands in the files of a run as a name or a number, before it is used: they may come from anybody.

The one guard for the names of artifacts, whether a model, an author or an earlier record gives them; and the fields of
a summary, without those that no run can have written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final

from skillrun.language.types.schemas import shown
from skillrun.runtime.store.bodies import is_number, is_text, is_whole
from skillrun.runtime.store.state import MOST_ROUNDS, STATE
from skillrun.tools.paths import PathRefused
from skillrun.tools.tree import LONGEST

SUMMARIES: Final = "summaries"
NEVER: Final = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl", "head"})
"""Names in which version control finds a repository, with hooks and programs to start; `HEAD` makes a bare one."""
LONGEST_PART: Final = 240  # bytes: what a file system allows, less what a name has while it is written


def artifact(name: str) -> str:
    """The one name of an artifact, however its path is written.

    Raises PathRefused when it would lie outside of the run, or in a file of the engine's.
    """
    if not name.isprintable():
        raise PathRefused(f"{shown(name)} is not a name for an artifact: it has a character that is not seen")
    if len(name) > LONGEST or any(len(part.encode(errors="replace")) > LONGEST_PART for part in name.split("/")):
        raise PathRefused(f"{shown(name)} is not a name for an artifact: it is too long")
    if name.startswith("/"):
        raise PathRefused(f"{shown(name)} leads out of its folder", "It is absolute; write it from the folder on.")
    parts: list[str] = []
    for part in name.split("/"):
        if part == ".." and not parts:
            raise PathRefused(f"{shown(name)} leads out of its folder", "It goes up with `..`.")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    for part in parts:
        if part.casefold() in NEVER:
            raise PathRefused(f"{shown(name)} is not a name for an artifact: programs take orders from a `{part}`")
    top = "".join(parts[:1]).casefold()  # some file systems know no case
    if top in ("", ".run", SUMMARIES, STATE) or top.startswith("round-"):
        raise PathRefused(f"`{name}` is not a name for an artifact: it belongs to the run itself")
    return "/".join(parts)


def names_beside(path: str) -> Iterator[str]:
    """`plan.new.md`, `plan.new-2.md` and so on: what stands there already may be somebody's work."""
    stem, dot, suffix = path.rpartition(".")
    for number in count(1):
        new = "new" if number == 1 else f"new-{number}"
        yield f"{stem}.{new}.{suffix}" if dot and "/" not in suffix else f"{path}.{new}"


def is_artifact(name: Any) -> bool:
    """Whether a recorded name is one that a run has given to an artifact."""
    try:
        return isinstance(name, str) and artifact(name) == name
    except PathRefused:
        return False


def summary_fields(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """A summary without what no run can have written there; and what that was, behind the key where it stands."""
    kept: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    for key, value in data.items():
        fits = FIELDS.get(key)
        if key == "artifacts" and isinstance(value, list):
            kept[key] = [name for name in value if is_artifact(name)]
            wrong += [(key, f"{shown(name)} is no artifact of this run") for name in value if not is_artifact(name)]
        elif value is None or fits is None or fits(value):
            kept[key] = value
        else:
            wrong.append((key, f"`{key}` is {shown(value)}, and that is not what a run writes there"))
    return {key: value for key, value in kept.items() if value is not None or key not in FIELDS}, wrong


def _is_count(value: Any) -> bool:
    return is_whole(value) and value <= MOST_ROUNDS


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _mapping_to(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _is_usage(value: Any) -> bool:
    return isinstance(value, dict) and all(
        is_number(one) or (key == "price" and one is None) for key, one in value.items()
    )


def _is_goto(value: Any) -> bool:
    return _mapping_to(is_text)(value) and {"target", "step"} <= value.keys()


FIELDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("phase", "status", "checkpoint", "summary", "reason", "entry_type"), is_text),
    **dict.fromkeys(("number", "round"), _is_count),
    **dict.fromkeys(("key_decisions", "open_questions", "risks_identified"), _list_of(_is_mapping)),
    **dict.fromkeys(("quality_warnings", "asked", "artifacts", "left_out"), _list_of(is_text)),
    **dict.fromkeys(("flags", "outputs", "set"), _is_mapping),
    "prompts": _mapping_to(_mapping_to(is_whole)),
    "failures": _mapping_to(_is_count),
    "usage": _is_usage,
    "goto": _is_goto,
}
