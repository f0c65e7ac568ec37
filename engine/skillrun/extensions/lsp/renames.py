"""Computes the edits of a rename: in the declaration, in all references, and in file names. Changes no file.

A rename that would be incomplete or ambiguous is refused with a reason, for example if shipped files use the name, if
the new name already exists, or if the name is known only during a run.
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
"""The kinds of symbols that can be renamed, each with a pattern for valid names."""
FIXED: Final = {
    "workflow": "the name of a workflow is also the name of its file and its phases' folder: rename these manually",
    "skill": "an Agent Skill is named after its folder: rename the folder",
    "config": "a config is named after its file: rename the file, and change `config:` in the workflow",
    "file": "a skill is named after its file: rename the file, and change its references",
    "field": "a field of a shape is also named in prompts and replies: rename it manually",
    "artifact": "an artifact is also named in prompts and by `read`: rename it manually",
}
_KINDS: Final = {"local": "name", "key": "key of the config", "state": "variable"}


class RenameRefused(SkillrunError):
    """The symbol cannot be renamed, or cannot get this name."""


@dataclass(frozen=True)
class RenameEdit:
    """The replacements in each file, keyed by start and end offset, and the files to move."""

    edits: dict[Path, dict[tuple[int, int], str]] = field(default_factory=dict)
    files: tuple[tuple[Path, Path], ...] = ()


def resolve_rename_target(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> SymbolReference:
    """Return the reference to the symbol to rename at an offset. Raises RenameRefused if it cannot be renamed."""
    mentions = symbols_at(index, path, relative, text, offset)
    candidates = [reference for reference in mentions if reference.symbol.kind in NAME_PATTERNS]
    if not candidates:
        kind = mentions[0].symbol.kind if mentions else ""
        raise RenameRefused(FIXED.get(kind, "only names that the project defines can be renamed"))
    reference = candidates[0]
    if len({each.symbol for each in candidates if each.length == reference.length}) > 1:
        raise RenameRefused(
            f"`{_source_text(reference)}` refers to several declarations here",
            "rename each of them where it is declared",
        )
    indexed_file = index.indexed_file(path)
    if indexed_file is None or indexed_file.source.text != text:
        raise RenameRefused("this file has errors or unchecked changes", "fix the errors, or try again")
    _check_ownership(index, reference.symbol, _source_text(reference))
    return reference


def _source_text(reference: SymbolReference) -> str:
    start = reference.span.offset
    return reference.span.source.text[start : start + reference.length]


def _check_ownership(index: SymbolIndex, symbol: Symbol, name: str) -> None:
    """Raise RenameRefused unless the declaration and all references are in files of the project."""
    if symbol.path.startswith("config/models.yaml") or not declaration_ranges(index, symbol):
        raise RenameRefused(f"`{name}` is not declared in this project")
    project = index.library.project
    for place in (*declaration_ranges(index, symbol), *find_references(index, symbol)):
        if not place.path.is_relative_to(project) or _is_shipped(index, place.path):
            hint = f"`skillrun eject {symbol.path}` copies the file into the project; then rename it manually"
            raise RenameRefused(f"`{name}` is used by files that ship with skillrun", hint)
    owner, dot, last = symbol.name.rpartition(".")
    if symbol.kind == "key" and last in slot_at("config", tuple(owner.split(".")) if owner else (), ()).keys:
        raise RenameRefused(f"`{name}` is a key of the language")
    if symbol.kind == "key" and Symbol("key", symbol.path, f"{owner}{dot}") in index.indexed_symbols:
        raise RenameRefused(
            f"the keys of `{owner}` are read by names known only during a run", "rename the key manually"
        )


def _is_shipped(index: SymbolIndex, path: Path) -> bool:
    """Whether a file is below a root other than the project. Roots that contain the project do not count."""
    roots = [root.path for root in index.library.roots[1:]]
    project = index.library.project
    return any(path.is_relative_to(root) and not project.is_relative_to(root) for root in roots)


def rename(index: SymbolIndex, path: Path, relative: str, text: str, offset: int, name: str) -> RenameEdit:
    """Return the edits that rename the symbol at an offset to `name`. Raises RenameRefused."""
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
        raise RenameRefused(f"`{name}` is not a valid name", "use letters, digits, `-` and `_`")
    if symbol.kind == "local" and identifier(name) in RESERVED_NAMES:
        raise RenameRefused(f"`{name}` is a reserved name", "choose another name")
    owner, dot, last = symbol.name.rpartition(".")
    if identifier(name) == identifier(last or symbol.name):
        raise RenameRefused(f"the name is already `{name}`")
    taken = Symbol(symbol.kind, symbol.path, f"{owner}{dot}{identifier(name) if symbol.kind != 'variant' else name}")
    if any(each.symbol == taken for each in list_declarations(index, symbol.path)):
        raise RenameRefused(f"the {what} `{name}` already exists", "choose another name")


def _declared_name(index: SymbolIndex, symbol: Symbol) -> str:
    """Return the name of a symbol as its declaration spells it. It may have `-` where expressions have `_`."""
    declared = (each for each in list_declarations(index, symbol.path) if each.symbol == symbol)
    return next((_source_text(each) for each in declared), "")


def _format_name(index: SymbolIndex, place: TextRange, text: str, raw: str, name: str) -> str:
    """Return the new name as a reference must spell it. In expressions, but not in quotes, `-` becomes `_`."""
    if text[place.start : place.end] != raw:
        return identifier(name)
    indexed_file = index.indexed_file(place.path)
    views = indexed_file.scopes if indexed_file is not None else ()
    inside = any(scope.start <= place.start < scope.end for scope in views)
    return identifier(name) if inside and text[place.start - 1 : place.start] not in ("'", '"') else name


def _file_renames(index: SymbolIndex, symbol: Symbol, raw: str, name: str) -> tuple[tuple[Path, Path], ...]:
    """Return the file to move, as old and new path; empty if no file moves.

    Raises RenameRefused if the new path exists, or if the file is not in the project.
    """
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
        raise RenameRefused(f"the file `{new}` already exists", "choose another name")
    place = library.locate(library_path)
    if place is None or not place[1].is_relative_to(library.project):
        raise RenameRefused(f"`{library_path}` is not a file of this project")
    return ((place[1], library.project / new),)


def _rename_role_field(
    index: SymbolIndex, symbol: Symbol, name: str, edits: dict[Path, dict[tuple[int, int], str]]
) -> None:
    """Add an edit of `name:` in the role's own file."""
    front = index.front(symbol.path)
    node = front.get("name") if front is not None else None
    if isinstance(node, Scalar) and node.text is not None:
        start = node.text.at(0).offset
        edits.setdefault(node.span.source.path, {})[start, start + len(node.text.value)] = name
