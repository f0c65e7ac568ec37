"""Another name for a thing, in every place of the project that names it, and for the file that it is.

Refuses with a reason whatever would leave something behind: shipped files, names that are taken, names that only a run
knows. Changes nothing itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillrun.definitions.reader import OWN_NAMES
from skillrun.extensions.lsp.declarations import declared_in, places_of
from skillrun.extensions.lsp.references import references, things_at
from skillrun.extensions.lsp.slots import slot_at
from skillrun.extensions.lsp.symbol_index import Knowledge, Stretch
from skillrun.library.symbols import Mention, Thing
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import Mapping, Scalar
from skillrun.types.types import identifier

NAMES: Final = {
    "local": re.compile(r"[A-Za-z][A-Za-z0-9_-]*"),
    "phase": re.compile(r"[A-Za-z][A-Za-z0-9_-]*"),
    "seat": re.compile(r"[A-Za-z][A-Za-z0-9_-]*"),
    "input": re.compile(r"[A-Za-z_][\w-]*", re.ASCII),
    "state": re.compile(r"[A-Za-z_][\w-]*", re.ASCII),
    "output": re.compile(r"[A-Za-z_][\w-]*", re.ASCII),
    "key": re.compile(r"[A-Za-z_][\w-]*", re.ASCII),
    "role": re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII),
    "variant": re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII),
    "protocol": re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII),
}
"""The kinds of things that can get another name, and what that may be."""
FIXED: Final = {
    "workflow": "a workflow is its file, its command and the folder of its phases: rename those",
    "skill": "an Agent Skill has the name of its folder: rename that",
    "config": "a config has the name of its file: rename that, and change `config:` of the workflow",
    "file": "a skill has the name of its file: rename that, and change what names it",
    "field": "a field of a shape is also named in prompts and by replies: change it by hand",
    "artifact": "an artifact is also named in prompts and by `read`: change it by hand",
}
_KINDS: Final = {"local": "name", "key": "key of the config", "state": "variable"}


class RenameRefused(SkillrunError):
    """The thing cannot have another name, or not this one."""


@dataclass(frozen=True)
class Renaming:
    """Texts that take the place of stretches of files, and files that get another path."""

    edits: dict[Path, dict[tuple[int, int], str]] = field(default_factory=dict)
    files: tuple[tuple[Path, Path], ...] = ()


def renameable(knowledge: Knowledge, path: Path, relative: str, text: str, offset: int) -> Mention:
    """What stands at an offset and can have another name. Raises RenameRefused."""
    mentions = things_at(knowledge, path, relative, text, offset)
    able = [mention for mention in mentions if mention.thing.kind in NAMES]
    if not able:
        kind = mentions[0].thing.kind if mentions else ""
        raise RenameRefused(FIXED.get(kind, "this is no name of a project's own"))
    mention = able[0]
    if len({each.thing for each in able if each.length == mention.length}) > 1:
        raise RenameRefused(f"`{_written(mention)}` means several things here", "rename each where it is declared")
    sighted = knowledge.sighted(path)
    if sighted is None or sighted.source.text != text:
        raise RenameRefused("this file has errors, or has just been changed", "mend it first")
    _check_own(knowledge, mention.thing, _written(mention))
    return mention


def _written(mention: Mention) -> str:
    start = mention.span.offset
    return mention.span.source.text[start : start + mention.length]


def _check_own(knowledge: Knowledge, thing: Thing, name: str) -> None:
    """Whether all that names the thing is the project's own. Raises RenameRefused."""
    if thing.home.startswith("config/models.yaml") or not places_of(knowledge, thing):
        raise RenameRefused(f"`{name}` is not declared in this project")
    project = knowledge.library.project
    for place in (*places_of(knowledge, thing), *references(knowledge, thing)):
        if not place.path.is_relative_to(project) or _is_shipped(knowledge, place.path):
            hint = f"`skillrun eject {thing.home}` makes a file of your own; give it another name by hand"
            raise RenameRefused(f"`{name}` is named by files that ship with skillrun", hint)
    owner, dot, last = thing.name.rpartition(".")
    if thing.kind == "key" and last in slot_at("config", tuple(owner.split(".")) if owner else (), ()).keys:
        raise RenameRefused(f"`{name}` is a key of the language")
    if thing.kind == "key" and Thing("key", thing.home, f"{owner}{dot}") in knowledge.indexed:
        raise RenameRefused(f"what is in `{owner}` is read by names that only a run knows", "change it by hand")


def _is_shipped(knowledge: Knowledge, path: Path) -> bool:
    """Whether a file is below a root that is not the project, where that is not around the project itself."""
    roots = [root.path for root in knowledge.library.roots[1:]]
    project = knowledge.library.project
    return any(path.is_relative_to(root) and not project.is_relative_to(root) for root in roots)


def rename(knowledge: Knowledge, path: Path, relative: str, text: str, offset: int, name: str) -> Renaming:
    """What has to change for another name of what stands at an offset. Raises RenameRefused."""
    mention = renameable(knowledge, path, relative, text, offset)
    thing = mention.thing
    _check_name(knowledge, thing, name)
    edits: dict[Path, dict[tuple[int, int], str]] = {}
    texts = {file.source.path: file.source.text for file in knowledge.files.values()}
    raw = _declared_name(knowledge, thing) or _written(mention)
    for place in references(knowledge, thing):
        here = texts.get(place.path) or place.path.read_text(encoding="utf-8")
        edits.setdefault(place.path, {})[place.start, place.end] = _form(knowledge, place, here, raw, name)
    files = _files(knowledge, thing, raw, name)
    if thing.kind == "role":
        _rename_inside(knowledge, thing, name, edits)
    return Renaming(edits, files)


def _check_name(knowledge: Knowledge, thing: Thing, name: str) -> None:
    what = _KINDS.get(thing.kind, thing.kind)
    if not NAMES[thing.kind].fullmatch(name):
        raise RenameRefused(f"`{name}` cannot be the name of this", "letters, digits, `-` and `_`")
    if thing.kind == "local" and identifier(name) in OWN_NAMES:
        raise RenameRefused(f"`{name}` is the language's own name", "choose another")
    owner, dot, last = thing.name.rpartition(".")
    if identifier(name) == identifier(last or thing.name):
        raise RenameRefused(f"it is called `{name}` already")
    taken = Thing(thing.kind, thing.home, f"{owner}{dot}{identifier(name) if thing.kind != 'variant' else name}")
    if any(each.thing == taken for each in declared_in(knowledge, thing.home)):
        raise RenameRefused(f"there is a {what} `{name}` already", "choose another")


def _declared_name(knowledge: Knowledge, thing: Thing) -> str:
    """The name as it is declared: a `-` in it is a `_` in expressions."""
    declared = (each for each in declared_in(knowledge, thing.home) if each.thing == thing)
    return next((_written(each) for each in declared), "")


def _form(knowledge: Knowledge, place: Stretch, text: str, raw: str, name: str) -> str:
    """The new name as it is written at a place: in an expression that is not in quotes a `-` is a `_`."""
    if text[place.start : place.end] != raw:
        return identifier(name)
    sighted = knowledge.sighted(place.path)
    views = sighted.views if sighted is not None else ()
    inside = any(view.start <= place.start < view.end for view in views)
    return identifier(name) if inside and text[place.start - 1 : place.start] not in ("'", '"') else name


def _files(knowledge: Knowledge, thing: Thing, raw: str, name: str) -> tuple[tuple[Path, Path], ...]:
    """The file that gets another path with its name. Raises RenameRefused where that is taken, or not the project's."""
    home, new = thing.home, ""
    if thing.kind in ("role", "protocol"):
        new = f"{home.rpartition('/')[0]}/{name}.md"
    elif thing.kind == "phase":
        workflow = home.removeprefix("workflows/").removesuffix(".md")
        front = knowledge.front(home)
        phases = front.get("phases") if front is not None else None
        use = phases.get(raw) if isinstance(phases, Mapping) else None
        if isinstance(use, Mapping) and "skill" in use.entries:
            return ()
        home, new = f"skills/{workflow}/{raw}.md", f"skills/{workflow}/{name}.md"
    if not new:
        return ()
    library = knowledge.library
    if library.locate(new) is not None:
        raise RenameRefused(f"there is a file `{new}` already", "choose another name")
    place = library.locate(home)
    if place is None or not place[1].is_relative_to(library.project):
        raise RenameRefused(f"`{home}` is no file of this project")
    return ((place[1], library.project / new),)


def _rename_inside(
    knowledge: Knowledge, thing: Thing, name: str, edits: dict[Path, dict[tuple[int, int], str]]
) -> None:
    """The `name:` that a role's own file says."""
    front = knowledge.front(thing.home)
    node = front.get("name") if front is not None else None
    if isinstance(node, Scalar) and node.text is not None:
        start = node.text.at(0).offset
        edits.setdefault(node.span.source.path, {})[start, start + len(node.text.value)] = name
