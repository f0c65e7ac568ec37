"""Parses the URL@COMMIT inputs of submitted runs, and names the folder for each commit's files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from skillrun.models.redaction import strip_userinfo
from skillrun.syntax.diagnostics import UsageError
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
            message = "a repository URL must not contain credentials, since it is stored; workers use their own"
            raise UsageError(message, NO_CREDENTIALS_HINT)
        if parts.scheme not in (*PROTOCOLS, FILE):
            raise UsageError(f"repositories cannot be fetched over `{parts.scheme}`", REPOSITORY_URL_HINT)
        if parts.scheme != FILE and not _HOST.fullmatch(parts.netloc.rpartition("@")[2]):
            raise UsageError(f"{quote_value(url)} has no valid host", REPOSITORY_URL_HINT)
        if (parts.username or "").startswith("-"):
            raise UsageError(f"{quote_value(url)} has no valid user", REPOSITORY_URL_HINT)
        return cls(url, commit)

    @property
    def protocol(self) -> str:
        return urlsplit(self.url).scheme

    @property
    def name(self) -> str:
        """The name of the folder with the commit's files. It includes the hash, which alone identifies the content."""
        last = urlsplit(self.url).path.rstrip("/").rpartition("/")[2].removesuffix(".git")
        return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', last).strip('.-')[:60] or 'repository'}-{self.sha}"

    @property
    def path(self) -> str:
        """The folder's path relative to the run's project.

        It is the same on every worker, because prompts may contain it.
        """
        return f"../{FOLDER}/{self.name}"
