"""Handles the editor's messages about documents and folders, and its requests for outlines and quick fixes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from lsprotocol import types
from pygls.workspace import PositionCodec

from skillrun.definitions.verbs import VERBS
from skillrun.extensions.lsp.diagnostics import build_quick_fix
from skillrun.extensions.lsp.features import register_features
from skillrun.extensions.lsp.positions import Range, from_client_range, offset_at, range_between, to_client_range
from skillrun.extensions.lsp.server import CrashReporter, EditorServer
from skillrun.syntax.diagnostics import ParsingStopped, Problems
from skillrun.syntax.document import find_headings, parse_frontmatter
from skillrun.syntax.source import Mapping, Node, Scalar, Source
from skillrun.syntax.source import Sequence as List
from skillrun.syntax.yaml import parse_yaml

DEPTH: Final = 3  # levels of nested keys in an outline
LONGEST: Final = 60  # characters of the text shown for a step without an id
OutlineKind = Literal["key", "step", "section"]


class OutlineItem(NamedTuple):
    """A part of a file in its outline, with the range of the part and the range of its name."""

    name: str
    kind: OutlineKind
    range: Range
    name_range: Range
    detail: str = ""
    children: tuple[OutlineItem, ...] = ()


def parse_outline(text: str, *, markdown: bool) -> tuple[OutlineItem, ...]:
    """Return the outline of a file, as far as the file can be parsed. `text` has `\\n` line ends."""
    source, problems = Source.of(text), Problems.without_limit()
    try:
        if not markdown:
            node = parse_yaml(source, 0, len(text), problems)
            return tuple(_keys(text, node, len(text))) if isinstance(node, Mapping) else ()
        front, start = parse_frontmatter(source, problems)
    except ParsingStopped:
        return ()
    keys = tuple(_keys(text, front, start)) if front is not None and front.entries else ()
    return (*keys, *_sections(text, start))


def _keys(text: str, mapping: Mapping, end: int, depth: int = 1) -> Iterator[OutlineItem]:
    entries = list(mapping.entries.items())
    starts = [*(entry.key.span.offset for _, entry in entries), end]
    for (name, entry), (start, after) in zip(entries, pairwise(starts), strict=True):
        until = _trimmed_end(text, start, after)
        inside = tuple(_child_items(text, entry.value, until, depth))
        yield OutlineItem(name, "key", range_between(text, start, until), _name_range(text, start, until), "", inside)


def _child_items(text: str, node: Node, end: int, depth: int) -> Iterator[OutlineItem]:
    if depth >= DEPTH:
        return
    if isinstance(node, Mapping):
        yield from _keys(text, node, end, depth + 1)
    elif isinstance(node, List):
        starts = [*(item.span.offset for item in node.items), end]
        for item, (start, after) in zip(node.items, pairwise(starts), strict=True):
            step = _step(text, item, start, _trimmed_end(text, start, after), depth)
            if step is not None:
                yield step


def _step(text: str, node: Node, start: int, end: int, depth: int) -> OutlineItem | None:
    """Return the item for a step, named by its id or verb; None if the node is not a step."""
    verb = next((name for name in node.entries if name in VERBS), None) if isinstance(node, Mapping) else None
    if verb is None or not isinstance(node, Mapping):
        return None
    id_, value = node.get("id"), node.entries[verb].value
    named = isinstance(id_, Scalar) and bool(id_.value)
    name = str(id_.value) if isinstance(id_, Scalar) and named else verb
    detail = verb if named else str(value.value or "")[:LONGEST] if isinstance(value, Scalar) else ""
    at = id_.span.offset if id_ is not None and named else node.entries[verb].key.span.offset
    inside = tuple(_child_items(text, value, end, depth + 1)) if isinstance(value, List) else ()
    nested = node.get("steps")
    inside += tuple(_child_items(text, nested, end, depth + 1)) if nested is not None else ()
    whole = range_between(text, min(start, at), max(end, at))
    return OutlineItem(name, "step", whole, _name_range(text, at, max(end, at)), detail, inside)


def _sections(text: str, start: int) -> Iterator[OutlineItem]:
    headings, _ = find_headings(text, start if start < len(text) else 0)
    ends = [*(heading.start for heading in headings[1:]), len(text)]
    for heading, end in zip(headings, ends, strict=False):
        until = _trimmed_end(text, heading.start, end)
        line = range_between(text, heading.start, max(text.find("\n", heading.start, until), heading.start) or until)
        whole = range_between(text, heading.start, until)
        yield OutlineItem(heading.name or "##", "section", whole, line if line.end <= whole.end else whole)


def _trimmed_end(text: str, start: int, end: int) -> int:
    """Return `end` moved before trailing blanks, closing brackets and the dash of the next item."""
    return start + len(text[start:end].rstrip(" \t\n-{,}]["))


def _name_range(text: str, start: int, end: int) -> Range:
    """Return the range of the name that starts at an offset."""
    stops = [place for sign in ":\n,}]" if (place := text.find(sign, start, end)) >= 0]
    return range_between(text, start, min([*stops, end]))


WATCHED: Final = "**/{workflows,skills,roles,config,tests}/**"
_KINDS: Final[dict[OutlineKind, types.SymbolKind]] = {
    "key": types.SymbolKind.Property,
    "step": types.SymbolKind.Function,
    "section": types.SymbolKind.String,
}


def serve(commands: Collection[str], crash_report: CrashReporter) -> None:
    """Serve an editor over stdin and stdout until it disconnects. Anything else that is printed goes to stderr."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)  # the server itself reports errors to the editor
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server = EditorServer(commands, crash_report)
    register_document_handlers(server)
    register_folder_handlers(server)
    register_query_handlers(server)
    register_features(server, server)
    server.start_io(sys.stdin.buffer, output)


def register_document_handlers(server: EditorServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def on_open(params: types.DidOpenTextDocumentParams) -> None:
        server.update_document(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def on_change(params: types.DidChangeTextDocumentParams) -> None:
        server.update_document(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def on_save(_: types.DidSaveTextDocumentParams) -> None:
        server.invalidate()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def on_close(params: types.DidCloseTextDocumentParams) -> None:
        server.close_document(params.text_document.uri)


def register_folder_handlers(server: EditorServer) -> None:
    @server.feature(types.INITIALIZED)
    def on_initialized(_: types.InitializedParams) -> None:
        server.set_workspace_folders(_folders(server))
        files = server.client_capabilities.workspace and server.client_capabilities.workspace.did_change_watched_files
        if files and files.dynamic_registration:
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(WATCHED)])
            watching = types.Registration("watching", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            server.client_register_capability(types.RegistrationParams([watching]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def on_folders_changed(_: types.DidChangeWorkspaceFoldersParams) -> None:
        server.set_workspace_folders(_folders(server))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def on_watched_files_changed(_: types.DidChangeWatchedFilesParams) -> None:
        server.invalidate()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def on_configuration_changed(_: types.DidChangeConfigurationParams) -> None:
        """Ignore the message: the server has no settings."""


def _folders(server: EditorServer) -> set[str]:
    """Return the URIs of the folders that are open in the editor. Older editors send only a single root."""
    folders = {folder.uri for folder in server.workspace.folders.values()}
    return folders or {uri for uri in (server.workspace.root_uri,) if uri}


def register_query_handlers(server: EditorServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def on_document_symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        place = server.find_file(params.text_document.uri)
        if place is None:
            return []
        parts = parse_outline("\n".join(place.lines), markdown=place.path.suffix == ".md")
        return [_symbol(part, place.lines, server.workspace.position_codec) for part in parts]

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    def on_code_actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        place = server.find_file(uri)
        only = params.context.only
        if place is None or (only and types.CodeActionKind.QuickFix not in only):
            return []
        published = server.get_project_check(place.workspace.project).published.get(place.path)
        overlapping = (
            [each for each in published.diagnostics if _ranges_overlap(each.range, params.range)]
            if published is not None
            else []
        )
        text = "\n".join(place.lines)
        fixes = (build_quick_fix(each, uri, _text_in_range(text, each.range, server)) for each in overlapping)
        return [action for action in fixes if action is not None]


def _text_in_range(text: str, range_: types.Range, server: EditorServer) -> str:
    """Return the text in a range that the editor sent."""
    own = from_client_range(range_, text.split("\n"), server.workspace.position_codec)
    return text[offset_at(text, own.start) : offset_at(text, own.end)]


def _ranges_overlap(first: types.Range, second: types.Range) -> bool:
    return _position_key(first.start) <= _position_key(second.end) and _position_key(second.start) <= _position_key(
        first.end
    )


def _position_key(position: types.Position) -> tuple[int, int]:
    return position.line, position.character


def _symbol(part: OutlineItem, lines: Sequence[str], codec: PositionCodec) -> types.DocumentSymbol:
    children: list[Any] = [_symbol(inner, lines, codec) for inner in part.children]
    return types.DocumentSymbol(
        part.name,
        _KINDS[part.kind],
        to_client_range(part.range, lines, codec),
        to_client_range(part.name_range, lines, codec),
        part.detail or None,
        children=children,
    )
