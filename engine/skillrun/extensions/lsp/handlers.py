"""Handles the editor's messages about documents and workspace folders, and its queries."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

from lsprotocol import types
from pygls.workspace import PositionCodec

from skillrun.extensions.lsp.client_positions import from_client_range, to_client_range
from skillrun.extensions.lsp.diagnostics import build_quick_fix
from skillrun.extensions.lsp.features import register_features
from skillrun.extensions.lsp.outline import OutlineItem, OutlineKind, parse_outline
from skillrun.extensions.lsp.positions import offset_at
from skillrun.extensions.lsp.server import CrashReporter, EditorServer

WATCHED: Final = "**/{workflows,skills,roles,config,tests}/**"
_KINDS: Final[dict[OutlineKind, types.SymbolKind]] = {
    "key": types.SymbolKind.Property,
    "step": types.SymbolKind.Function,
    "section": types.SymbolKind.String,
}


def serve(commands: Collection[str], crash_report: CrashReporter) -> None:
    """Serve an editor over stdin and stdout until it disconnects; other output is redirected to stderr."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)  # the server reports errors to the editor itself
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
    """Return the editor's open folders; older editors send a single root instead."""
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
    """Return the text in a range of the editor."""
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
