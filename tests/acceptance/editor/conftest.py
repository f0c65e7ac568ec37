"""Fixtures for the language server: a server process, and an editor connected to it."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features

EXAMPLES = Path(__file__).parents[2] / "examples" / "valid"
_FIRST_VERSIONS = count(1, 1000)  # keeps diagnostics of earlier tests apart
PATIENCE = 30  # seconds until a test gives up


def server_environment() -> dict[str, str]:
    """The environment of a server, with an empty home."""
    home = tempfile.mkdtemp(prefix="home-")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {**variables, "HOME": home}


class Client(LanguageClient):
    """A client that keeps the latest diagnostics of each file, with its version."""

    def __init__(self) -> None:
        super().__init__(converter_factory=default_converter)
        self.latest: dict[str, types.PublishDiagnosticsParams] = {}
        self.update = asyncio.Event()
        self.registered: list[str] = []
        own = {
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: _on_diagnostics,
            types.CLIENT_REGISTER_CAPABILITY: _on_registration,
        }
        register_lsp_features(self, {**DEFAULT_CLIENT_FEATURES, **own})


def _on_registration(client: Client, params: types.RegistrationParams) -> None:
    client.registered += [each.method for each in params.registrations]


def _on_diagnostics(client: Client, params: types.PublishDiagnosticsParams) -> None:
    client.latest[params.uri] = params
    client.update.set()


@dataclass
class Editor:
    """An editor with a project open in it."""

    client: Client
    folder: Path
    versions: dict[str, int] = field(default_factory=dict)

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        """Write a file outside the editor."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    async def open(self, name: str, text: str | None = None) -> Sequence[types.Diagnostic]:
        """Open a file, with its text or another one; returns its problems."""
        uri = self.uri(name)
        self.versions[uri] = next(_FIRST_VERSIONS)
        text = self.text(name) if text is None else text
        document = types.TextDocumentItem(uri, "markdown", self.versions[uri], text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        return await self.problems(name)

    async def type(self, name: str, text: str) -> Sequence[types.Diagnostic]:
        """Change the text of an open file; returns its problems."""
        self.change(name, text)
        return await self.problems(name)

    def change(self, name: str, text: str) -> None:
        uri = self.uri(name)
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def close(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    async def actions(self, name: str, problem: types.Diagnostic) -> list[types.CodeAction]:
        """The code actions that the server offers for a problem."""
        document, context = types.TextDocumentIdentifier(self.uri(name)), types.CodeActionContext([problem])
        params = types.CodeActionParams(document, problem.range, context)
        actions = await self.client.text_document_code_action_async(params)
        return [action for action in actions or () if isinstance(action, types.CodeAction)]

    async def problems(self, name: str) -> Sequence[types.Diagnostic]:
        """The problems of the newest text of an open file."""
        uri = self.uri(name)
        return await self.wait_for(uri, lambda params: params.version == self.versions[uri])

    async def wait_for(
        self, uri: str, condition: Callable[[types.PublishDiagnosticsParams], bool]
    ) -> Sequence[types.Diagnostic]:
        async with asyncio.timeout(PATIENCE):
            while uri not in self.client.latest or not condition(self.client.latest[uri]):
                self.client.update.clear()
                await self.client.update.wait()
        return self.client.latest[uri].diagnostics


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project that is open in the editor."""
    return tmp_path_factory.mktemp("editor") / "project"


@pytest_lsp.fixture(  # type: ignore[untyped-decorator]
    scope="session",
    config=ClientServerConfig([sys.executable, "-m", "skillrun", "lsp"], Client, server_env=server_environment()),
)
async def client(lsp_client: LanguageClient, folder: Path) -> AsyncIterator[None]:
    """A server for all tests, started as VS Code starts it."""
    shutil.copytree(EXAMPLES / "workshop", folder)
    params = types.InitializeParams(client_capabilities("visual-studio-code"))
    params.workspace_folders = [types.WorkspaceFolder(folder.as_uri(), folder.name)]
    await lsp_client.initialize_session(params)
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def editor(client: Client, folder: Path) -> Iterator[Editor]:
    """An editor with a fresh copy of the example project; its files are closed afterwards."""
    shutil.rmtree(folder)
    shutil.copytree(EXAMPLES / "workshop", folder)
    client.latest.clear()
    editor = Editor(client, folder)
    yield editor
    for uri in editor.versions:
        editor.close(uri)
