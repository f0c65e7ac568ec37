"""Invalid messages, and files changed outside the editor: clear reports, no data loss, no traceback."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from lsprotocol import types

from tests.acceptance.editor.conftest import EXAMPLES, PATIENCE, Client, Editor, server_environment
from tests.launcher import start_python

pytestmark = [pytest.mark.row("A5")]
on_a_server = pytest.mark.asyncio(loop_scope="session")

IDEAS = "skills/workshop/ideas.md"
# Exits with 99 when the process starts another one or opens a connection.
GUARDED = """
import os, sys
BARRED = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect")
sys.addaudithook(lambda event, _: os._exit(99) if event in BARRED else None)
from skillrun.cli.main import main
sys.exit(main(["lsp"]))
"""


@on_a_server
async def test_a_file_of_10_mb_is_reported(editor: Editor) -> None:
    [problem] = await editor.open(IDEAS, "x" * 10_000_000)
    assert problem.code == "too-large"
    assert not await editor.type(IDEAS, editor.text(IDEAS))


@on_a_server
async def test_a_file_outside_a_project_is_logged_and_ignored(editor: Editor, client: Client, tmp_path: Path) -> None:
    stray = tmp_path / "notes.md"
    document = types.TextDocumentItem(stray.as_uri(), "markdown", 1, "---\nstepz: 1\n---\n")
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    symbols = types.DocumentSymbolParams(types.TextDocumentIdentifier(stray.as_uri()))
    assert not await client.text_document_document_symbol_async(symbols)
    unsaved = types.DocumentSymbolParams(types.TextDocumentIdentifier("untitled:Untitled-1"))
    assert not await client.text_document_document_symbol_async(unsaved)
    assert any("notes.md is not in a skillrun project" in entry.message for entry in client.log_messages)
    await editor.open(IDEAS)
    assert stray.as_uri() not in client.latest
    assert not client.messages


@on_a_server
async def test_a_file_that_is_open_under_two_names_is_checked_until_both_are_closed(
    editor: Editor, client: Client, tmp_path: Path
) -> None:
    shutil.copytree(EXAMPLES / "workshop", tmp_path / "project")
    (tmp_path / "link").symlink_to(tmp_path / "project")
    one, other = Editor(client, tmp_path / "project"), Editor(client, tmp_path / "link")
    await one.open(IDEAS)
    other.client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(other.uri(IDEAS), "markdown", 1, one.text(IDEAS)))
    )
    one.close(one.uri(IDEAS))
    other.versions[other.uri(IDEAS)] = 1
    assert await other.type(IDEAS, "---\nstepz: [\n---\n")
    other.close(other.uri(IDEAS))
    await editor.open(IDEAS)
    assert not client.messages


@on_a_server
async def test_an_unrelated_file_in_the_project_has_no_problems(editor: Editor) -> None:
    assert not await editor.open("docs/notes.md", "---\nstepz: [\n---\n")


@on_a_server
async def test_a_file_deleted_while_open_counts_until_it_is_closed(editor: Editor) -> None:
    choice = "skills/workshop/choice.md"
    await editor.open(choice)
    await editor.open("workflows/workshop.md")
    (editor.folder / choice).unlink()
    assert not await editor.type("workflows/workshop.md", editor.text("workflows/workshop.md") + "\n")
    editor.close(editor.uri(choice))
    problems = await editor.wait_for(editor.uri("workflows/workshop.md"), lambda params: bool(params.diagnostics))
    assert {problem.code for problem in problems} == {"unknown-phase"}


@on_a_server
async def test_a_renamed_folder_is_noticed(editor: Editor, client: Client) -> None:
    assert types.WORKSPACE_DID_CHANGE_WATCHED_FILES in client.registered
    workflow = "workflows/workshop.md"
    await editor.open(workflow)
    (editor.folder / "skills/workshop").rename(editor.folder / "skills/studio")
    change = types.FileEvent(editor.uri("skills/workshop"), types.FileChangeType.Deleted)
    client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([change]))
    problems = await editor.wait_for(editor.uri(workflow), lambda params: bool(params.diagnostics))
    assert {problem.code for problem in problems} == {"unknown-phase"}


@on_a_server
async def test_a_file_with_invalid_utf8_is_reported(editor: Editor, client: Client) -> None:
    (editor.folder / "roles/guide.md").write_bytes(b"---\nname: guide\n---\nCaf\xe9.\n")
    await editor.open(IDEAS)
    problems = await editor.wait_for(editor.uri("roles/guide.md"), lambda params: bool(params.diagnostics))
    assert {problem.code for problem in problems} == {"encoding"}
    assert problems[0].range.start.line == 3


class RawClient:
    """A client that sends arbitrary bytes."""

    def __init__(self, *command: str) -> None:
        pipe = subprocess.PIPE
        arguments = command or ("-m", "skillrun", "lsp")
        self.process = start_python(*arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=server_environment())

    def send(self, body: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def send_json(self, method: str, params: object, id_: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.send(json.dumps(message if id_ is None else {**message, "id": id_}).encode())

    def initialize(self, folder: Path) -> None:
        folders = [{"uri": folder.as_uri(), "name": "project"}]
        self.send_json("initialize", {"processId": None, "capabilities": {}, "workspaceFolders": folders}, 1)
        self.send_json("initialized", {})

    def read_message(self) -> dict[str, object]:
        """The next message of the server."""
        assert self.process.stdout is not None
        length = 0
        while (line := self.process.stdout.readline()).strip():
            name, _, value = line.decode().partition(":")
            length = int(value) if name == "Content-Length" else length
        return dict(json.loads(self.process.stdout.read(length)))

    def read_until(self, method: str) -> dict[str, object]:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            message = self.read_message()
            if message.get("method") == method:
                return message
        raise TimeoutError(method)

    def end(self) -> tuple[int, str, bytes]:
        """Close the connection; returns the exit code, stderr and the rest of stdout."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err.decode(), out


@pytest.mark.slow
@pytest.mark.parametrize("body", [b'{"jsonrpc": "2.0", ', b"[1, 2]", b'"hello"', b'{"caf\xe9": 1}', b'{"id": 3}'])
def test_an_invalid_message_is_reported_and_skipped(tmp_path: Path, body: bytes) -> None:
    shutil.copytree(EXAMPLES / "workshop", tmp_path / "project")
    raw = RawClient()
    raw.initialize(tmp_path / "project")
    raw.send(body)
    message = raw.read_until("window/showMessage")
    assert "could not read a message from the editor" in json.dumps(message)
    raw.send_json("shutdown", None, 2)
    raw.send_json("exit", None)
    code, err, _ = raw.end()
    assert code == 0
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.finding("FA8")
def test_a_uri_that_no_file_has_is_no_error_of_the_server(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "workshop", tmp_path / "project")
    raw = RawClient()
    raw.initialize(tmp_path / "project")
    root = (tmp_path / "project").as_uri()
    for uri in (f"{root}/roles/{'a/' * 20_000}x.md", f"file://[::1{tmp_path}/x.md", f"{root}/roles/a%00b.md"):
        document = {"uri": uri, "languageId": "markdown", "version": 1, "text": "x"}
        raw.send_json("textDocument/didOpen", {"textDocument": document})
        raw.send_json("textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}}, 5)
    change = {"textDocument": {"uri": f"{root}/roles/x.md", "version": 2}, "contentChanges": [{"text": "y"}]}
    raw.send_json("textDocument/didChange", change)
    raw.send_json("shutdown", None, 2)
    raw.send_json("exit", None)
    code, err, out = raw.end()
    assert (code, "Traceback" in err) == (0, False)
    assert b"bug in skillrun" not in out
    assert b"could not read a message from the editor" in out


@pytest.mark.slow
@pytest.mark.finding("FA8")
@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"Content-Length: 99999999999\r\n\r\n", "at most 100,000,000 are allowed"),
        (b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", "at most 100,000,000 are allowed"),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "a header that is too long"),
        (b"X" * 5000, "a header that is too long"),
    ],
)
def test_a_message_of_any_size_ends_the_server_with_an_error(header: bytes, message: str) -> None:
    raw = RawClient()
    assert raw.process.stdin is not None
    raw.process.stdin.write(header)
    raw.process.stdin.flush()
    code, err, _ = raw.end()
    assert (code, message in err) == (1, True)


@pytest.mark.slow
def test_the_server_exits_when_its_client_dies(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "workshop", tmp_path / "project")
    raw = RawClient()
    raw.initialize(tmp_path / "project")
    code, err, _ = raw.end()
    assert code == 0
    assert "Traceback" not in err


@pytest.mark.slow
def test_no_process_is_started_and_no_connection_is_opened(tmp_path: Path) -> None:
    """Any attempt ends the process with exit code 99."""
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "workshop", project)
    (project / "config/models.yaml").write_text(
        "providers: {mine: {kind: openai, base_url: 'http://example.org', key: HOME}}\ntiers: {fast: 'mine:x'}\n"
    )
    raw = RawClient("-c", GUARDED)
    raw.initialize(project)
    raw.read_until("textDocument/publishDiagnostics")
    raw.send_json("shutdown", None, 2)
    raw.send_json("exit", None)
    assert raw.end()[0] == 0


@pytest.mark.slow
def test_stdout_has_only_protocol_messages(tmp_path: Path) -> None:
    raw = RawClient("-c", "import sys\nfrom skillrun.cli.main import main\nmain(['lsp'])\nprint('bye')")
    raw.initialize(tmp_path)
    raw.send_json("shutdown", None, 2)
    raw.send_json("exit", None)
    code, _, out = raw.end()
    assert code == 0
    assert b"bye" not in out
