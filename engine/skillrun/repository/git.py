"""Runs git, and writes the files of a commit.

git gets no variable, hook, filter or transport that a repository or the caller's environment could set. A commit is
its content: every object is compared with its hash, so no server, reference or cache can replace it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import signal
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple

from skillrun.repository.confined_folder import LONGEST
from skillrun.repository.paths import is_reserved_by_git
from skillrun.repository.readable_folder import MAX_FILES, MAX_PROJECT_BYTES
from skillrun.types.schemas import quote_value

MAX_OUTPUT: Final = 1_000_000  # bytes of each stream of a command
MAX_COMMIT: Final = 1_000_000  # bytes of a commit object: its message, and its signatures
MAX_MEMORY: Final = 700_000_000  # bytes of data in each process of a command: a file of a project, its base and buffers
READ_TIMEOUT: Final = 120.0  # seconds
REPLY_TIMEOUT: Final = 20.0  # seconds for the next part of a reply; git waits forever for a pipe in a repository
CHECK_SECONDS: Final = 0.1  # seconds between checks of a running command
CHUNK: Final = 1_000_000  # bytes
LOCAL: Final[Mapping[str, str]] = {
    "GIT_ALLOW_PROTOCOL": "",  # no transport: missing objects of a partial clone are not fetched
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
_NEUTRAL: Final[Mapping[str, str]] = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.alternateRefsCommand=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "pack.threads=1",  # each thread could unpack another object
    "protocol.ext.allow=never",
)
_LIMITED: Final = ("sh", "-c", f'ulimit -S -d {MAX_MEMORY // 1024} 2> /dev/null; exec "$@"', "sh")
"""Runs a command and its child processes with limited memory, where the system has such a limit.

A few bytes of a pack can describe an object of any size, and a server can list references without end.
"""
_HEADER: Final = re.compile(rb"[0-9a-f]{40,64} ([a-z]+) ([0-9]{1,15})")
_TREE_LINE: Final = re.compile(rb"tree ([0-9a-f]{40}|[0-9a-f]{64})")
_TREE_ENTRY: Final = re.compile(rb"([0-7]{5,6}) ([^\0]+)\0")
_FOLDER, _LINK, _FILE = b"40000", b"120000", b"100"  # modes, or how they begin


class GitFailed(Exception):
    """git cannot be run, its output exceeds a limit, or an object is missing or damaged."""


class ObjectMissing(GitFailed):
    """The repository has no object with this hash, or the object is of another kind."""


class CommitRefused(Exception):
    """The commit does not exist, exceeds a limit, or contains an invalid path. `hint` is the next step."""

    def __init__(self, reason: str, hint: str = "remove it there") -> None:
        super().__init__(reason)
        self.hint = hint


class CommitTooLarge(CommitRefused):
    """The commit exceeds the limits of a project."""

    def __init__(self) -> None:
        reason = f"has more than {MAX_PROJECT_BYTES / 1e6:,.0f} MB or {MAX_FILES:,} files"
        super().__init__(reason, "use a repository with only the files that the run reads")


class GitResult(NamedTuple):
    """The exit code, the output and the messages of a git command."""

    code: int
    output: bytes
    messages: str


@dataclass(frozen=True)
class Git:
    """git, executed in a folder. `environ` has the variables that it gets in addition to the neutral ones."""

    folder: Path
    environ: Mapping[str, str]
    program: str

    @classmethod
    def find(cls, folder: Path, environ: Mapping[str, str] = LOCAL, *, keep: tuple[str, ...] = ()) -> Git | None:
        """Return git, or None if it is not installed. Of the caller's `GIT_…` variables, it gets those in `keep`.

        `keep` has the beginnings of their names. By default, git cannot connect to another machine.
        """
        program = shutil.which("git")
        own = {
            name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(keep)
        }
        return None if program is None else cls(folder, {**own, **_NEUTRAL, **environ}, program)

    async def run(
        self, *arguments: str, seconds: float = READ_TIMEOUT, check: Callable[[], None] = lambda: None
    ) -> GitResult:
        """Run a command, and return its result. `check` is called regularly, and may raise an error to end the command.

        The command ends with all processes that it has started. Raises TimeoutError after `seconds`, and GitFailed if
        it writes too much. Its streams are files, because a process outside of its group could keep a pipe open.
        """
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
            async with asyncio.timeout(seconds), self._start(arguments, DEVNULL, output, messages) as process:
                running = asyncio.ensure_future(process.wait())
                while not (await asyncio.wait({running}, timeout=CHECK_SECONDS))[0]:
                    _check_sizes(output, messages)
                    check()
            _check_sizes(output, messages)
            check()
            output.seek(0)
            messages.seek(0)
            return GitResult(process.returncode or 0, output.read(), messages.read().decode(errors="replace"))

    @asynccontextmanager
    async def _start(
        self, arguments: Sequence[str], stdin: int, output: IO[bytes] | int, messages: IO[bytes] | int
    ) -> AsyncIterator[Process]:
        """Yield a running command, and kill its process group at the end."""
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        process = await asyncio.create_subprocess_exec(
            *_LIMITED, self.program, *settings, *arguments,
            stdin=stdin, stdout=output, stderr=messages, cwd=self.folder, env=self.environ, limit=CHUNK,
            start_new_session=True,  # no terminal for prompts, and one process group to kill
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await asyncio.shield(process.wait())

    @asynccontextmanager
    async def open_objects(self) -> AsyncIterator[ObjectReader]:
        """Yield a reader of the repository's objects."""
        async with self._start(("cat-file", "--batch"), PIPE, PIPE, DEVNULL) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            yield ObjectReader(process.stdin, process.stdout)


def _check_sizes(*streams: IO[bytes]) -> None:
    """Raises GitFailed if a command has written more than `MAX_OUTPUT` bytes to a stream."""
    if any(os.fstat(stream.fileno()).st_size > MAX_OUTPUT for stream in streams):
        raise GitFailed(f"git wrote more than {MAX_OUTPUT:,} bytes")


class ObjectReader:
    """Reads objects through `git cat-file --batch`, and compares each with its hash."""

    def __init__(self, requests: asyncio.StreamWriter, replies: asyncio.StreamReader) -> None:
        self._requests, self._replies = requests, replies

    def request(self, *hashes: str) -> None:
        """Request objects, which are then read in this order."""
        self._requests.write("".join(f"{sha}\n" for sha in hashes).encode())

    async def read(self, sha: str, kind: str, most: int, write: Callable[[bytes], object]) -> int:
        """Pass the content of the next requested object to `write`, in pieces, and return its size in bytes.

        Raises CommitTooLarge if it has more than `most` bytes, ObjectMissing if it is missing or not of this `kind`,
        and GitFailed if it does not match its hash.
        """
        try:
            header = (await _wait_for_reply(self._replies.readuntil(b"\n"))).rstrip(b"\n")
            found = _HEADER.fullmatch(header)
            if found is None or found[1].decode() != kind:
                raise ObjectMissing(f"the {kind} {sha} is missing")
            size = int(found[2])
            if size > most:
                raise CommitTooLarge
            digest = hashlib.sha256() if len(sha) == 64 else hashlib.sha1(usedforsecurity=False)
            digest.update(f"{kind} {size}\0".encode())
            remaining = size
            while remaining:
                piece = await _wait_for_reply(self._replies.readexactly(min(remaining, CHUNK)))
                digest.update(piece)
                write(piece)
                remaining -= len(piece)
            await _wait_for_reply(self._replies.readexactly(1))  # the line end after the content
        except (EOFError, asyncio.LimitOverrunError, TimeoutError) as error:
            raise GitFailed(f"the {kind} {sha} cannot be read") from error
        if digest.hexdigest() != sha:
            raise GitFailed(f"the {kind} {sha} does not match its hash")
        return size

    async def read_whole(self, sha: str, kind: str, most: int) -> bytes:
        """Request an object, and return its content. Raises the errors of `read`."""
        content = bytearray()
        self.request(sha)
        await self.read(sha, kind, most, content.extend)
        return bytes(content)


async def _wait_for_reply(reading: Awaitable[bytes]) -> bytes:
    async with asyncio.timeout(REPLY_TIMEOUT):
        return await reading


class _Entry(NamedTuple):
    """An entry of a tree: its mode, its path and its hash."""

    mode: bytes
    path: str
    sha: str


@dataclass
class CommitWriter:
    """Writes the files of a commit to a folder: at most MAX_FILES with MAX_PROJECT_BYTES, without submodules.

    `start` is the path of the folder in the commit, and `top` the names in it to write; all if empty. Links are written
    unless `links` is false.
    """

    git: Git
    target: Path
    start: str = ""
    top: Sequence[str] = ()
    links: bool = True

    async def write(self, sha: str) -> int:
        """Write the files, and then the links, so that no file is written through a link. Return the number of both.

        Raises CommitRefused, GitFailed, OSError.
        """
        self._remaining = MAX_PROJECT_BYTES
        async with self.git.open_objects() as objects:
            try:
                commit = await objects.read_whole(sha, "commit", MAX_COMMIT)
            except ObjectMissing:
                raise CommitRefused(f"has no commit {sha}", "push the commit, and submit the run again") from None
            tree = _TREE_LINE.match(commit)
            if tree is None:
                raise GitFailed(f"the commit {sha} is invalid")
            entries = await self._list_files(objects, tree[1].decode())
            objects.request(*(entry.sha for entry in entries))
            links = []
            for entry in entries:
                await asyncio.sleep(0)  # other runs of this process continue, and the time limit holds
                path = self.target / entry.path.removeprefix(f"{self.start}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                if entry.mode == _LINK:
                    link = bytearray()
                    await self._read_blob(objects, entry, link.extend)
                    links.append((path, self._link_target(entry, bytes(link))))
                    continue
                with path.open("xb") as file:
                    await self._read_blob(objects, entry, file.write)
                path.chmod(0o755 if int(entry.mode, 8) & 0o100 else 0o644)
        for path, link_target in links:
            path.symlink_to(link_target)
        return len(entries)

    async def _read_blob(self, objects: ObjectReader, entry: _Entry, write: Callable[[bytes], object]) -> None:
        self._remaining -= await objects.read(entry.sha, "blob", self._remaining, write)

    def _link_target(self, entry: _Entry, content: bytes) -> str:
        if len(content) > LONGEST:
            raise CommitRefused(f"contains {quote_value(entry.path)}, a link that is too long")
        if not content or b"\0" in content:
            raise CommitRefused(f"contains {quote_value(entry.path)}, an invalid link")
        return os.fsdecode(content)

    async def _list_files(self, objects: ObjectReader, tree: str) -> list[_Entry]:
        """Return the files and links to write. Raises CommitTooLarge if there are too many of them, or of folders."""
        found: list[_Entry] = []
        folders = [_Entry(_FOLDER, "", tree)]
        for folder in folders:  # which grows meanwhile
            content = await objects.read_whole(folder.sha, "tree", self._remaining)
            self._remaining -= len(content)
            for entry in filter(self._is_wanted, _parse_tree(content, folder)):
                if entry.mode == _FOLDER:
                    folders.append(entry)
                elif entry.mode.startswith(_FILE) or (entry.mode == _LINK and self.links):
                    found.append(entry)
            if max(len(found), len(folders)) > MAX_FILES:
                raise CommitTooLarge
        return found

    def _is_wanted(self, entry: _Entry) -> bool:
        """Whether the entry is one of the selected files, or a folder that may contain some."""
        path = f"{entry.path}/"
        if self.start and not path.startswith(f"{self.start}/"):
            return f"{self.start}/".startswith(path)
        inner = path.removeprefix(f"{self.start}/") if self.start else path
        return not inner or not self.top or inner.partition("/")[0] in self.top


def _parse_tree(content: bytes, folder: _Entry) -> list[_Entry]:
    """Return the entries of a tree. Raises GitFailed if it is invalid, CommitRefused for a path that git refuses."""
    entries, names, at, length = [], set(), 0, len(folder.sha) // 2
    while at < len(content):
        found = _TREE_ENTRY.match(content, at)
        at = found.end() + length if found is not None else len(content) + 1
        if found is None or at > len(content):
            raise GitFailed(f"the tree {folder.sha} is invalid")
        name, mode = os.fsdecode(found[2]), found[1].lstrip(b"0")
        path = f"{folder.path}/{name}" if folder.path else name
        if "/" in name or name in (".", "..") or is_reserved_by_git(name) or name in names:
            raise CommitRefused(f"contains {quote_value(path)}, which is not a valid path in a repository")
        if len(path) > LONGEST:
            raise CommitRefused(f"contains {quote_value(path[:80])}…, a path that is too long")
        names.add(name)
        entries.append(_Entry(mode, path, content[found.end() : at].hex()))
    return entries
