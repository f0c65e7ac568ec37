"""Tracks the documents that are open in an editor, checks their projects and publishes diagnostics.

The message handlers are in `handlers`. The server starts no process and runs no workflow.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from lsprotocol import types
from pygls.exceptions import FeatureRequestError, JsonRpcException, JsonRpcInternalError, PyglsError
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from skillrun.extensions.lsp.conversions import build_diagnostic, word_range
from skillrun.extensions.lsp.workspace import CheckOutdated, Workspace, find_project
from skillrun.library.roots import enclosing_project
from skillrun.repository.confined_folder import LONGEST
from skillrun.syntax.diagnostics import Problem
from skillrun.version import __version__

SETTLE_SECONDS: Final = (
    0.005  # a check starts after so many seconds without a change, because one rename changes many files
)
UNREADABLE: Final = "skillrun could not read a message from the editor and ignored it"


def file_path(uri: str) -> str | None:
    """Return the path of a file's URI; None if the URI is invalid, or longer than the path of any file."""
    with suppress(ValueError):
        path = to_fs_path(uri)
        return path if path is not None and len(path) <= LONGEST else None
    return None


def _is_raised_in_skillrun(error: Exception) -> bool:
    """Whether a function of skillrun was running when the error was raised."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(str(frame.f_globals.get("__name__", "")).startswith("skillrun.") for frame, _ in frames)


CrashReporter = Callable[[Exception], str]


@dataclass
class ProjectCheck:
    """A project and the state of its checks: the published diagnostics, and whether something has changed since."""

    workspace: Workspace
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    published: dict[Path, types.PublishDiagnosticsParams] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class ProjectFile(NamedTuple):
    """A file, and the project that contains it."""

    project: ProjectCheck
    path: Path


class EditorServer(LanguageServer):
    """The server for one editor, which may have any number of projects open."""

    def __init__(self, commands: Collection[str], crash_report: CrashReporter) -> None:
        """`commands` are names that workflows cannot have; `crash_report` returns the message for an internal error."""
        super().__init__("skillrun", __version__, types.TextDocumentSyncKind.Full)
        self.commands = commands
        self.crash_report = crash_report
        self.projects: dict[Path, ProjectCheck] = {}
        self.workspace_projects: set[Path] = set()
        self.open_documents: dict[str, ProjectFile | None] = {}  # keyed by URI

    # where files are

    def find_file(self, uri: str) -> ProjectFile | None:
        """Return the file of a URI and its project; None if the file is not in a project."""
        if uri in self.open_documents:
            return self.open_documents[uri]
        name = file_path(uri) if uri.startswith("file:") else None
        project = find_project(Path(name)) if name is not None else None
        if name is None or project is None:
            return None
        root = Path(os.path.realpath(project))
        return ProjectFile(self.get_project_check(root), root / Path(name).relative_to(project))

    def uri(self, path: Path) -> str:
        """Return the URI of a file. If the file is open, this is the URI that the editor uses."""
        opened = (uri for uri, file in self.open_documents.items() if file is not None and file.path == path)
        return next(opened, None) or from_fs_path(str(path)) or ""

    def get_project_check(self, project: Path) -> ProjectCheck:
        if project not in self.projects:
            sibling = next((checking.workspace for checking in self.projects.values()), None)
            checking = self.projects[project] = ProjectCheck(Workspace(project, self.commands, sibling))
            checking.task = asyncio.get_running_loop().create_task(self._check_loop(checking))
        return self.projects[project]

    # what changes

    def set_workspace_folders(self) -> None:
        """Check the projects of the editor's folders, even without an open document, and drop other unused projects."""
        folders = {folder.uri for folder in self.workspace.folders.values()}
        if not folders and self.workspace.root_uri:  # older editors send only a single root
            folders = {self.workspace.root_uri}
        paths = map(file_path, folders)
        projects = (enclosing_project(Path(path)) for path in paths if path is not None)
        self.workspace_projects = {Path(os.path.realpath(project)) for project in projects if project is not None}
        for project in self.workspace_projects:
            self.get_project_check(project)
        for checking in list(self.projects.values()):
            self._check_or_drop(checking)

    def update_document(self, uri: str) -> None:
        """Use the editor's text of a document instead of the text on disk."""
        if uri not in self.open_documents:
            self.open_documents[uri] = self.find_file(uri)
            if self.open_documents[uri] is None and uri.startswith("file:"):
                message = f"{file_path(uri) or uri[:LONGEST]} is not in a skillrun project and is not checked"
                self.window_log_message(types.LogMessageParams(types.MessageType.Info, message))
        file = self.open_documents[uri]
        if file is not None:
            file.project.workspace.edit(file.path, self.workspace.get_text_document(uri).source)
            file.project.changed.set()

    def close_document(self, uri: str) -> None:
        """Use the text on disk again. Drop the project if no other document in it is open."""
        file = self.open_documents.pop(uri, None)
        if file is not None:
            file.project.workspace.edit(file.path, None)
            self._check_or_drop(file.project)

    def _check_or_drop(self, checking: ProjectCheck) -> None:
        """Check a project, or drop it if it has no open document and is in no folder of the editor."""
        checking.changed.set()  # also stops a check in progress
        # an editor can open a file under two names, so an open document may have no unsaved text
        is_open = any(file is not None and file.project is checking for file in self.open_documents.values())
        if is_open or checking.workspace.project in self.workspace_projects:
            return
        del self.projects[checking.workspace.project]
        if checking.task is not None:
            checking.task.cancel()
        self._publish(checking, {}, {})

    def invalidate(self) -> None:
        """Check all projects again, after a change on disk."""
        for checking in self.projects.values():
            checking.workspace.invalidate()
            checking.changed.set()

    # checks and messages

    async def _check_loop(self, checking: ProjectCheck) -> None:
        """Check a project each time it has changed and the changes have settled, until the server ends."""
        while True:
            await checking.changed.wait()
            while checking.changed.is_set():
                checking.changed.clear()
                await asyncio.sleep(SETTLE_SECONDS)
            versions = {uri: document.version for uri, document in self.workspace.text_documents.items()}
            try:
                problems = await asyncio.to_thread(checking.workspace.check, checking.changed.is_set)
                self._publish(checking, problems, versions)
            except CheckOutdated:
                continue
            except BrokenPipeError:  # the editor is gone; the end of its input ends the server
                return
            except Exception as error:  # noqa: BLE001 (later changes must still be checked)
                self.report_server_error(error, PyglsError)

    def _publish(
        self, checking: ProjectCheck, problems: Mapping[Path, list[Problem]], versions: Mapping[str, int | None]
    ) -> None:
        """Publish all problems, and clear the diagnostics of open files and of files that no longer have problems."""
        published: dict[Path, types.PublishDiagnosticsParams] = {}
        for path in {*problems, *checking.workspace.unsaved, *checking.published}:
            uri, diagnostics = self.uri(path), self._build_diagnostics(checking.workspace, path, problems.get(path, ()))
            params = types.PublishDiagnosticsParams(uri, diagnostics, versions.get(uri))
            if params != checking.published.get(path):
                self.text_document_publish_diagnostics(params)
            if diagnostics or params.version is not None:
                published[path] = params
        checking.published = published

    def _build_diagnostics(
        self, workspace: Workspace, path: Path, problems: Iterable[Problem]
    ) -> list[types.Diagnostic]:
        codec = self.workspace.position_codec
        lines = (workspace.text(path) or "").split("\n") if problems else []
        diagnostics = []
        for problem in problems:
            related = None
            if problem.elsewhere is not None:
                label, line, column = problem.elsewhere
                other = workspace.resolve_label(label)
                other_lines = (workspace.text(other) or "").split("\n")
                related = types.Location(self.uri(other), word_range(other_lines, line, column, codec))
            diagnostics.append(build_diagnostic(problem, lines, codec, related))
        return diagnostics

    def report_server_error(self, error: Exception, source: type[PyglsError | JsonRpcException]) -> None:
        """Show in the editor that a message was unreadable, or that an internal error occurred."""
        is_refusal = isinstance(error, JsonRpcException) and not isinstance(error, JsonRpcInternalError)
        if source is FeatureRequestError and is_refusal:  # the response contains the reason
            return
        raised = sys.exception()
        cause = raised if isinstance(raised, Exception) else error
        # an error inside pygls: the message has an invalid URI, or names a document that is not open
        if source is JsonRpcException or not _is_raised_in_skillrun(cause):
            message = UNREADABLE
        else:
            message = self.crash_report(cause)
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))
