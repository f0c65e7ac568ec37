"""Completion, hover, definition, references and rename as the protocol has them: asks the pure modules, says it in LSP.

Knows positions as the editor counts them, and nothing of the language.
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

from skillrun.extensions.lsp.client_positions import client_range, own_position
from skillrun.extensions.lsp.completion import Suggestion, complete
from skillrun.extensions.lsp.hover import hover
from skillrun.extensions.lsp.positions import offset_at, range_between
from skillrun.extensions.lsp.references import definitions, of_file, references, things_at
from skillrun.extensions.lsp.renames import RenameRefused, Renaming, rename, renameable
from skillrun.extensions.lsp.symbol_index import Stretch, moved
from skillrun.extensions.lsp.workspace import Workspace

FIRST_CHECK: Final = 10.0  # seconds that an answer waits for it
TRIGGERS: Final = (".", "|", "'", '"', "[", ":", "@", "/", "{", "#", " ")
BEFORE_SPACE: Final = tuple(":-|,{[(%=#")  # behind which a space begins something new
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


class Projects(Protocol):
    """Where documents belong."""

    def place(self, uri: str) -> tuple[Workspace, Path] | None:
        """The project and the file that an address means; None for one that is in no project."""
        ...

    def uri(self, path: Path) -> str:
        """The address of a file."""
        ...


class Here(NamedTuple):
    """A position in a file of a project."""

    workspace: Workspace
    path: Path
    relative: str
    text: str
    offset: int


class Features:
    """Answers what an editor asks about names."""

    def __init__(self, server: LanguageServer, projects: Projects) -> None:
        self.server = server
        self.projects = projects

    @property
    def codec(self) -> PositionCodec:
        return self.server.workspace.position_codec

    async def here(self, uri: str, position: types.Position) -> Here | None:
        """The position in its file, as soon as the project has been checked once; None in no file of a project."""
        place = self.projects.place(uri)
        text = place[0].text(place[1]) if place is not None else None
        if place is None or text is None:
            return None
        workspace, path = place
        for _ in range(int(FIRST_CHECK / 0.02)):
            if workspace.checked is not None:
                break
            await asyncio.sleep(0.02)
        offset = offset_at(text, own_position(position, text.split("\n"), self.codec))
        return Here(workspace, path, workspace.relative(path), text, offset)

    def range(self, text: str, start: int, end: int) -> types.Range:
        return client_range(range_between(text, start, end), text.split("\n"), self.codec)

    def locations(self, workspace: Workspace, places: Iterable[Stretch]) -> list[types.Location]:
        """Stretches as the editor knows them, where they are in the texts as they are now."""
        found = []
        for place in places:
            text = workspace.text(place.path) or ""
            sighted = workspace.knowledge.sighted(place.path)
            start, end = place.start, place.end
            if sighted is not None and sighted.source.text != text:
                start, end = (moved(text, sighted.source.text, each) for each in (start, end))
            found.append(types.Location(self.projects.uri(place.path), self.range(text, start, end)))
        return found

    async def complete(self, params: types.CompletionParams) -> list[types.CompletionItem]:
        here = await self.here(params.text_document.uri, params.position)
        trigger = params.context.trigger_character if params.context is not None else None
        if here is None:
            return []
        if trigger == " " and not here.text[: here.offset].rstrip(" ").endswith(BEFORE_SPACE):
            return []
        items = complete(here.workspace.knowledge, here.path, here.relative, here.text, here.offset)
        return [self.item(item, number, here.text) for number, item in enumerate(items)]

    def item(self, suggestion: Suggestion, number: int, text: str) -> types.CompletionItem:
        doc = types.MarkupContent(types.MarkupKind.Markdown, suggestion.doc) if suggestion.doc else None
        return types.CompletionItem(
            suggestion.label,
            kind=_KINDS.get(suggestion.kind, types.CompletionItemKind.Text),
            detail=suggestion.about or None,
            documentation=doc,
            sort_text=f"{number:05}",
            text_edit=types.TextEdit(self.range(text, suggestion.start, suggestion.end), suggestion.text),
        )

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        here = await self.here(params.text_document.uri, params.position)
        told = hover(here.workspace.knowledge, *here[1:]) if here is not None else None
        if here is None or told is None:
            return None
        markdown = types.MarkupContent(types.MarkupKind.Markdown, told.markdown)
        return types.Hover(markdown, self.range(here.text, told.start, told.end))

    async def define(self, params: types.DefinitionParams) -> list[types.Location]:
        here = await self.here(params.text_document.uri, params.position)
        if here is None:
            return []
        return self.locations(here.workspace, definitions(here.workspace.knowledge, *here[1:]))

    async def refer(self, params: types.ReferenceParams) -> list[types.Location]:
        here = await self.here(params.text_document.uri, params.position)
        if here is None:
            return []
        knowledge = here.workspace.knowledge
        things = [mention.thing for mention in things_at(knowledge, *here[1:])]
        whole = of_file(here.relative)
        things = things or ([whole] if whole is not None else [])
        declaring = params.context.include_declaration
        places = [place for thing in things for place in references(knowledge, thing, declaring=declaring)]
        return self.locations(here.workspace, dict.fromkeys(places))

    async def prepare(self, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder:
        here = await self.renaming(params.text_document.uri, params.position)
        with_errors(here.workspace)
        try:
            mention = renameable(here.workspace.knowledge, *here[1:])
        except RenameRefused as refused:
            raise failed(refused) from None
        start, end = mention.span.offset, mention.span.offset + mention.length
        return types.PrepareRenamePlaceholder(self.range(here.text, start, end), here.text[start:end])

    async def rename(self, params: types.RenameParams) -> types.WorkspaceEdit:
        here = await self.renaming(params.text_document.uri, params.position)
        with_errors(here.workspace)
        try:
            renaming = rename(here.workspace.knowledge, *here[1:], params.new_name)
        except RenameRefused as refused:
            raise failed(refused) from None
        return self.edit(here.workspace, renaming)

    async def renaming(self, uri: str, position: types.Position) -> Here:
        here = await self.here(uri, position)
        if here is None:
            raise failed(RenameRefused("this file is in no project"))
        return here

    def edit(self, workspace: Workspace, renaming: Renaming) -> types.WorkspaceEdit:
        """A rename as the editor takes it; one of a file only where it can do that."""
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
                raise failed(RenameRefused("this editor cannot give a file another name", "rename it by hand"))
            return types.WorkspaceEdit(changes={self.projects.uri(path): each for path, each in edits.items()})
        if renaming.files and types.ResourceOperationKind.Rename not in operations:
            raise failed(RenameRefused("this editor cannot give a file another name", "rename it by hand"))
        documents = self.server.workspace.text_documents
        changes: list[types.TextDocumentEdit | types.CreateFile | types.RenameFile | types.DeleteFile] = []
        for path, each in edits.items():
            uri = self.projects.uri(path)
            version = documents[uri].version if uri in documents else None
            changes.append(types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, version), each))
        for old, new in renaming.files:
            changes.append(types.RenameFile(self.projects.uri(old), self.projects.uri(new)))
        return types.WorkspaceEdit(document_changes=changes)


def with_errors(workspace: Workspace) -> None:
    """Raise where the project has errors: what is broken may name the thing as well."""
    problems = workspace.checked.problems if workspace.checked is not None else []
    wrong = next((problem for problem in problems if problem.severity == "error"), None)
    if wrong is not None:
        raise failed(RenameRefused(f"the project has errors, as in {wrong.path}:{wrong.line}", "mend them first"))


def failed(refused: RenameRefused) -> JsonRpcException:
    """A refusal as the editor shows it."""
    reason = f"{refused.message}; {refused.next_step}" if refused.next_step else refused.message
    return JsonRpcException(reason, code=_REQUEST_FAILED)


def register(server: LanguageServer, projects: Projects) -> None:
    """Let a server answer these questions."""
    features = Features(server, projects)

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=list(TRIGGERS)))
    async def completed(params: types.CompletionParams) -> list[types.CompletionItem]:
        return await features.complete(params)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hovered(params: types.HoverParams) -> types.Hover | None:
        return await features.hover(params)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    async def defined(params: types.DefinitionParams) -> list[types.Location]:
        return await features.define(params)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    async def referred(params: types.ReferenceParams) -> list[types.Location]:
        return await features.refer(params)

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    async def prepared(params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder:
        return await features.prepare(params)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    async def renamed(params: types.RenameParams) -> types.WorkspaceEdit:
        return await features.rename(params)
