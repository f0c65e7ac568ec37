"""Finds git's ignore rules that are not in `.gitignore` files, without running git.

Git itself would obey the `.git/config` of a clone, which can name programs to run. This module only reads ignore rules.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LARGEST: Final = 262_144  # bytes of a rules or settings file
MAX_INCLUDES: Final = 10
_HEADER: Final = re.compile(r'\[\s*([\w.-]+)(?:\s+"(?:[^"\\]|\\.)*")?\s*\]')


class UnreadableRules(Exception):
    """A rules file exists but cannot be used."""


def find_worktree_root(folder: Path) -> Path | None:
    """Return the root of the working tree that contains a folder; None if there is none."""
    return next((place for place in (folder, *folder.parents) if is_repository(place)), None)


def is_repository(folder: Path) -> bool:
    """Whether a folder is the root of a working tree; like git, this ignores an empty `.git` folder."""
    try:
        status = (folder / ".git").stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) or (stat.S_ISDIR(status.st_mode) and os.path.lexists(folder / ".git" / "HEAD"))


def repository_rules(top: Path) -> list[bytes]:
    """Return the ignore rules of a working tree that are not in `.gitignore` files, lowest precedence first."""
    git = _git_folder(top)
    contents = [_read_content(Path(top, named)) for named in _excludes_files(git / "config")[-1:]]
    return [content for content in (*contents, _read_content(git / "info" / "exclude")) if content is not None]


def user_rules() -> bytes | None:
    """Return the user's ignore rules for all repositories, which are in the file that `core.excludesFile` names, or in
    `git/ignore` in the config folder."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git"
    files = [Path("/etc/gitconfig"), config / "config", Path.home() / ".gitconfig"]
    if "GIT_CONFIG_GLOBAL" in os.environ:
        files[1:] = [Path(os.environ["GIT_CONFIG_GLOBAL"])]
    named = [value for file in files for value in _excludes_files(file)]
    return _read_content(Path(Path.home(), named[-1]) if named else config / "ignore")


def _git_folder(top: Path) -> Path:
    """Return the folder that holds the repository's data. A linked working tree uses the folder of the main working
    tree."""
    git = top / ".git"
    if git.is_file():
        git = top / (_first_line(git).removeprefix("gitdir:").strip() or ".git")
    common = _first_line(git / "commondir").strip()
    return git / common if common else git


def _first_line(path: Path) -> str:
    try:
        return os.fsdecode((_read_content(path) or b"").split(b"\n", 1)[0]).replace("\0", "")
    except UnreadableRules:
        return ""


def _read_content(path: Path) -> bytes | None:
    """Return a file's content, or None if the file is missing. Raises UnreadableRules."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise UnreadableRules(f"`{path.name}`: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise UnreadableRules(f"`{path.name}` is larger than {LARGEST:,} bytes")
    return content


def _excludes_files(path: Path, read: set[Path] | None = None) -> list[str]:
    """Return the values of `core.excludesFile` in a git settings file and the files that it includes. The last value
    applies.

    Conditional includes, and files that were already read, are skipped.
    """
    read = set() if read is None else read
    if path in read or len(read) > MAX_INCLUDES:
        return []
    read.add(path)
    try:
        text = os.fsdecode(_read_content(path) or b"")
    except UnreadableRules:
        return []
    values: list[str] = []
    for section, key, value in _parse_settings(text):
        if (section, key) == ("core", "excludesfile"):
            values.append(os.path.expanduser(value))  # noqa: PTH111 (`Path` raises for an unknown user)
        elif (section, key) == ("include", "path") and value:
            values += _excludes_files(path.parent / os.path.expanduser(value), read)  # noqa: PTH111
    return values


def _parse_settings(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the section, key and value of each setting. The section name is empty if the section has a quoted
    subsection."""
    section = ""
    for line in text.replace("\r\n", "\n").replace("\\\n", "").split("\n"):
        rest = line.strip()
        if header := _HEADER.match(rest):
            section = header[1].lower() if '"' not in header[0] else ""
            rest = rest[header.end() :].strip()
        key, equals, value = rest.partition("=")
        if equals and not rest.startswith(("#", ";")):
            yield section, key.strip().lower(), _unquote_value(value.strip())


def _unquote_value(raw: str) -> str:
    """Return the value of a setting without its quotes, escapes and comment."""
    value, quoted, at = "", False, 0
    while at < len(raw) and (quoted or raw[at] not in "#;"):
        character = raw[at]
        if character == '"':
            quoted = not quoted
        elif character == "\\" and at + 1 < len(raw):
            at += 1
            value += {"n": "\n", "t": "\t", "b": "\b"}.get(raw[at], raw[at])
        else:
            value += character
        at += 1
    return value.rstrip()
