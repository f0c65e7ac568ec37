"""Parses inputs of the form URL@COMMIT, and fetches the commits into a folder next to this machine's projects.

Reads the files from git's objects, without a working tree. So git neither executes nor follows anything that a
repository configures. Submodules and LFS content are not fetched.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import tarfile
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from errno import ENAMETOOLONG
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from skillrun.extensions.workers.bundle import LARGEST, fill_folder
from skillrun.models.redaction import strip_userinfo
from skillrun.repository.readable_folder import MAX_FILES
from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.schemas import quote_value

FOLDER: Final = "repositories"
PROTOCOLS: Final = ("https", "ssh")
FILE: Final = "file"
REPOSITORY_URL_HINT: Final = (
    "use https://host/name.git@COMMIT or ssh://git@host/name.git@COMMIT; `git rev-parse HEAD` prints the commit"
)
NO_CREDENTIALS_HINT: Final = "remove everything before the host, except ssh's `git@`, and everything after `?` or `#`"
_REMOTE: Final = re.compile(r"[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:", re.IGNORECASE)
_TYPED: Final = re.compile(r"(?P<url>[!-~]{1,2000})@(?P<commit>[0-9a-f]{40}|[0-9a-f]{64})")
_HOST: Final = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\]-]*")


def is_remote(text: str) -> bool:
    """Whether `text` is meant as a URL, not as a path."""
    return _REMOTE.match(text) is not None


@dataclass(frozen=True)
class Commit:
    """One commit of a repository."""

    url: str
    sha: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse URL@COMMIT. Raises UsageError for invalid text, and for a URL with credentials."""
        found = _TYPED.fullmatch(text)
        if found is None:
            raise UsageError(
                f"{quote_value(strip_userinfo(text))} is not a repository URL with a full commit hash",
                REPOSITORY_URL_HINT,
            )
        url, commit = found["url"], found["commit"]
        try:
            parts = urlsplit(url)
            has_key = parts.password is not None or (parts.username is not None and parts.scheme != "ssh")
        except ValueError as error:
            raise UsageError(
                f"{quote_value(strip_userinfo(url))} is not a valid URL: {error}", REPOSITORY_URL_HINT
            ) from None
        if not parts.scheme:
            raise UsageError(f"{quote_value(url)} is not a valid URL", REPOSITORY_URL_HINT)
        if has_key or parts.query or parts.fragment:
            message = "a repository URL is stored and must not contain credentials; workers use their own credentials"
            raise UsageError(message, NO_CREDENTIALS_HINT)
        if parts.scheme not in (*PROTOCOLS, FILE):
            raise UsageError(f"repositories cannot be fetched over `{parts.scheme}`", REPOSITORY_URL_HINT)
        if parts.scheme != FILE and not _HOST.fullmatch(parts.netloc.rpartition("@")[2]):
            raise UsageError(f"{quote_value(url)} has no valid host", REPOSITORY_URL_HINT)
        if (parts.username or "").startswith("-"):
            raise UsageError(f"{quote_value(url)} has no valid user", REPOSITORY_URL_HINT)
        return cls(url, commit)

    @property
    def name(self) -> str:
        """The name of the folder with the commit's files. The hash in the name is enough to identify the content."""
        last = urlsplit(self.url).path.rstrip("/").rpartition("/")[2].removesuffix(".git")
        return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', last).strip('.-')[:60] or 'repository'}-{self.sha}"

    @property
    def path(self) -> str:
        """The folder's path relative to the run's project.

        The path is the same on every worker, because prompts can contain it.
        """
        return f"../{FOLDER}/{self.name}"


FETCH_TIMEOUT: Final = 300.0  # seconds
SIZE_CHECK_SECONDS: Final = 0.2  # seconds between checks of the fetched size
LONGEST_LINK: Final = 4096  # bytes
_GONE: Final = re.compile(r"not our ref|couldn't find remote ref|does not point to a valid object")
_UNNAMED: Final = "unadvertised object"
_UNCHANGED: Final = "* -text -eol -ident !filter !working-tree-encoding !export-ignore !export-subst\n"
"""Attributes with which `git archive` writes files as they are in the commit."""
_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "tar.umask=0",
)
_QUIET: Final = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GCM_INTERACTIVE": "never", "LC_ALL": "C"}
_REDIRECTING_VARIABLES: Final = frozenset(
    {"GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"}
)


class Unfetchable(SkillrunError):
    """No worker can fetch the commit: it does not exist, exceeds a limit, or contains an invalid path."""


class CommitCache:
    """The commits that this machine has fetched. Each commit is fetched once, for all runs."""

    def __init__(self, projects: Path, *, files: bool = False) -> None:
        """`files` allows `file://` URLs."""
        self._folder = projects / FOLDER
        self._protocols = (*PROTOCOLS, FILE) if files else PROTOCOLS
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[None]] = {}

    async def ensure_available(self, commit: Commit) -> None:
        """Fetch the commit if it is missing.

        Raises Unfetchable if no machine can fetch the commit, and a different SkillrunError if only this machine
        cannot fetch it.
        """
        while not (self._folder / commit.name).is_dir():
            with self._lock:
                pending = self._under_way.get(commit.name)
                result: Future[None] = Future()
                if pending is None:
                    self._under_way[commit.name] = result
            if pending is not None:
                await asyncio.shield(asyncio.wrap_future(pending))
                continue
            try:
                await self._fetch(commit)
            except SkillrunError as error:
                result.set_exception(error)
                raise
            finally:
                with self._lock:
                    del self._under_way[commit.name]
                if not result.done():
                    result.set_result(None)

    async def _fetch(self, commit: Commit) -> None:
        """Fetch the commit, and move its files into place only when they are complete."""
        git = shutil.which("git")
        if git is None:
            raise SkillrunError("git is not installed, and the run needs it to fetch a repository", "install git")
        if urlsplit(commit.url).scheme not in self._protocols:
            hint = "start the worker with `--file-urls`"
            message = f"{commit.url} cannot be fetched, because file:// URLs are not allowed on this machine"
            raise SkillrunError(message, hint)
        try:
            with (
                fill_folder(self._folder / commit.name) as made,
                tempfile.TemporaryDirectory(
                    prefix=".fetching-", dir=self._folder, ignore_cleanup_errors=True
                ) as objects_folder,
            ):
                async with asyncio.timeout(FETCH_TIMEOUT):
                    objects = _Objects(git, Path(objects_folder), self._protocols)
                    await objects.fetch(commit)
                    await objects.write(commit, made)
        except TimeoutError:
            message = f"{commit.url} could not be fetched within {FETCH_TIMEOUT:.0f} seconds"
            raise SkillrunError(message, "check the connection from this machine") from None
        except (EOFError, ValueError, tarfile.TarError) as error:
            message = f"the objects that git fetched from {commit.url} cannot be read: {error}"
            raise SkillrunError(message, f"inspect {self._folder}") from error
        except OSError as error:
            if error.errno == ENAMETOOLONG:
                message = f"a file name in commit {commit.sha} of {commit.url} is too long"
                raise Unfetchable(message, "use a commit without this file") from error
            hint = "check the free space, and the file names in the commit"
            raise SkillrunError(f"{self._folder} cannot be written: {error.strerror}", hint) from error


class _Objects:
    """The git objects of one commit, in a temporary folder."""

    def __init__(self, git: str, folder: Path, protocols: Sequence[str]) -> None:
        self._git, self._folder = git, folder
        kept = {name: value for name, value in os.environ.items() if name not in _REDIRECTING_VARIABLES}
        self._environ = {**kept, **_QUIET, "GIT_ALLOW_PROTOCOL": ":".join(protocols), "GIT_DIR": str(folder)}

    async def fetch(self, commit: Commit) -> None:
        """Fetch the objects of the commit.

        Raises Unfetchable if the commit is missing or too large, and a different SkillrunError if this machine cannot
        fetch it.
        """
        kind = "sha256" if len(commit.sha) == 64 else "sha1"
        code, output = await self._run_git("init", "--quiet", "--bare", "--template=", f"--object-format={kind}")
        if code:
            raise _fetch_error(commit, output)
        code, output = await self._fetch_ref(commit, commit.sha, "--depth=1")
        if code and _UNNAMED in output:  # a server with an old protocol has only named refs: fetch all
            code, output = await self._fetch_ref(commit, "+refs/*:refs/*")
        if code:
            raise _fetch_error(commit, output)
        if (await self._run_git("cat-file", "-e", f"{commit.sha}^{{commit}}"))[0]:
            raise _missing_commit_error(commit)

    async def _fetch_ref(self, commit: Commit, ref: str, *options: str) -> tuple[int, str]:
        """Fetch a ref, and return git's exit code and messages. Raises Unfetchable if it is too large."""
        return await self._run_git(
            "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--no-auto-maintenance", *options, "--", commit.url, ref, too_large=_too_large_error(commit),
        )  # fmt: skip

    async def write(self, commit: Commit, target: Path) -> None:
        """Write the commit's files, and then its links, so that no file is written through a link.

        Raises Unfetchable, OSError, tarfile.TarError.
        """
        too_large = _too_large_error(commit)
        (self._folder / "info").mkdir(exist_ok=True)
        (self._folder / "info/attributes").write_text(_UNCHANGED)
        packed = self._folder / "files.tar"
        arguments = ("archive", "--worktree-attributes", "--format=tar", f"--output={packed}", f"{commit.sha}^{{tree}}")
        code, output = await self._run_git(*arguments, too_large=too_large, limit=3 * LARGEST)  # with the objects
        if code:
            raise EOFError(output)
        links: list[tuple[Path, str]] = []
        remaining_bytes, remaining_files = LARGEST, MAX_FILES
        with tarfile.open(packed, encoding="utf-8") as archive:
            for entry in archive:
                await asyncio.sleep(0)  # other runs of this process continue, and the time limit holds
                _check_entry(entry, commit)
                if entry.isdir():  # also a submodule
                    continue
                remaining_bytes, remaining_files = remaining_bytes - entry.size, remaining_files - 1
                if min(remaining_bytes, remaining_files) < 0:
                    raise too_large
                path = target / entry.name
                path.parent.mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(entry) if entry.isreg() else None
                if content is None:
                    links.append((path, entry.linkname))
                    continue
                with path.open("xb") as file:
                    shutil.copyfileobj(content, file)
                path.chmod(0o755 if entry.mode & 0o100 else 0o644)
        for path, link_target in links:
            path.symlink_to(link_target)

    async def _run_git(
        self, *arguments: str, too_large: Unfetchable | None = None, limit: int | None = None
    ) -> tuple[int, str]:
        """Run git, and return its exit code and messages.

        Raises `too_large`, if given, as soon as the folder has more than `limit` bytes.
        """
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        with tempfile.TemporaryFile() as messages:  # not a pipe, which a process outside of the group can keep open
            process = await asyncio.create_subprocess_exec(
                self._git, *settings, *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=messages,
                cwd=self._folder,
                env=self._environ,
                start_new_session=True,  # no terminal for prompts, and one process group to kill
            )  # fmt: skip
            running = asyncio.create_task(process.wait())
            try:
                while not (await asyncio.wait({running}, timeout=SIZE_CHECK_SECONDS))[0]:
                    if too_large is not None and _folder_size(self._folder) > (limit or LARGEST):
                        raise too_large
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                await asyncio.wait({running})
            messages.seek(0)
            return process.returncode or 0, messages.read().decode(errors="replace")


def _folder_size(folder: Path) -> int:
    """Return the size of all files in a folder, in bytes."""
    size = 0
    for inner, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # git renames files that it has received
                size += Path(inner, name).stat().st_size
    return size


def _check_entry(entry: tarfile.TarInfo, commit: Commit) -> None:
    """Raises Unfetchable for a path that git itself refuses, and for a link that is too long."""
    if any(part.casefold() in ("", ".", "..", ".git") for part in entry.name.split("/")):
        message = f"{commit.url} contains {quote_value(entry.name)}, which is not a valid path in a repository"
        raise Unfetchable(message, "remove it there")
    if len(os.fsencode(entry.linkname)) > LONGEST_LINK:
        message = f"{commit.url} contains {quote_value(entry.name)}, a link that is too long"
        raise Unfetchable(message, "remove it there")


def _fetch_error(commit: Commit, output: str) -> SkillrunError:
    """Return the error for a failed fetch, with the first line of git's messages."""
    if _GONE.search(output):
        return _missing_commit_error(commit)
    why = next((line.strip()[:200] for line in output.splitlines() if line.strip()), "git gave no reason")
    hint = "check the URL, and the credentials of this machine"
    return SkillrunError(f"{commit.url} cannot be fetched on this machine: {why}", hint)


def _missing_commit_error(commit: Commit) -> Unfetchable:
    return Unfetchable(f"{commit.url} has no commit {commit.sha}", "push the commit, and submit the run again")


def _too_large_error(commit: Commit) -> Unfetchable:
    message = f"{commit.url} at {commit.sha[:12]} has more than {LARGEST / 1e6:,.0f} MB or {MAX_FILES:,} files"
    return Unfetchable(message, "use a repository with only the files that the run reads")
