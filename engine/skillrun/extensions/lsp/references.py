"""Finds the symbols at a position, and the declarations and references of symbols in all files of a project.

The checker has recorded the references in library files. This module reads the declarations, which are names in the
frontmatter of a file or whole files, and the references in test cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skillrun.extensions.lsp.symbol_index import SymbolIndex, TextRange, map_offset
from skillrun.extensions.testing.cases import CaseFile, case_files
from skillrun.library.symbols import Symbol, SymbolReference
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Mapping, Node, Scalar, Source, entries_of, items_of
from skillrun.types.types import identifier

FILE_KINDS: Final = ("role", "protocol", "workflow", "file", "skill", "config")
"""The kinds of symbols that are whole files."""
_NOTATION: Final = re.compile(r"[?(].*", re.DOTALL)
"""Matches what follows the name in a key that declares a field."""
_STEP: Final = re.compile(r"[A-Za-z][\w-]*(?![^#~@])")
"""Matches a phase or step in an address, if no pass, item or round follows."""


def symbols_at(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> list[SymbolReference]:
    """Return the references and declarations at an offset, shortest first."""
    indexed_file = index.files.get(path)
    references: list[SymbolReference] = []
    if indexed_file is not None:
        place = map_offset(indexed_file.source.text, text, offset)
        for reference in indexed_file.references:
            start, end = reference.span.offset, reference.span.offset + reference.length
            now = text[start + offset - place : end + offset - place]
            if start <= place <= end and now == reference.text:
                references.append(reference)
    is_case = relative.startswith("tests/")
    declarations = case_references(index, path) if is_case else list_declarations(index, relative)
    places: dict[Source, int] = {}
    for reference in declarations:
        source, start = reference.span
        if source.path == path and source not in places:
            places[source] = map_offset(source.text, text, offset)
        is_state_reference = any(each.symbol.kind == "state" and each.span == reference.span for each in references)
        if source in places and start <= places[source] <= start + reference.length and not is_state_reference:
            references.append(reference)
    unique = {(each.span.offset, each.symbol): each for each in references}
    return sorted(unique.values(), key=lambda reference: reference.length)


def find_definitions(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> list[TextRange]:
    """Return the declarations of the symbol at an offset.

    At the declaration of a phase, return the phase's file instead.
    """
    ranges: dict[TextRange, None] = {}
    for reference in symbols_at(index, path, relative, text, offset):
        symbol = reference.symbol
        targets = declaration_ranges(index, symbol)
        if symbol.kind == "phase" and text_range(reference) in targets:
            uses = index.phase_uses(symbol.path)
            skill = next((use.skill for use in uses if identifier(use.name) == symbol.name), "")
            targets = declaration_ranges(index, Symbol("file", f"skills/{skill}.md", skill)) or targets
        ranges |= dict.fromkeys(targets)
    return list(ranges)


def find_references(index: SymbolIndex, symbol: Symbol, *, declaring: bool = True) -> list[TextRange]:
    """Return all references to a symbol, sorted by file and position. `declaring` includes the declarations."""
    declared = {text_range(each) for each in list_declarations(index, symbol.path) if each.symbol == symbol}
    recorded = (reference for file in index.files.values() for reference in file.references)
    uses = {text_range(each) for each in (*recorded, *case_references(index)) if each.symbol == symbol}
    return sorted(uses | declared if declaring else uses - declared)


def text_range(reference: SymbolReference) -> TextRange:
    """Return the range of a reference in its file."""
    source, start = reference.span
    return TextRange(source.path, start, start + reference.length)


# declarations


def file_symbol(relative: str) -> Symbol | None:
    """Return the symbol that stands for a whole library file; None for any other file."""
    folder, _, rest = relative.partition("/")
    name = rest.rpartition(".")[0]
    kind = {"roles": "role", "workflows": "workflow", "config": "config", "skills": "file"}.get(folder)
    if folder == "skills" and name.endswith("/SKILL"):
        kind, name = "skill", name.removesuffix("/SKILL")
    elif folder == "skills" and name.startswith("protocols/"):
        kind, name = "protocol", name.removeprefix("protocols/")
    return Symbol(kind, relative, name) if kind is not None else None


def declaration_ranges(index: SymbolIndex, symbol: Symbol) -> list[TextRange]:
    """Return the ranges where a symbol is declared; empty if it is not declared. Files come by precedence."""
    if symbol.kind in FILE_KINDS:
        place = index.library.locate(symbol.path)
        return [TextRange(place[1], 0, 0)] if place is not None else []
    ranges = [text_range(each) for each in list_declarations(index, symbol.path) if each.symbol == symbol]
    if not ranges and symbol.kind == "field":
        return declaration_ranges(index, Symbol("local", symbol.path, symbol.name.partition(".")[0]))
    return ranges


def list_declarations(index: SymbolIndex, library_path: str) -> list[SymbolReference]:
    """Return the symbols declared in the frontmatter of a library file, or in any layer of a config."""
    folder, _, name = library_path.partition("/")
    if folder == "config":
        config = index.library.config(name.removesuffix(".yaml"))
        layers = config.layers if config is not None else ()
        return [reference for layer in layers for reference in _config_keys(layer, library_path, ())]
    front = index.front(library_path)
    return list(_declarations(front, library_path)) if isinstance(front, Mapping) else []


def _declarations(front: Mapping, library_path: str) -> Iterator[SymbolReference]:
    if library_path.startswith("roles/"):
        yield from _keys(front.get("variants"), "variant", library_path, identifiers=False)
    else:
        for kind, part in (("input", "inputs"), ("state", "state"), ("output", "outputs"), ("phase", "phases")):
            yield from _keys(front.get(part), kind, library_path)
    for seat in items_of(front.get("seats")):
        yield from _reference(seat, "seat", library_path, str(getattr(seat, "value", "")))
    yield from _steps(front.get("steps"), library_path)


def _reference(
    node: Node | None, kind: str, library_path: str, name: str | None = None, length: int | None = None
) -> Iterator[SymbolReference]:
    """Yield a reference if `node` is a text. By default, the text is the name of the symbol."""
    if isinstance(node, Scalar) and node.text is not None:
        written = node.text.value
        symbol = Symbol(kind, library_path, identifier(written) if name is None else name)
        yield SymbolReference(node.text.at(0), len(written) if length is None else length, symbol)


def _keys(node: Node | None, kind: str, library_path: str, *, identifiers: bool = True) -> Iterator[SymbolReference]:
    for key, entry in entries_of(node).items():
        name = _NOTATION.sub("", key)
        yield from _reference(entry.key, kind, library_path, identifier(name) if identifiers else name, len(name))


def _config_keys(node: Node, library_path: str, path: tuple[str, ...]) -> Iterator[SymbolReference]:
    for key, entry in entries_of(node).items():
        inner = (*path, identifier(key))
        yield from _reference(entry.key, "key", library_path, ".".join(inner))
        yield from _config_keys(entry.value, library_path, inner)


def _steps(node: Node | None, library_path: str) -> Iterator[SymbolReference]:
    """Yield the declarations in a list of steps, or in a single step."""
    if isinstance(node, Mapping):
        id_ = node.get("id")
        yield from _reference(id_, "local", library_path)
        yield from _keys(node.get("set"), "local", library_path)
        if "each" in node.entries:
            yield from _reference(node.get("as"), "local", library_path)
        for part in ("output", "shape", "record"):
            yield from _fields(node.get(part), library_path, identifier(str(getattr(id_, "value", ""))))
        for part in ("write", "writes"):
            yield from _reference(node.get(part), "artifact", library_path)
        for part in ("repeat", "steps", "otherwise"):
            yield from _steps(node.get(part), library_path)
    for step in items_of(node):
        yield from _steps(step, library_path)


def _fields(node: Node | None, library_path: str, path: str) -> Iterator[SymbolReference]:
    """Yield the fields of a shape. The name of each symbol is the field's path in expressions."""
    for key, entry in entries_of(node).items():
        written, _, form = key.partition("(")
        name = written.removesuffix("?")
        inner = f"{path}.{identifier(name)}"
        yield from _reference(entry.key, "field", library_path, inner, len(name))
        yield from _fields(entry.value, library_path, f"{inner}.[]" if form.startswith("array") else inner)


# cases


def case_references(index: SymbolIndex, path: Path | None = None) -> Iterator[SymbolReference]:
    """Yield the references to workflows in the project's test cases, or in the case at `path`."""
    for file in case_files(index.library.project):
        if path in (None, file.path):
            yield from _references_in_case(index, file)


def _references_in_case(index: SymbolIndex, file: CaseFile) -> Iterator[SymbolReference]:
    document = file.document(Problems.without_limit(), index.library.project, index.library.unsaved.get(file.path))
    if document is None:
        return
    library_path = f"workflows/{file.workflow}.md"
    yield from _keys(document.frontmatter.get("inputs"), "input", library_path)
    yield from _address_references(index, file.workflow, document.frontmatter)
    expect = document.frontmatter.get("expect")
    if not isinstance(expect, Mapping):
        return
    for item in items_of(expect.get("path")):
        yield from _reference(item, "phase", library_path)
    for part in ("outputs", "flags"):
        yield from _keys(expect.get(part), "phase", library_path)
    outputs = expect.get("outputs")
    skills = {use.name: use.skill for use in index.phase_uses(library_path)}
    for name, entry in entries_of(outputs).items():
        if name in skills:
            yield from _keys(entry.value, "output", f"skills/{skills[name]}.md")


def _address_references(index: SymbolIndex, name: str, front: Mapping) -> Iterator[SymbolReference]:
    """Yield the references to phases and steps in the addresses of a case.

    An address is `workflow/phase/step/…`, or a pattern. A name in a pattern is a reference only if exactly one phase or
    step has that name.
    """
    uses = list(index.phase_uses(name))
    phases = {use.name: Symbol("phase", f"workflows/{name}.md", identifier(use.name)) for use in uses}
    steps = {
        use.name: {
            each.text: each.symbol
            for each in list_declarations(index, f"skills/{use.skill}.md")
            if each.symbol.kind == "local"
        }
        for use in uses
    }
    symbols_by_name: dict[str, list[Symbol]] = {}
    for several in (phases, *steps.values()):
        for named, symbol in several.items():
            symbols_by_name.setdefault(named, []).append(symbol)
    for node in _address_nodes(front):
        text = node.text if isinstance(node, Scalar) else None
        segments = text.value.split("/") if text is not None else []
        exact = segments[:1] == [name] and segments[1:2] != [] and segments[1] in phases
        at = 0
        for number, segment in enumerate(segments):
            word = _STEP.match(segment)
            matches: list[Symbol] = []
            if exact and number == 1:
                matches = [phases[segment]]
            elif exact and number == 2 and word is not None:
                matches = [steps[segments[1]][word[0]]] if word[0] in steps[segments[1]] else []
            elif not exact and word is not None and segments[0] == "*":
                matches = symbols_by_name.get(word[0], [])
            if text is not None and word is not None and len(matches) == 1:
                yield SymbolReference(text.at(at), len(word[0]), matches[0])
            at += len(segment) + 1


def _address_nodes(front: Mapping) -> Iterator[Node | None]:
    """Yield the addresses and address patterns in the replies, prompts and calls of a case."""
    for item in items_of(front.get("replies")):
        yield item.get("address") if isinstance(item, Mapping) else None
    expect = front.get("expect")
    for part in ("prompts", "calls"):
        several = expect.get(part) if isinstance(expect, Mapping) else None
        yield from (entry.key for entry in entries_of(several).values())
