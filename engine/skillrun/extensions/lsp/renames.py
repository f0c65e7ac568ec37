"""Computes the edits of a rename: in the declaration, in all references, and in file names. Changes no file.

A rename that would be incomplete or ambiguous is refused with a reason, for example if shipped files use the name, if
the new name already exists, or if the name is known only during a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillrun.definitions.reader import RESERVED_NAMES
from skillrun.extensions.lsp.references import declaration_ranges, find_references, list_declarations, symbols_at
from skillrun.extensions.lsp.slots import slot_at
from skillrun.extensions.lsp.symbol_index import SymbolIndex
from skillrun.library.symbols import Symbol, SymbolReference
from skillrun.syntax.diagnostics import Problems, SkillrunError
from skillrun.syntax.reading import read_source
from skillrun.syntax.source import Mapping, Scalar
from skillrun.types.types import identifier

_STEP_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_FIELD_NAME: Final = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII)
NAME_PATTERNS: Final = {
    **dict.fromkeys(("local", "phase", "seat"), _STEP_NAME),
    **dict.fromkeys(("input", "state", "output", "key"), _FIELD_NAME),
    **dict.fromkeys(("role", "variant", "protocol"), _FILE_NAME),
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


class RenameRefused(SkillrunError):
    """The symbol cannot be renamed, or cannot get the new name."""


@dataclass(frozen=True)
class RenameEdit:
    """The replacements in each file, keyed by start and end offset, and the files to move."""

    edits: dict[Path, dict[tuple[int, int], str]]
    files: tuple[tuple[Path, Path], ...]


def resolve_rename_target(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> SymbolReference:
    """Return the reference to the symbol to rename at an offset. Raises RenameRefused if it cannot be renamed."""
    references = symbols_at(index, path, relative, text, offset)
    candidates = [reference for reference in references if reference.symbol.kind in NAME_PATTERNS]
    if not candidates:
        kind = references[0].symbol.kind if references else ""
        raise RenameRefused(FIXED.get(kind, "only names that the project defines can be renamed"))
    reference = candidates[0]
    if len({each.symbol for each in candidates if each.length == reference.length}) > 1:
        raise RenameRefused(
            f"`{reference.text}` refers to several declarations here",
            "rename each symbol at its declaration",
        )
    indexed_file = index.files.get(path)
    if indexed_file is None or indexed_file.source.text != text:
        raise RenameRefused("this file has errors or unchecked changes", "fix the errors, or try again")
    _check_ownership(index, reference.symbol, reference.text)
    return reference


def _check_ownership(index: SymbolIndex, symbol: Symbol, name: str) -> None:
    """Raise RenameRefused if a declaration or reference is outside the files of the project."""
    declared = declaration_ranges(index, symbol)
    if symbol.path.startswith("config/models.yaml") or not declared:
        raise RenameRefused(f"`{name}` is not declared in this project")
    project, *others = (root.path for root in index.library.roots)
    # the project may be inside another root, and the other way round
    shipped = [root for root in others if not project.is_relative_to(root)]
    for place in (*declared, *find_references(index, symbol)):
        if not place.path.is_relative_to(project) or any(place.path.is_relative_to(root) for root in shipped):
            hint = f"`skillrun eject {symbol.path}` copies the file into the project; then rename it manually"
            raise RenameRefused(f"`{name}` is used by files that ship with skillrun", hint)
    owner, dot, last = symbol.name.rpartition(".")
    if symbol.kind == "key" and last in slot_at("config", tuple(owner.split(".")) if owner else (), ()).keys:
        raise RenameRefused(f"`{name}` is a key of the language")
    if symbol.kind == "key" and Symbol("key", symbol.path, f"{owner}{dot}") in index.indexed_symbols:
        raise RenameRefused(
            f"the keys of `{owner}` are read by names that are known only during a run", "rename the key manually"
        )


def rename(index: SymbolIndex, path: Path, relative: str, text: str, offset: int, name: str) -> RenameEdit:
    """Return the edits that rename the symbol at an offset to `name`. Raises RenameRefused."""
    reference = resolve_rename_target(index, path, relative, text, offset)
    symbol = reference.symbol
    declarations = list_declarations(index, symbol.path)
    _check_name(symbol, name, declarations)
    # the declaration may spell the name with `-` where expressions have `_`
    old = next((each.text for each in declarations if each.symbol == symbol), reference.text)
    edits: dict[Path, dict[tuple[int, int], str]] = {}
    for place in find_references(index, symbol):
        file = index.files.get(place.path)
        boundary = index.library.project if place.path.is_relative_to(index.library.project) else None
        source = file.source if file is not None else read_source(place.path, "", Problems(), boundary=boundary)
        if source is None:
            raise RenameRefused(f"{place.path} cannot be read", "save it as a text file in the project")
        content = source.text
        # in expressions, but not in quotes, `-` becomes `_`
        inside = file is not None and any(scope.start <= place.start < scope.end for scope in file.scopes)
        is_expression = inside and content[place.start - 1 : place.start] not in ("'", '"')
        has_other_spelling = content[place.start : place.end] != old
        new = identifier(name) if is_expression or has_other_spelling else name
        edits.setdefault(place.path, {})[place.start, place.end] = new
    front = index.front(symbol.path) if symbol.kind == "role" else None
    role_name = front.get("name") if front is not None else None
    if isinstance(role_name, Scalar) and role_name.text is not None:
        start = role_name.text.at(0).offset
        edits.setdefault(role_name.span.source.path, {})[start, start + len(role_name.text.value)] = name
    return RenameEdit(edits, _file_renames(index, symbol, old, name))


def _check_name(symbol: Symbol, name: str, declarations: Iterable[SymbolReference]) -> None:
    if not NAME_PATTERNS[symbol.kind].fullmatch(name):
        raise RenameRefused(f"`{name}` is not a valid name", "use letters, digits, `-` and `_`")
    if symbol.kind == "local" and identifier(name) in RESERVED_NAMES:
        raise RenameRefused(f"`{name}` is a reserved name", "choose another name")
    owner, dot, last = symbol.name.rpartition(".")
    if identifier(name) == identifier(last or symbol.name):
        raise RenameRefused(f"the name is already `{name}`")
    taken = Symbol(symbol.kind, symbol.path, f"{owner}{dot}{identifier(name) if symbol.kind != 'variant' else name}")
    if any(each.symbol == taken for each in declarations):
        what = {"local": "name", "key": "key of the config", "state": "variable"}.get(symbol.kind, symbol.kind)
        raise RenameRefused(f"the {what} `{name}` already exists", "choose another name")


def _file_renames(index: SymbolIndex, symbol: Symbol, old: str, name: str) -> tuple[tuple[Path, Path], ...]:
    """Return the file to move, as old and new path; empty if no file moves.

    Raises RenameRefused if the new path exists, or if the file is not in the project.
    """
    library_path = symbol.path
    if symbol.kind in ("role", "protocol"):
        new = f"{library_path.rpartition('/')[0]}/{name}.md"
    elif symbol.kind == "phase":
        front = index.front(library_path)
        phases = front.get("phases") if front is not None else None
        use = phases.get(old) if isinstance(phases, Mapping) else None
        if isinstance(use, Mapping) and "skill" in use.entries:
            return ()
        folder = f"skills/{library_path.removeprefix('workflows/').removesuffix('.md')}"
        library_path, new = f"{folder}/{old}.md", f"{folder}/{name}.md"
    else:
        return ()
    library = index.library
    if library.locate(new) is not None:
        raise RenameRefused(f"the file `{new}` already exists", "choose another name")
    place = library.locate(library_path)
    if place is None or not place[1].is_relative_to(library.project):
        raise RenameRefused(f"`{library_path}` is not a file of this project")
    return ((place[1], library.project / new),)
