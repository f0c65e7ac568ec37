"""Handles the messages of an editor. Other modules know the workflow language; this module uses LSP types."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from skillrun.extensions.lsp.completion import complete
from skillrun.extensions.lsp.conversions import (
    build_completion_item,
    build_quick_fix,
    offset_at,
    parse_outline,
    to_client_range,
)
from skillrun.extensions.lsp.hover import hover
from skillrun.extensions.lsp.references import file_symbol, find_definitions, find_references, symbols_at
from skillrun.extensions.lsp.renames import RenameEdit, RenameRefused, rename, resolve_rename_target
from skillrun.extensions.lsp.server import CrashReporter, EditorServer
from skillrun.extensions.lsp.symbol_index import TextRange, map_offset
from skillrun.extensions.lsp.workspace import Workspace
from skillrun.syntax.diagnostics import SkillrunError

WATCHED: Final = "**/{workflows,skills,roles,config,tests}/**"
FIRST_CHECK: Final = 10.0  # seconds that a request waits for the first check of a project
POLL_SECONDS: Final = 0.02
TRIGGERS: Final = (".", "|", "'", '"', "[", ":", "@", "/", "{", "#", " ")
BEFORE_SPACE: Final = tuple(":-|,{[(%=#")  # a space starts a completion only after one of these characters
MAX_HEADER: Final = 1_000  # bytes
MAX_MESSAGE: Final = 100_000_000  # bytes
_RESTART_HINT: Final = "restart the language server in the editor"
_REQUEST_FAILED: Final = -32803


def serve(commands: Collection[str], crash_report: CrashReporter) -> None:
    """Serve an editor over stdin and stdout until it disconnects. Other output goes to stderr."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)  # the server itself reports errors to the editor
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server = EditorServer(commands, crash_report)
    for method, handle in _HANDLERS.items():
        server.feature(method, _OPTIONS.get(method))(partial(handle, server))
    server.start_io(cast(BinaryIO, EditorInput(sys.stdin.buffer)), output)


class EditorInput:
    """The input from an editor. A message or a header of any size ends the server with an error."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readline(self) -> bytes:
        line = self._stream.readline(MAX_HEADER)
        if len(line) == MAX_HEADER:
            raise SkillrunError("the editor sent a header that is too long", _RESTART_HINT)
        return line

    def read(self, size: int) -> bytes:
        if size > MAX_MESSAGE:
            message = f"the editor sent a message of {size:,} bytes; at most {MAX_MESSAGE:,} are allowed"
            raise SkillrunError(message, _RESTART_HINT)
        return self._stream.read(size)


# documents and folders


def on_initialized(server: EditorServer, _: types.InitializedParams) -> None:
    server.set_workspace_folders()
    files = server.client_capabilities.workspace and server.client_capabilities.workspace.did_change_watched_files
    if files and files.dynamic_registration:
        options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(WATCHED)])
        watching = types.Registration("watching", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        server.client_register_capability(types.RegistrationParams([watching]))


def list_document_symbols(server: EditorServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    file = server.find_file(params.text_document.uri)
    if file is None:
        return []
    text = file.project.workspace.text(file.path) or ""
    return parse_outline(text, server.workspace.position_codec, markdown=file.path.suffix == ".md")


def list_quick_fixes(server: EditorServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri, only = params.text_document.uri, params.context.only
    file = server.find_file(uri)
    published = file.project.published.get(file.path) if file is not None else None
    if file is None or published is None or (only and types.CodeActionKind.QuickFix not in only):
        return []
    text = file.project.workspace.text(file.path) or ""
    fixes = (
        build_quick_fix(each, uri, text, server.workspace.position_codec)
        for each in published.diagnostics
        if each.range.start <= params.range.end and params.range.start <= each.range.end
    )
    return [fix for fix in fixes if fix is not None]


# names


class DocumentPosition(NamedTuple):
    """A position in a file of a project. `relative` is the path of the file below its root."""

    workspace: Workspace
    path: Path
    relative: str
    text: str
    offset: int


async def find_position(
    server: EditorServer, document: types.TextDocumentIdentifier, position: types.Position
) -> DocumentPosition | None:
    """Wait for the first check of the project, and return the position; None if the file is not in a project."""
    file = server.find_file(document.uri)
    text = file.project.workspace.text(file.path) if file is not None else None
    if file is None or text is None:
        return None
    workspace = file.project.workspace
    for _ in range(int(FIRST_CHECK / POLL_SECONDS)):
        if workspace.checked is not None:
            break
        await asyncio.sleep(POLL_SECONDS)
    offset = offset_at(text, position, server.workspace.position_codec)
    return DocumentPosition(workspace, file.path, workspace.relative(file.path), text, offset)


def _locations(server: EditorServer, workspace: Workspace, places: Iterable[TextRange]) -> list[types.Location]:
    """Convert ranges from the last check to LSP locations in the current texts."""
    found = []
    for path, *bounds in places:
        text = workspace.text(path) or ""
        indexed_file = workspace.index.files.get(path)
        checked_text = indexed_file.source.text if indexed_file is not None else text
        start, end = (map_offset(text, checked_text, offset) for offset in bounds)
        range_ = to_client_range(text, start, end, server.workspace.position_codec)
        found.append(types.Location(server.uri(path), range_))
    return found


async def list_completions(server: EditorServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    position = await find_position(server, params.text_document, params.position)
    trigger = params.context.trigger_character if params.context is not None else None
    if position is None:
        return []
    workspace, path, relative, text, offset = position
    if trigger == " " and not text[:offset].rstrip(" ").endswith(BEFORE_SPACE):
        return []
    start, end, completions = complete(workspace.index, path, relative, text, offset)
    replaced = to_client_range(text, start, end, server.workspace.position_codec)
    return [build_completion_item(each, number, replaced) for number, each in enumerate(completions)]


async def show_hover(server: EditorServer, params: types.HoverParams) -> types.Hover | None:
    position = await find_position(server, params.text_document, params.position)
    content = hover(position.workspace.index, *position[1:]) if position is not None else None
    if position is None or content is None:
        return None
    markdown = types.MarkupContent(types.MarkupKind.Markdown, content.markdown)
    range_ = to_client_range(position.text, content.start, content.end, server.workspace.position_codec)
    return types.Hover(markdown, range_)


async def list_definitions(server: EditorServer, params: types.DefinitionParams) -> list[types.Location]:
    position = await find_position(server, params.text_document, params.position)
    if position is None:
        return []
    return _locations(server, position.workspace, find_definitions(position.workspace.index, *position[1:]))


async def list_references(server: EditorServer, params: types.ReferenceParams) -> list[types.Location]:
    """Return the references to the symbol at the position. Without a symbol, return the references to the file."""
    position = await find_position(server, params.text_document, params.position)
    if position is None:
        return []
    index = position.workspace.index
    symbols = [reference.symbol for reference in symbols_at(index, *position[1:])]
    whole_file_symbol = file_symbol(position.relative)
    symbols = symbols or ([whole_file_symbol] if whole_file_symbol is not None else [])
    declaring = params.context.include_declaration
    places = [place for symbol in symbols for place in find_references(index, symbol, declaring=declaring)]
    return _locations(server, position.workspace, dict.fromkeys(places))


async def prepare_rename(server: EditorServer, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder:
    with _show_refusal():
        position = await _find_rename_position(server, params.text_document, params.position)
        reference = resolve_rename_target(position.workspace.index, *position[1:])
    start, end = reference.span.offset, reference.span.offset + reference.length
    range_ = to_client_range(position.text, start, end, server.workspace.position_codec)
    return types.PrepareRenamePlaceholder(range_, position.text[start:end])


async def rename_symbol(server: EditorServer, params: types.RenameParams) -> types.WorkspaceEdit:
    with _show_refusal():
        position = await _find_rename_position(server, params.text_document, params.position)
        renaming = rename(position.workspace.index, *position[1:], params.new_name)
        return _build_workspace_edit(server, position.workspace, renaming)


@contextmanager
def _show_refusal() -> Iterator[None]:
    """Turn the refusal of a rename into the error that the editor shows."""
    try:
        yield
    except RenameRefused as refused:
        reason = f"{refused.message}; {refused.next_step}" if refused.next_step else refused.message
        raise JsonRpcException(reason, code=_REQUEST_FAILED) from None


async def _find_rename_position(
    server: EditorServer, document: types.TextDocumentIdentifier, position: types.Position
) -> DocumentPosition:
    """Return the position of a rename.

    Raises RenameRefused if the file is not in a project, or if the project has errors. The references in invalid files
    are unknown.
    """
    found = await find_position(server, document, position)
    if found is None:
        raise RenameRefused("this file is not in a project")
    problems = found.workspace.checked.problems if found.workspace.checked is not None else []
    wrong = next((problem for problem in problems if problem.severity == "error"), None)
    if wrong is not None:
        example = f"{wrong.path}:{wrong.line}"
        raise RenameRefused(f"the project has errors, for example in {example}", "fix them first")
    return found


def _build_workspace_edit(server: EditorServer, workspace: Workspace, renaming: RenameEdit) -> types.WorkspaceEdit:
    """Return the rename as a workspace edit. Raises RenameRefused if the editor cannot rename files."""
    capabilities = server.client_capabilities.workspace
    able = capabilities.workspace_edit if capabilities is not None else None
    with_versions = able is not None and able.document_changes
    operations = (able.resource_operations if able is not None else None) or ()
    if renaming.files and not (with_versions and types.ResourceOperationKind.Rename in operations):
        raise RenameRefused("this editor cannot rename files", "rename the file manually")
    edits: dict[str, list[types.TextEdit]] = {}
    for path, replacements in renaming.edits.items():
        text, codec = workspace.text(path) or "", server.workspace.position_codec
        edits[server.uri(path)] = [
            types.TextEdit(to_client_range(text, *place, codec), new) for place, new in sorted(replacements.items())
        ]
    if not with_versions:
        return types.WorkspaceEdit(changes=edits)
    documents = server.workspace.text_documents
    changes: list[types.TextDocumentEdit | types.CreateFile | types.RenameFile | types.DeleteFile] = []
    for uri, replaced in edits.items():
        version = documents[uri].version if uri in documents else None
        changes.append(types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, version), replaced))
    changes += [types.RenameFile(server.uri(old), server.uri(new)) for old, new in renaming.files]
    return types.WorkspaceEdit(document_changes=changes)


_HANDLERS: Final[Mapping[str, Callable[..., Any]]] = {
    types.INITIALIZED: on_initialized,
    types.TEXT_DOCUMENT_DID_OPEN: lambda server, params: server.update_document(params.text_document.uri),
    types.TEXT_DOCUMENT_DID_CHANGE: lambda server, params: server.update_document(params.text_document.uri),
    types.TEXT_DOCUMENT_DID_SAVE: lambda server, _: server.invalidate(),
    types.TEXT_DOCUMENT_DID_CLOSE: lambda server, params: server.close_document(params.text_document.uri),
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: lambda server, _: server.set_workspace_folders(),
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: lambda server, _: server.invalidate(),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: lambda _server, _: None,  # the server has no settings
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: list_document_symbols,
    types.TEXT_DOCUMENT_CODE_ACTION: list_quick_fixes,
    types.TEXT_DOCUMENT_COMPLETION: list_completions,
    types.TEXT_DOCUMENT_HOVER: show_hover,
    types.TEXT_DOCUMENT_DEFINITION: list_definitions,
    types.TEXT_DOCUMENT_REFERENCES: list_references,
    types.TEXT_DOCUMENT_PREPARE_RENAME: prepare_rename,
    types.TEXT_DOCUMENT_RENAME: rename_symbol,
}
_OPTIONS: Final[Mapping[str, Any]] = {
    types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    types.TEXT_DOCUMENT_COMPLETION: types.CompletionOptions(trigger_characters=list(TRIGGERS)),
    types.TEXT_DOCUMENT_RENAME: types.RenameOptions(prepare_provider=True),
}
