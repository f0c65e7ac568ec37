"""The language server: which documents are open, when they are checked, and what the editor is told of it.

Owns the protocol's side: addresses, positions as the editor counts them, messages. What is said is for `workspace` and
the modules of the features. Starts no process and runs nothing of a project.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from skillrun import __version__
from skillrun.editor.diagnostics import diagnostic
from skillrun.editor.features import register
from skillrun.editor.workspace import Workspace, project_of
from skillrun.language.check.rechecking import Outdated
from skillrun.language.text.diagnostics import Problem

SETTLE: Final = 0.02  # seconds without another change before a check begins


@dataclass
class Checking:
    """A project with the check that is going on: what was told of which file, and what is to be checked again."""

    workspace: Workspace
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    told: set[Path] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


class EditorServer(LanguageServer):
    """Answers one editor, about any number of projects."""

    def __init__(self, commands: Collection[str]) -> None:
        """`commands` are the names that no workflow can take."""
        super().__init__("skillrun", __version__, types.TextDocumentSyncKind.Full)
        self.commands = commands
        self.projects: dict[Path, Checking] = {}
        self.open: dict[Path, str] = {}  # the documents, by their files: the address that the editor has for each

    def place(self, uri: str) -> tuple[Workspace, Path] | None:
        """The project and the file that an address means; None for one that is in no project."""
        name = to_fs_path(uri) if uri.startswith("file:") else None
        if name is None:
            return None
        path = Path(name)
        project = project_of(path)
        if project is None:
            return None
        root = project.resolve()
        return self.checking(root).workspace, root / path.relative_to(project)

    def checking(self, project: Path) -> Checking:
        if project not in self.projects:
            checking = self.projects[project] = Checking(Workspace(project, self.commands))
            checking.task = asyncio.get_running_loop().create_task(self._keep_checked(checking))
        return self.projects[project]

    def uri(self, path: Path) -> str:
        return self.open.get(path) or from_fs_path(str(path)) or ""

    async def _keep_checked(self, checking: Checking) -> None:
        """Check a project after each change that settles, until the server ends."""
        while True:
            await checking.changed.wait()
            while checking.changed.is_set():
                checking.changed.clear()
                await asyncio.sleep(SETTLE)
            versions = {uri: document.version for uri, document in self.workspace.text_documents.items()}
            with suppress(Outdated):
                problems = await asyncio.to_thread(checking.workspace.check, checking.changed.is_set)
                self._tell(checking, problems, versions)

    def _tell(
        self, checking: Checking, problems: Mapping[Path, list[Problem]], versions: Mapping[str, int | None]
    ) -> None:
        """Tell the editor of all problems, and that there are none in what is open and in what had some."""
        codec = self.workspace.position_codec
        for path in problems.keys() | checking.workspace.unsaved.keys() | checking.told:
            uri, own = self.uri(path), problems.get(path, [])
            lines = (checking.workspace.text(path) or "").split("\n") if own else ()
            diagnostics = [diagnostic(problem, lines, codec) for problem in own]
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, versions.get(uri)))
        checking.told = set(problems)


def server(commands: Collection[str]) -> EditorServer:
    """A server with all that it can do, which has not been started."""
    made = EditorServer(commands)

    @made.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        changed(made, params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def edited(params: types.DidChangeTextDocumentParams) -> None:
        changed(made, params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        changed(made, params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        place = made.place(params.text_document.uri)
        if place is not None:
            workspace, path = place
            made.open.pop(path, None)
            workspace.forget(path)
            made.checking(workspace.project).changed.set()

    register(made, made)
    return made


def changed(server: EditorServer, uri: str) -> None:
    """Take over what the editor has of a document."""
    place = server.place(uri)
    if place is None:
        return
    workspace, path = place
    server.open[path] = uri
    workspace.edit(path, server.workspace.get_text_document(uri).source)
    server.checking(workspace.project).changed.set()


def serve(commands: Collection[str]) -> None:
    """Speak with an editor over stdin and stdout until it ends; what anything else prints goes to stderr."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server(commands).start_io(sys.stdin.buffer, output)
