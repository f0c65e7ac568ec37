"""Another name for a thing, in every place of the project that names it, and for the file that it is.

Refuses with a reason whatever would leave something behind: shipped files, names that are taken, names that only a run
knows. Changes nothing itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillrun.definitions.reader import RESERVED_NAMES
from skillrun.extensions.lsp.declarations import declaration_ranges, list_declarations
from skillrun.extensions.lsp.references import find_references, symbols_at
from skillrun.extensions.lsp.slots import slot_at
from skillrun.extensions.lsp.symbol_index import SymbolIndex, TextRange
from skillrun.library.symbols import Symbol, SymbolReference
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import Mapping, Scalar
from skillrun.types.types import identifier

NAME_PATTERNS: Final = {
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
class RenameEdit:
    """Texts that take the place of stretches of files, and files that get another path."""

    edits: dict[Path, dict[tuple[int, int], str]] = field(default_factory=dict)
    files: tuple[tuple[Path, Path], ...] = ()


def resolve_rename_target(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> SymbolReference:
    """What stands at an offset and can have another name. Raises RenameRefused."""
    mentions = symbols_at(index, path, relative, text, offset)
    candidates = [reference for reference in mentions if reference.symbol.kind in NAME_PATTERNS]
    if not candidates:
        kind = mentions[0].symbol.kind if mentions else ""
        raise RenameRefused(FIXED.get(kind, "this is no name of a project's own"))
    reference = candidates[0]
    if len({each.symbol for each in candidates if each.length == reference.length}) > 1:
        raise RenameRefused(
            f"`{_source_text(reference)}` means several things here", "rename each where it is declared"
        )
    indexed_file = index.indexed_file(path)
    if indexed_file is None or indexed_file.source.text != text:
        raise RenameRefused("this file has errors, or has just been changed", "mend it first")
    _check_ownership(index, reference.symbol, _source_text(reference))
    return reference


def _source_text(reference: SymbolReference) -> str:
    start = reference.span.offset
    return reference.span.source.text[start : start + reference.length]


def _check_ownership(index: SymbolIndex, symbol: Symbol, name: str) -> None:
    """Whether all that names the thing is the project's own. Raises RenameRefused."""
    if symbol.path.startswith("config/models.yaml") or not declaration_ranges(index, symbol):
        raise RenameRefused(f"`{name}` is not declared in this project")
    project = index.library.project
    for place in (*declaration_ranges(index, symbol), *find_references(index, symbol)):
        if not place.path.is_relative_to(project) or _is_shipped(index, place.path):
            hint = f"`skillrun eject {symbol.path}` makes a file of your own; give it another name by hand"
            raise RenameRefused(f"`{name}` is named by files that ship with skillrun", hint)
    owner, dot, last = symbol.name.rpartition(".")
    if symbol.kind == "key" and last in slot_at("config", tuple(owner.split(".")) if owner else (), ()).keys:
        raise RenameRefused(f"`{name}` is a key of the language")
    if symbol.kind == "key" and Symbol("key", symbol.path, f"{owner}{dot}") in index.indexed_symbols:
        raise RenameRefused(f"what is in `{owner}` is read by names that only a run knows", "change it by hand")


def _is_shipped(index: SymbolIndex, path: Path) -> bool:
    """Whether a file is below a root that is not the project, where that is not around the project itself."""
    roots = [root.path for root in index.library.roots[1:]]
    project = index.library.project
    return any(path.is_relative_to(root) and not project.is_relative_to(root) for root in roots)


def rename(index: SymbolIndex, path: Path, relative: str, text: str, offset: int, name: str) -> RenameEdit:
    """What has to change for another name of what stands at an offset. Raises RenameRefused."""
    reference = resolve_rename_target(index, path, relative, text, offset)
    symbol = reference.symbol
    _check_name(index, symbol, name)
    edits: dict[Path, dict[tuple[int, int], str]] = {}
    texts = {file.source.path: file.source.text for file in index.files.values()}
    raw = _declared_name(index, symbol) or _source_text(reference)
    for place in find_references(index, symbol):
        content = texts.get(place.path) or place.path.read_text(encoding="utf-8")
        edits.setdefault(place.path, {})[place.start, place.end] = _format_name(index, place, content, raw, name)
    files = _file_renames(index, symbol, raw, name)
    if symbol.kind == "role":
        _rename_role_field(index, symbol, name, edits)
    return RenameEdit(edits, files)


def _check_name(index: SymbolIndex, symbol: Symbol, name: str) -> None:
    what = _KINDS.get(symbol.kind, symbol.kind)
    if not NAME_PATTERNS[symbol.kind].fullmatch(name):
        raise RenameRefused(f"`{name}` cannot be the name of this", "letters, digits, `-` and `_`")
    if symbol.kind == "local" and identifier(name) in RESERVED_NAMES:
        raise RenameRefused(f"`{name}` is the language's own name", "choose another")
    owner, dot, last = symbol.name.rpartition(".")
    if identifier(name) == identifier(last or symbol.name):
        raise RenameRefused(f"it is called `{name}` already")
    taken = Symbol(symbol.kind, symbol.path, f"{owner}{dot}{identifier(name) if symbol.kind != 'variant' else name}")
    if any(each.symbol == taken for each in list_declarations(index, symbol.path)):
        raise RenameRefused(f"there is a {what} `{name}` already", "choose another")


def _declared_name(index: SymbolIndex, symbol: Symbol) -> str:
    """The name as it is declared: a `-` in it is a `_` in expressions."""
    declared = (each for each in list_declarations(index, symbol.path) if each.symbol == symbol)
    return next((_source_text(each) for each in declared), "")


def _format_name(index: SymbolIndex, place: TextRange, text: str, raw: str, name: str) -> str:
    """The new name as it is written at a place: in an expression that is not in quotes a `-` is a `_`."""
    if text[place.start : place.end] != raw:
        return identifier(name)
    indexed_file = index.indexed_file(place.path)
    views = indexed_file.scopes if indexed_file is not None else ()
    inside = any(scope.start <= place.start < scope.end for scope in views)
    return identifier(name) if inside and text[place.start - 1 : place.start] not in ("'", '"') else name


def _file_renames(index: SymbolIndex, symbol: Symbol, raw: str, name: str) -> tuple[tuple[Path, Path], ...]:
    """The file that gets another path with its name. Raises RenameRefused where that is taken, or not the project's."""
    library_path, new = symbol.path, ""
    if symbol.kind in ("role", "protocol"):
        new = f"{library_path.rpartition('/')[0]}/{name}.md"
    elif symbol.kind == "phase":
        workflow = library_path.removeprefix("workflows/").removesuffix(".md")
        front = index.front(library_path)
        phases = front.get("phases") if front is not None else None
        use = phases.get(raw) if isinstance(phases, Mapping) else None
        if isinstance(use, Mapping) and "skill" in use.entries:
            return ()
        library_path, new = f"skills/{workflow}/{raw}.md", f"skills/{workflow}/{name}.md"
    if not new:
        return ()
    library = index.library
    if library.locate(new) is not None:
        raise RenameRefused(f"there is a file `{new}` already", "choose another name")
    place = library.locate(library_path)
    if place is None or not place[1].is_relative_to(library.project):
        raise RenameRefused(f"`{library_path}` is no file of this project")
    return ((place[1], library.project / new),)


def _rename_role_field(
    index: SymbolIndex, symbol: Symbol, name: str, edits: dict[Path, dict[tuple[int, int], str]]
) -> None:
    """The `name:` that a role's own file says."""
    front = index.front(symbol.path)
    node = front.get("name") if front is not None else None
    if isinstance(node, Scalar) and node.text is not None:
        start = node.text.at(0).offset
        edits.setdefault(node.span.source.path, {})[start, start + len(node.text.value)] = name
