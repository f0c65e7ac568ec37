"""Finds the symbols at a position, and the definitions and references of symbols in all files of a project.

The checker has recorded the references, except those in test cases, which this module reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skillrun.extensions.lsp.declarations import declaration_ranges, list_declarations, text_range
from skillrun.extensions.lsp.symbol_index import SymbolIndex, TextRange, map_offset
from skillrun.extensions.testing.cases import CaseFile, case_files
from skillrun.library.symbols import Symbol, SymbolReference
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Source
from skillrun.types.types import identifier

_STEP: Final = re.compile(r"[A-Za-z][\w-]*(?![^#~@])")
"""Matches a phase or step in an address, if no pass, item or round follows."""


def symbols_at(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> list[SymbolReference]:
    """Return the references and declarations at an offset, with the shortest first."""
    indexed_file = index.indexed_file(path)
    references: list[SymbolReference] = []
    if indexed_file is not None:
        place = map_offset(indexed_file.source.text, text, offset)
        references = [each for each in indexed_file.references_at(place) if _is_unchanged(each, text, offset - place)]
    declarations = (
        _declarations_in_path(index, path, relative)
        if not relative.startswith("tests/")
        else _references_in_path(index, path)
    )
    places: dict[Source, int] = {}
    for reference in declarations:
        source, start = reference.span
        if source not in places:
            places[source] = map_offset(source.text, text, offset)
        is_state_reference = any(each.symbol.kind == "state" and each.span == reference.span for each in references)
        if start <= places[source] <= start + reference.length and not is_state_reference:
            references.append(reference)
    unique = {(each.span.offset, each.symbol): each for each in references}
    return sorted(unique.values(), key=lambda mention: mention.length)


def _is_unchanged(reference: SymbolReference, text: str, shift: int) -> bool:
    """Whether the text at a recorded reference is unchanged. The text has moved by `shift`."""
    start = reference.span.offset
    original = reference.span.source.text[start : start + reference.length]
    return text[start + shift : start + shift + reference.length] == original


def _declarations_in_path(index: SymbolIndex, path: Path, relative: str) -> Iterator[SymbolReference]:
    for reference in list_declarations(index, relative):
        if reference.span.source.path == path:
            yield reference


def find_definitions(index: SymbolIndex, path: Path, relative: str, text: str, offset: int) -> list[TextRange]:
    """Return the declarations of the symbol at an offset.

    At the declaration of a phase, return the phase's file instead.
    """
    ranges: dict[TextRange, None] = {}
    for reference in symbols_at(index, path, relative, text, offset):
        targets = declaration_ranges(index, reference.symbol)
        if reference.symbol.kind == "phase" and text_range(reference) in targets:
            targets = _phase_file(index, reference.symbol) or targets
        ranges |= dict.fromkeys(targets)
    return list(ranges)


def _phase_file(index: SymbolIndex, symbol: Symbol) -> list[TextRange]:
    workflow = index.workflow(symbol.path.removeprefix("workflows/").removesuffix(".md"))
    uses = workflow.phases.values() if workflow is not None else ()
    skill = next((use.skill for use in uses if identifier(use.name) == symbol.name), None)
    return declaration_ranges(index, Symbol("file", f"skills/{skill}.md", skill)) if skill is not None else []


def find_references(index: SymbolIndex, symbol: Symbol, *, declaring: bool = True) -> list[TextRange]:
    """Return all references to a symbol, sorted by file and position. `declaring` includes the declarations."""
    declared = {text_range(each) for each in list_declarations(index, symbol.path) if each.symbol == symbol}
    uses = {text_range(each) for each in index.references_to(symbol)}
    uses |= {text_range(each) for each in case_references(index) if each.symbol == symbol}
    if symbol.kind == "phase":
        uses = {each for each in uses if each not in declared}
    return sorted(uses | declared if declaring else uses - declared)


def file_symbol(relative: str) -> Symbol | None:
    """Return the symbol that stands for a whole library file; None for any other file."""
    folder, _, rest = relative.partition("/")
    name = rest.rpartition(".")[0]
    match folder:
        case "roles":
            return Symbol("role", relative, name)
        case "workflows":
            return Symbol("workflow", relative, name)
        case "config":
            return Symbol("config", relative, name)
        case "skills" if name.endswith("/SKILL"):
            return Symbol("skill", relative, name.removesuffix("/SKILL"))
        case "skills" if name.startswith("protocols/"):
            return Symbol("protocol", relative, name.removeprefix("protocols/"))
        case "skills":
            return Symbol("file", relative, name)
    return None


# cases


def case_references(index: SymbolIndex) -> Iterator[SymbolReference]:
    """Yield the references to workflows in the project's test cases."""
    for file in case_files(index.library.project):
        yield from _references_in_case(index, file)


def _references_in_path(index: SymbolIndex, path: Path) -> Iterator[SymbolReference]:
    for file in case_files(index.library.project):
        if file.path == path:
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
    items = expect.get("path")
    for item in items.items if isinstance(items, Sequence) else ():
        yield from _name_reference(item, "phase", library_path)
    for part in ("outputs", "flags"):
        yield from _keys(expect.get(part), "phase", library_path)
    workflow = index.workflow(file.workflow)
    outputs = expect.get("outputs")
    for name, entry in outputs.entries.items() if isinstance(outputs, Mapping) and workflow is not None else ():
        if workflow is not None and name in workflow.phases:
            yield from _keys(entry.value, "output", f"skills/{workflow.phases[name].skill}.md")


def _keys(node: Node | None, kind: str, library_path: str) -> Iterator[SymbolReference]:
    for entry in node.entries.values() if isinstance(node, Mapping) else ():
        yield from _name_reference(entry.key, kind, library_path)


def _name_reference(node: Node, kind: str, library_path: str) -> Iterator[SymbolReference]:
    if isinstance(node, Scalar) and node.text is not None:
        yield SymbolReference(
            node.text.at(0), len(node.text.value), Symbol(kind, library_path, identifier(node.text.value))
        )


def _address_references(index: SymbolIndex, name: str, front: Mapping) -> Iterator[SymbolReference]:
    """Yield the references to phases and steps in the addresses of a case.

    An address is `workflow/phase/step/…`, or a pattern. A name in a pattern is a reference only if exactly one phase or
    step has that name.
    """
    workflow = index.workflow(name)
    if workflow is None:
        return
    library_path = f"workflows/{name}.md"
    phases = {use.name: Symbol("phase", library_path, identifier(use.name)) for use in workflow.phases.values()}
    steps = {use.name: _step_symbols(index, f"skills/{use.skill}.md") for use in workflow.phases.values()}
    symbols_by_name: dict[str, list[Symbol]] = {}
    for several in (phases, *steps.values()):
        for named, symbol in several.items():
            symbols_by_name.setdefault(named, []).append(symbol)
    for node in _address_nodes(front):
        assert node.text is not None
        segments = node.text.value.split("/")
        exact = segments[0] == name and segments[1:2] != [] and segments[1] in phases
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
            if word is not None and len(matches) == 1:
                yield SymbolReference(node.text.at(at), len(word[0]), matches[0])
            at += len(segment) + 1


def _step_symbols(index: SymbolIndex, library_path: str) -> dict[str, Symbol]:
    """Return the symbols of a phase's steps, keyed by their ids as written."""
    step_references = (
        reference for reference in list_declarations(index, library_path) if reference.symbol.kind == "local"
    )
    return {
        reference.span.source.text[reference.span.offset : reference.span.offset + reference.length]: reference.symbol
        for reference in step_references
    }


def _address_nodes(front: Mapping) -> Iterator[Scalar]:
    """Yield the addresses and address patterns in the replies, prompts and calls of a case."""
    replies, expect = front.get("replies"), front.get("expect")
    items = replies.items if isinstance(replies, Sequence) else ()
    nodes: list[Node | None] = [item.get("address") for item in items if isinstance(item, Mapping)]
    for part in ("prompts", "calls"):
        several = expect.get(part) if isinstance(expect, Mapping) else None
        nodes += [entry.key for entry in several.entries.values()] if isinstance(several, Mapping) else []
    yield from (node for node in nodes if isinstance(node, Scalar) and node.text is not None)
