"""Handles the LSP requests for completion, hover, definition, references and rename.

Other modules know the workflow language; this one converts their results to LSP types.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from skillrun.extensions.lsp.completion import Completion, complete
from skillrun.extensions.lsp.hover import hover
from skillrun.extensions.lsp.positions import from_client_position, offset_at, range_between, to_client_range
from skillrun.extensions.lsp.references import file_symbol, find_definitions, find_references, symbols_at
from skillrun.extensions.lsp.renames import RenameEdit, RenameRefused, rename, resolve_rename_target
from skillrun.extensions.lsp.symbol_index import TextRange, map_offset
from skillrun.extensions.lsp.workspace import Workspace

FIRST_CHECK: Final = 10.0  # seconds that a request waits for the first check of a project
TRIGGERS: Final = (".", "|", "'", '"', "[", ":", "@", "/", "{", "#", " ")
BEFORE_SPACE: Final = tuple(":-|,{[(%=#")  # a space starts a completion only after one of these characters
_REQUEST_FAILED: Final = -32803
_KINDS: Final = {
    "key": types.CompletionItemKind.Property,
    "verb": types.CompletionItemKind.Keyword,
    "role": types.CompletionItemKind.Class,
    "variant": types.CompletionItemKind.Class,
    "protocol": types.CompletionItemKind.Module,
    "workflow": types.CompletionItemKind.Module,
    "phase": types.CompletionItemKind.Event,
    "step": types.CompletionItemKind.Method,
    "name": types.CompletionItemKind.Variable,
    "variable": types.CompletionItemKind.Variable,
    "language": types.CompletionItemKind.Keyword,
    "tag": types.CompletionItemKind.Keyword,
    "field": types.CompletionItemKind.Field,
    "input": types.CompletionItemKind.Field,
    "output": types.CompletionItemKind.Field,
    "seat": types.CompletionItemKind.Field,
    "filter": types.CompletionItemKind.Function,
    "function": types.CompletionItemKind.Function,
    "test": types.CompletionItemKind.Function,
    "file": types.CompletionItemKind.File,
    "skill": types.CompletionItemKind.File,
    "config": types.CompletionItemKind.File,
    "model": types.CompletionItemKind.Constant,
    "breaker": types.CompletionItemKind.Constant,
    "value": types.CompletionItemKind.EnumMember,
}


class DocumentLocator(Protocol):
    """Finds the project and path of a document, and its URI."""

    def find_file(self, uri: str) -> tuple[Workspace, Path] | None:
        """Return the project and the path of a document; None if it is not in a project."""
        ...

    def uri(self, path: Path) -> str:
        """Return the URI of a file."""
        ...


class DocumentPosition(NamedTuple):
    """A position in a file of a project."""

    workspace: Workspace
    path: Path
    relative: str
    text: str
    offset: int


class LanguageFeatures:
    """Handles an editor's requests about names."""

    def __init__(self, server: LanguageServer, projects: DocumentLocator) -> None:
        self.server = server
        self.projects = projects

    @property
    def codec(self) -> PositionCodec:
        return self.server.workspace.position_codec

    async def resolve_position(self, uri: str, position: types.Position) -> DocumentPosition | None:
        """Wait for the first check of the project, and return the position; None if the file is not in a project."""
        place = self.projects.find_file(uri)
        text = place[0].text(place[1]) if place is not None else None
        if place is None or text is None:
            return None
        workspace, path = place
        for _ in range(int(FIRST_CHECK / 0.02)):
            if workspace.checked is not None:
                break
            await asyncio.sleep(0.02)
        offset = offset_at(text, from_client_position(position, text.split("\n"), self.codec))
        return DocumentPosition(workspace, path, workspace.relative(path), text, offset)

    def range(self, text: str, start: int, end: int) -> types.Range:
        return to_client_range(range_between(text, start, end), text.split("\n"), self.codec)

    def locations(self, workspace: Workspace, places: Iterable[TextRange]) -> list[types.Location]:
        """Return the LSP locations, in the current texts, of ranges from the last check."""
        found = []
        for place in places:
            text = workspace.text(place.path) or ""
            indexed_file = workspace.index.indexed_file(place.path)
            start, end = place.start, place.end
            if indexed_file is not None and indexed_file.source.text != text:
                start, end = (map_offset(text, indexed_file.source.text, each) for each in (start, end))
            found.append(types.Location(self.projects.uri(place.path), self.range(text, start, end)))
        return found

    async def complete(self, params: types.CompletionParams) -> list[types.CompletionItem]:
        position = await self.resolve_position(params.text_document.uri, params.position)
        trigger = params.context.trigger_character if params.context is not None else None
        if position is None:
            return []
        if trigger == " " and not position.text[: position.offset].rstrip(" ").endswith(BEFORE_SPACE):
            return []
        items = complete(position.workspace.index, position.path, position.relative, position.text, position.offset)
        return [self.item(item, number, position.text) for number, item in enumerate(items)]

    def item(self, suggestion: Completion, number: int, text: str) -> types.CompletionItem:
        doc = (
            types.MarkupContent(types.MarkupKind.Markdown, suggestion.documentation)
            if suggestion.documentation
            else None
        )
        return types.CompletionItem(
            suggestion.label,
            kind=_KINDS.get(suggestion.kind, types.CompletionItemKind.Text),
            detail=suggestion.detail or None,
            documentation=doc,
            sort_text=f"{number:05}",
            text_edit=types.TextEdit(self.range(text, suggestion.start, suggestion.end), suggestion.text),
        )

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        position = await self.resolve_position(params.text_document.uri, params.position)
        content = hover(position.workspace.index, *position[1:]) if position is not None else None
        if position is None or content is None:
            return None
        markdown = types.MarkupContent(types.MarkupKind.Markdown, content.markdown)
        return types.Hover(markdown, self.range(position.text, content.start, content.end))

    async def go_to_definition(self, params: types.DefinitionParams) -> list[types.Location]:
        position = await self.resolve_position(params.text_document.uri, params.position)
        if position is None:
            return []
        return self.locations(position.workspace, find_definitions(position.workspace.index, *position[1:]))

    async def list_references(self, params: types.ReferenceParams) -> list[types.Location]:
        position = await self.resolve_position(params.text_document.uri, params.position)
        if position is None:
            return []
        index = position.workspace.index
        symbols = [reference.symbol for reference in symbols_at(index, *position[1:])]
        whole_file_symbol = file_symbol(position.relative)
        symbols = symbols or ([whole_file_symbol] if whole_file_symbol is not None else [])
        declaring = params.context.include_declaration
        places = [place for symbol in symbols for place in find_references(index, symbol, declaring=declaring)]
        return self.locations(position.workspace, dict.fromkeys(places))

    async def prepare_rename(self, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder:
        position = await self.require_position(params.text_document.uri, params.position)
        require_no_errors(position.workspace)
        try:
            reference = resolve_rename_target(position.workspace.index, *position[1:])
        except RenameRefused as refused:
            raise build_rename_error(refused) from None
        start, end = reference.span.offset, reference.span.offset + reference.length
        return types.PrepareRenamePlaceholder(self.range(position.text, start, end), position.text[start:end])

    async def rename(self, params: types.RenameParams) -> types.WorkspaceEdit:
        position = await self.require_position(params.text_document.uri, params.position)
        require_no_errors(position.workspace)
        try:
            renaming = rename(position.workspace.index, *position[1:], params.new_name)
        except RenameRefused as refused:
            raise build_rename_error(refused) from None
        return self.build_workspace_edit(position.workspace, renaming)

    async def require_position(self, uri: str, position: types.Position) -> DocumentPosition:
        document_position = await self.resolve_position(uri, position)
        if document_position is None:
            raise build_rename_error(RenameRefused("this file is not in a project"))
        return document_position

    def build_workspace_edit(self, workspace: Workspace, renaming: RenameEdit) -> types.WorkspaceEdit:
        """Return the rename as a workspace edit. Raises an error if it renames a file and the editor cannot do this."""
        capabilities = self.server.client_capabilities.workspace
        able = capabilities.workspace_edit if capabilities is not None else None
        operations = (able.resource_operations if able is not None else None) or ()
        texts = {path: workspace.text(path) or "" for path in renaming.edits}
        edits = {
            path: [types.TextEdit(self.range(texts[path], *place), text) for place, text in sorted(places.items())]
            for path, places in renaming.edits.items()
        }
        if able is None or not able.document_changes:
            if renaming.files:
                raise build_rename_error(RenameRefused("this editor cannot rename files", "rename the file manually"))
            return types.WorkspaceEdit(changes={self.projects.uri(path): each for path, each in edits.items()})
        if renaming.files and types.ResourceOperationKind.Rename not in operations:
            raise build_rename_error(RenameRefused("this editor cannot rename files", "rename the file manually"))
        documents = self.server.workspace.text_documents
        changes: list[types.TextDocumentEdit | types.CreateFile | types.RenameFile | types.DeleteFile] = []
        for path, each in edits.items():
            uri = self.projects.uri(path)
            version = documents[uri].version if uri in documents else None
            changes.append(types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, version), each))
        for old, new in renaming.files:
            changes.append(types.RenameFile(self.projects.uri(old), self.projects.uri(new)))
        return types.WorkspaceEdit(document_changes=changes)


def require_no_errors(workspace: Workspace) -> None:
    """Raise an error if the project has errors, because invalid files may have references that are not known."""
    problems = workspace.checked.problems if workspace.checked is not None else []
    wrong = next((problem for problem in problems if problem.severity == "error"), None)
    if wrong is not None:
        raise build_rename_error(
            RenameRefused(f"the project has errors, for example in {wrong.path}:{wrong.line}", "fix them first")
        )


def build_rename_error(refused: RenameRefused) -> JsonRpcException:
    """Return the error that the editor shows if a rename is refused."""
    reason = f"{refused.message}; {refused.next_step}" if refused.next_step else refused.message
    return JsonRpcException(reason, code=_REQUEST_FAILED)


def register_features(server: LanguageServer, projects: DocumentLocator) -> None:
    """Register the handlers of the requests about names."""
    features = LanguageFeatures(server, projects)

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=list(TRIGGERS)))
    async def on_completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        return await features.complete(params)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def on_hover(params: types.HoverParams) -> types.Hover | None:
        return await features.hover(params)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    async def on_definition(params: types.DefinitionParams) -> list[types.Location]:
        return await features.go_to_definition(params)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    async def on_references(params: types.ReferenceParams) -> list[types.Location]:
        return await features.list_references(params)

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    async def on_prepare_rename(params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder:
        return await features.prepare_rename(params)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    async def on_rename(params: types.RenameParams) -> types.WorkspaceEdit:
        return await features.rename(params)
