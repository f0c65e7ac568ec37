"""A commit of a repository that a run is submitted with as URL@COMMIT: what may be typed, where its files will be."""

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
    "write it as https://host/name.git@COMMIT or ssh://git@host/name.git@COMMIT; `git rev-parse HEAD` is a commit"
)
NO_CREDENTIALS_HINT: Final = (
    "leave out what stands before the host, but for ssh's `git@`, and what begins with `?` or `#`"
)
_REMOTE: Final = re.compile(r"[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:", re.IGNORECASE)
_TYPED: Final = re.compile(r"(?P<url>[!-~]{1,2000})@(?P<commit>[0-9a-f]{40}|[0-9a-f]{64})")
_HOST: Final = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\]-]*")


def is_remote(text: str) -> bool:
    """Whether somebody means a URL and no path."""
    return _REMOTE.match(text) is not None


@dataclass(frozen=True)
class Commit:
    """One commit of a repository."""

    url: str
    sha: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises UsageError for what is no URL@COMMIT, and for a URL with a key in it."""
        found = _TYPED.fullmatch(text)
        if found is None:
            raise UsageError(
                f"{quote_value(strip_userinfo(text))} names no commit of a repository in full", REPOSITORY_URL_HINT
            )
        url, commit = found["url"], found["commit"]
        try:
            parts = urlsplit(url)
            has_key = parts.password is not None or (parts.username is not None and parts.scheme != "ssh")
        except ValueError as error:
            raise UsageError(f"{quote_value(strip_userinfo(url))} is no URL: {error}", REPOSITORY_URL_HINT) from None
        if not parts.scheme:
            raise UsageError(f"{quote_value(url)} is no URL", REPOSITORY_URL_HINT)
        if has_key or parts.query or parts.fragment:
            message = "the URL of a repository is kept with the run and may hold no key; workers have their own"
            raise UsageError(message, NO_CREDENTIALS_HINT)
        if parts.scheme not in (*PROTOCOLS, FILE):
            raise UsageError(f"a repository is not fetched by `{parts.scheme}`", REPOSITORY_URL_HINT)
        if parts.scheme != FILE and not _HOST.fullmatch(parts.netloc.rpartition("@")[2]):
            raise UsageError(f"{quote_value(url)} names no host", REPOSITORY_URL_HINT)
        if (parts.username or "").startswith("-"):
            raise UsageError(f"{quote_value(url)} names no user", REPOSITORY_URL_HINT)
        return cls(url, commit)

    @property
    def protocol(self) -> str:
        return urlsplit(self.url).scheme

    @property
    def name(self) -> str:
        """That of its folder. What is in it is told by the commit alone."""
        last = urlsplit(self.url).path.rstrip("/").rpartition("/")[2].removesuffix(".git")
        return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', last).strip('.-')[:60] or 'repository'}-{self.sha}"

    @property
    def path(self) -> str:
        """Where a run finds it, from its project on; the same on every worker, since prompts may tell it."""
        return f"../{FOLDER}/{self.name}"
