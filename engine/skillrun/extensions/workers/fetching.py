"""Parses inputs of the form URL@COMMIT, and fetches the commits into a folder next to this machine's projects.

Reads the files from git's objects, without a working tree. So git neither executes nor follows anything that a
repository configures. Submodules and LFS content are not fetched. A commit counts as fetched only for the URL that it
was fetched from, and only while its files are unchanged.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from errno import ENAMETOOLONG
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from skillrun.extensions.workers.bundle import InvalidRun, fill_folder
from skillrun.models.redaction import strip_userinfo
from skillrun.repository.git import LOCAL, CommitRefused, CommitTooLarge, CommitWriter, Git, GitFailed, GitResult
from skillrun.repository.readable_folder import MAX_PROJECT_BYTES
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
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_UNSAFE_PATH: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\\%]|(^|/)-")


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
            _ = parts.port  # raises ValueError
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
        if parts.username is not None and not _USER.fullmatch(parts.username):
            raise UsageError(f"{quote_value(url)} has no valid user", REPOSITORY_URL_HINT)
        path = unquote(parts.path, errors="surrogateescape")  # as ssh or the server decodes it
        if not path.strip("/") or _UNSAFE_PATH.search(path):
            raise UsageError(f"{quote_value(url)} has no valid path", REPOSITORY_URL_HINT)
        return cls(url, commit)

    @property
    def name(self) -> str:
        """The name of the folder with the commit's files, which its hash identifies. Prompts can contain this name."""
        last = urlsplit(self.url).path.rstrip("/").rpartition("/")[2].removesuffix(".git")
        return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', last).strip('.-')[:60] or 'repository'}-{self.sha}"

    @property
    def key(self) -> str:
        """The hash of URL and commit: what one server delivers is not used for another one."""
        return hashlib.sha256(f"{self.url}@{self.sha}".encode()).hexdigest()

    @property
    def path(self) -> str:
        """The folder's path relative to the run's project.

        The path is the same on every worker, because prompts can contain it.
        """
        return f"../{FOLDER}/{self.name}"


FETCH_TIMEOUT: Final = 300.0  # seconds
VERIFIED: Final = ".verified"
"""The folder with a file for each fetched commit, named by the hash of URL and commit. It has the hash of the files."""
_GONE: Final = re.compile(r"not our ref|couldn't find remote ref|does not point to a valid object")
_UNNAMED: Final = "unadvertised object"
_INVALID: Final = re.compile(r"error: object [0-9a-f]+: (.{1,100})")
_OLD_MISTAKES: Final = (
    "badTimezone",
    "missingEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "zeroPaddedFilemode",
)
"""The names under which git reports harmless mistakes of old programs, which many repositories contain."""
_CREDENTIALS: Final = ("GIT_ASKPASS", "GIT_CONFIG", "GIT_HTTP", "GIT_PROXY", "GIT_SSH", "GIT_SSL")
"""The beginnings of the variables with which git reaches and identifies itself to a server."""
_QUIET: Final = {"SSH_ASKPASS_REQUIRE": "never", "GCM_INTERACTIVE": "never"}


class Unfetchable(InvalidRun):
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
        """Fetch the commit if it is missing, was changed on this machine, or was fetched from another URL.

        Raises Unfetchable if no machine can fetch the commit, and a different SkillrunError if only this machine
        cannot fetch it.
        """
        while not await asyncio.to_thread(self._is_verified, commit):
            with self._lock:
                pending = self._under_way.get(commit.key)
                result: Future[None] = Future()
                if pending is None:
                    self._under_way[commit.key] = result
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
                    del self._under_way[commit.key]
                if not result.done():
                    result.set_result(None)

    def _is_verified(self, commit: Commit) -> bool:
        """Whether the commit was fetched from its URL, and its files have not changed since."""
        with suppress(OSError):
            return (self._folder / VERIFIED / commit.key).read_text() == _hash_files(self._folder / commit.name)
        return False

    async def _fetch(self, commit: Commit) -> None:
        """Fetch the commit, and move its files into place only when they are complete."""
        if urlsplit(commit.url).scheme not in self._protocols:
            hint = "start the worker with `--file-urls`"
            message = f"{commit.url} cannot be fetched, because file:// URLs are not allowed on this machine"
            raise SkillrunError(message, hint)
        place = self._folder / commit.name
        try:
            with (
                fill_folder(place) as made,
                tempfile.TemporaryDirectory(
                    prefix=".fetching-", dir=self._folder, ignore_cleanup_errors=True
                ) as objects,
            ):
                async with asyncio.timeout(FETCH_TIMEOUT):
                    await _fetch_files(commit, Path(objects), made, self._protocols)
                files = await asyncio.to_thread(_hash_files, made)
                if place.exists() and _hash_files(place) != files:
                    shutil.rmtree(place)
            (self._folder / VERIFIED).mkdir(exist_ok=True)
            (self._folder / VERIFIED / commit.key).write_text(files)
        except TimeoutError:
            message = f"{commit.url} could not be fetched within {FETCH_TIMEOUT:.0f} seconds"
            raise SkillrunError(message, "check the connection from this machine") from None
        except CommitRefused as error:
            raise Unfetchable(f"{commit.url} {error}", error.hint) from error
        except GitFailed as error:
            message = f"the objects that git fetched from {commit.url} cannot be read: {error}"
            raise SkillrunError(message, f"check the repository, and {self._folder}") from error
        except OSError as error:
            if error.errno == ENAMETOOLONG:
                message = f"a file name in commit {commit.sha} of {commit.url} is too long"
                raise Unfetchable(message, "use a commit without this file") from error
            hint = "check the free space, and the file names in the commit"
            raise SkillrunError(f"{self._folder} cannot be written: {error.strerror}", hint) from error


async def _fetch_files(commit: Commit, objects: Path, target: Path, protocols: Sequence[str]) -> None:
    """Fetch the objects of a commit into the folder `objects`, and write its files to `target`.

    Raises SkillrunError, CommitRefused, GitFailed, OSError.
    """
    environ = {**_QUIET, "GIT_ALLOW_PROTOCOL": ":".join(protocols), "GIT_DIR": str(objects)}
    fetcher = Git.find(objects, environ, keep=_CREDENTIALS)
    reader = Git.find(objects, {**LOCAL, "GIT_DIR": str(objects)})
    if fetcher is None or reader is None:
        raise SkillrunError("git is not installed, and the run needs it to fetch a repository", "install git")
    kind = "sha256" if len(commit.sha) == 64 else "sha1"
    result = await reader.run("init", "--quiet", "--bare", "--template=", f"--object-format={kind}")
    if result.code:
        raise _fetch_error(commit, result.messages)
    result = await _fetch_ref(fetcher, commit, commit.sha, "--depth=1")
    if result.code and _UNNAMED in result.messages:  # a server with an old protocol has only named refs: fetch all
        # under other names, because git would follow `refs/replace`
        result = await _fetch_ref(fetcher, commit, "+refs/*:refs/fetched/*")
    if result.code:
        raise _fetch_error(commit, result.messages)
    await CommitWriter(reader, target).write(commit.sha)


async def _fetch_ref(fetcher: Git, commit: Commit, ref: str, *options: str) -> GitResult:
    """Fetch a ref. Raises CommitTooLarge as soon as the objects are too large."""

    def check_size() -> None:
        if _folder_size(fetcher.folder) > MAX_PROJECT_BYTES:
            raise CommitTooLarge

    checks = ("fetch.fsckObjects=true", *(f"fetch.fsck.{mistake}=ignore" for mistake in _OLD_MISTAKES))
    return await fetcher.run(
        *(part for check in checks for part in ("-c", check)),
        *("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance"),
        *(*options, "--", commit.url, ref),
        seconds=FETCH_TIMEOUT,
        check=check_size,
    )


def _folder_size(folder: Path) -> int:
    """Return the size of all files in a folder, in bytes."""
    size = 0
    for inner, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # git renames files that it has received
                size += Path(inner, name).stat().st_size
    return size


def _hash_files(folder: Path) -> str:
    """Return a hash of the names, modes and contents of all files and links in a folder. Raises OSError."""
    digest = hashlib.sha256()
    for inner, folders, names in os.walk(folder, onerror=_raise_error):
        folders.sort()
        for name in sorted((*names, *folders)):
            path = Path(inner, name)
            status = path.lstat()
            content = os.fsencode(path.readlink()) if path.is_symlink() else b""
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else content
            digest.update(f"{path.relative_to(folder)}\0{status.st_mode:o}\0{len(content)}\0".encode(errors="replace"))
            digest.update(content)
    return digest.hexdigest()


def _raise_error(error: OSError) -> None:
    raise error


def _fetch_error(commit: Commit, output: str) -> Exception:
    """Return the error for a failed fetch, with the first line of git's messages."""
    if _GONE.search(output):
        return CommitRefused(f"has no commit {commit.sha}", "push the commit, and submit the run again")
    if (invalid := _INVALID.search(output)) is not None:
        return CommitRefused(f"contains an object that git refuses: {invalid[1]}")
    why = next((line.strip()[:200] for line in output.splitlines() if line.strip()), "git gave no reason")
    hint = "check the URL, and the credentials of this machine"
    return SkillrunError(f"{commit.url} cannot be fetched on this machine: {why}", hint)
