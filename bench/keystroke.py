"""Measures how long an editor waits for the problems after a keystroke, in milliseconds, as one line of JSON.

A client types one character at a time into a project file and waits for the diagnostics of `skillrun lsp`.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from bench import libraries, process
from skillrun.library.roots import package_library

KEYSTROKES = 20
PAUSE = 0.2  # seconds from the problems of one keystroke to the next keystroke
TYPED = "Write {{ inputs.nosuch }}."
FILES = {
    "a phase": "skills/flow-3/weigh.md",
    "a role": "roles/role-3-a.md",
    "a workflow": "workflows/flow-3.md",
    "the longest shipped workflow's phase": "skills/plan/research.md",
}


class Typist(LanguageClient):
    """A client that waits for the diagnostics of the version it sent last."""

    def __init__(self) -> None:
        super().__init__("typist", "1")
        self.reply: asyncio.Future[types.PublishDiagnosticsParams] | None = None
        self.awaited = ("", 0)

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def published(params: types.PublishDiagnosticsParams) -> None:
            if self.reply is not None and not self.reply.done() and (params.uri, params.version) == self.awaited:
                self.reply.set_result(params)

    async def wait_for(self, uri: str, version: int) -> types.PublishDiagnosticsParams:
        self.awaited, self.reply = (uri, version), asyncio.get_running_loop().create_future()
        return await self.reply


async def measure(project: Path, name: str) -> dict[str, float]:
    """Milliseconds: the median keystroke, the slowest, and the time from server start to the first problems."""
    client = Typist()
    server_started = time.perf_counter()
    await client.start_io(sys.executable, "-m", "skillrun", "lsp")
    path = project / name
    uri, text = path.as_uri(), path.read_text(encoding="utf-8")
    folders = [types.WorkspaceFolder(project.as_uri(), project.name)]
    await client.initialize_async(types.InitializeParams(types.ClientCapabilities(), workspace_folders=folders))
    client.initialized(types.InitializedParams())
    opened = types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "markdown", 0, text))
    client.text_document_did_open(opened)
    await client.wait_for(uri, 0)
    first, durations = time.perf_counter() - server_started, []
    for version, content in enumerate(edits(text), 1):
        await asyncio.sleep(PAUSE)
        change = types.TextDocumentContentChangeWholeDocument(content)
        document = types.VersionedTextDocumentIdentifier(version, uri)
        started = time.perf_counter()
        client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        await client.wait_for(uri, version)
        durations.append(time.perf_counter() - started)
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()  # type: ignore[no-untyped-call]
    return {"median": statistics.median(durations) * 1e3, "slowest": max(durations) * 1e3, "first": first * 1e3}


def edits(text: str) -> Iterator[str]:
    """The text after each keystroke of a line added at its end."""
    for length in range(1, KEYSTROKES + 1):
        yield f"{text}\n{TYPED[:length]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", choices=FILES)
    name = FILES[parser.parse_args().file]
    with process.scratch() as folder:
        project = package_library() if name.startswith("skills/plan") else folder
        libraries.write(folder, 100)
        print(json.dumps(asyncio.run(measure(project, name))))


if __name__ == "__main__":
    main()
