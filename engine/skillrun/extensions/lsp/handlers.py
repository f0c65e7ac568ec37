"""What the server does on each message of the editor: documents that come and go, and questions about them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

from lsprotocol import types
from pygls.workspace import PositionCodec

from skillrun.extensions.lsp.client_positions import client_range, own_range
from skillrun.extensions.lsp.diagnostics import replacement
from skillrun.extensions.lsp.features import register
from skillrun.extensions.lsp.outline import Kind, Part, parts_of
from skillrun.extensions.lsp.positions import offset_at
from skillrun.extensions.lsp.server import BugReport, EditorServer

WATCHED: Final = "**/{workflows,skills,roles,config,tests}/**"
_KINDS: Final[dict[Kind, types.SymbolKind]] = {
    "key": types.SymbolKind.Property,
    "step": types.SymbolKind.Function,
    "section": types.SymbolKind.String,
}


def serve(commands: Collection[str], bug_report: BugReport) -> None:
    """Speak with an editor over stdin and stdout until it ends; what anything else prints goes to stderr."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)  # who speaks with it is told what there is to tell
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server = EditorServer(commands, bug_report)
    follow_documents(server)
    follow_folders(server)
    answer(server)
    register(server, server)
    server.start_io(sys.stdin.buffer, output)


def follow_documents(server: EditorServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.take(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def edited(params: types.DidChangeTextDocumentParams) -> None:
        server.take(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(_: types.DidSaveTextDocumentParams) -> None:
        server.look_again()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.leave(params.text_document.uri)


def follow_folders(server: EditorServer) -> None:
    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        server.follow(_folders(server))
        files = server.client_capabilities.workspace and server.client_capabilities.workspace.did_change_watched_files
        if files and files.dynamic_registration:
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(WATCHED)])
            watching = types.Registration("watching", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            server.client_register_capability(types.RegistrationParams([watching]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def moved(_: types.DidChangeWorkspaceFoldersParams) -> None:
        server.follow(_folders(server))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def changed(_: types.DidChangeWatchedFilesParams) -> None:
        server.look_again()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(_: types.DidChangeConfigurationParams) -> None:
        """There is nothing to set."""


def _folders(server: EditorServer) -> set[str]:
    """Those that the editor has open; an older one has a single folder, and says so in another way."""
    folders = {folder.uri for folder in server.workspace.folders.values()}
    return folders or {uri for uri in (server.workspace.root_uri,) if uri}


def answer(server: EditorServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        place = server.place(params.text_document.uri)
        if place is None:
            return []
        parts = parts_of("\n".join(place.lines), markdown=place.path.suffix == ".md")
        return [_symbol(part, place.lines, server.workspace.position_codec) for part in parts]

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        place = server.place(uri)
        only = params.context.only
        if place is None or (only and types.CodeActionKind.QuickFix not in only):
            return []
        told = server.checking(place.workspace.project).told.get(place.path)
        here = [each for each in told.diagnostics if _touch(each.range, params.range)] if told is not None else []
        text = "\n".join(place.lines)
        made = (replacement(each, uri, _written(text, each.range, server)) for each in here)
        return [action for action in made if action is not None]


def _written(text: str, range_: types.Range, server: EditorServer) -> str:
    """What is written in a range of the editor's."""
    own = own_range(range_, text.split("\n"), server.workspace.position_codec)
    return text[offset_at(text, own.start) : offset_at(text, own.end)]


def _touch(one: types.Range, other: types.Range) -> bool:
    return _place(one.start) <= _place(other.end) and _place(other.start) <= _place(one.end)


def _place(position: types.Position) -> tuple[int, int]:
    return position.line, position.character


def _symbol(part: Part, lines: Sequence[str], codec: PositionCodec) -> types.DocumentSymbol:
    children: list[Any] = [_symbol(inner, lines, codec) for inner in part.parts]
    return types.DocumentSymbol(
        part.name,
        _KINDS[part.kind],
        client_range(part.range, lines, codec),
        client_range(part.name_range, lines, codec),
        part.detail or None,
        children=children,
    )
