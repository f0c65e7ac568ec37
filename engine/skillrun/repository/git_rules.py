"""Where git keeps the rules of a folder besides its `.gitignore` files, found without running git.

Git itself would follow a clone's `.git/config`, which can name programs to run. Whatever is read here is only taken for
rules of what to leave out.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LARGEST: Final = 262_144  # bytes of a file with rules or settings
MAX_INCLUDES: Final = 10
_HEADER: Final = re.compile(r'\[\s*([\w.-]+)(?:\s+"(?:[^"\\]|\\.)*")?\s*\]')


class UnreadableRules(Exception):
    """A file is there, and cannot be read as what it should be."""


def find_worktree_root(folder: Path) -> Path | None:
    """The top of the working tree that a folder is in; None where it is in none."""
    return next((place for place in (folder, *folder.parents) if is_repository(place)), None)


def is_repository(folder: Path) -> bool:
    """Whether a folder is the top of a working tree: git goes on looking above a `.git` that holds nothing."""
    try:
        status = (folder / ".git").stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) or (stat.S_ISDIR(status.st_mode) and os.path.lexists(folder / ".git" / "HEAD"))


def repository_rules(top: Path) -> list[bytes]:
    """The rules of one working tree that are in no `.gitignore`, the weakest first."""
    git = _git_folder(top)
    contents = [_read_content(Path(top, named)) for named in _excludes_files(git / "config")[-1:]]
    return [content for content in (*contents, _read_content(git / "info" / "exclude")) if content is not None]


def user_rules() -> bytes | None:
    """The user's own rules for every repository: `core.excludesFile`, or `git/ignore` in the config folder."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git"
    files = [Path("/etc/gitconfig"), config / "config", Path.home() / ".gitconfig"]
    if "GIT_CONFIG_GLOBAL" in os.environ:
        files[1:] = [Path(os.environ["GIT_CONFIG_GLOBAL"])]
    named = [value for file in files for value in _excludes_files(file)]
    return _read_content(Path(Path.home(), named[-1]) if named else config / "ignore")


def _git_folder(top: Path) -> Path:
    """The folder with the repository's own files; that of the main working tree for a linked one."""
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
    """A file's content; None where there is none. Raises Unreadable."""
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
    """The values of `core.excludesFile` in a file of git's settings and those it includes, the last counts.

    What is included under a condition is left out, and so is what has been read already.
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
            values.append(os.path.expanduser(value))  # noqa: PTH111 (`Path` raises where there is no such user)
        elif (section, key) == ("include", "path") and value:
            values += _excludes_files(path.parent / os.path.expanduser(value), read)  # noqa: PTH111
    return values


def _parse_settings(text: str) -> Iterator[tuple[str, str, str]]:
    """Section, key and value of each setting; a section's name with a part in quotes counts as no section."""
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
    """A value without its quotes, escapes and comment."""
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
