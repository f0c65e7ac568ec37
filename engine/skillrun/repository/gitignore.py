"""Determines what git ignores in a folder. Reads all rules files of git, with git's precedence.

Files are read through descriptors and within limits; git is not run. If a rules file cannot be read, everything below
its folder is ignored.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.repository.wildcards import InvalidPattern, NameMatcher, Wildcard, compile_name, compile_wildcard
from skillrun.syntax.reading import NotAFile, open_file

MAX_RULES: Final = 10_000  # per file
LONGEST: Final = 4096  # characters of a rule
MAX_CACHE: Final = 64  # folders whose rules are cached
_INNER_DOUBLE_STAR: Final = re.compile(r"[^/]\*\*")
_IGNORES_CASE: Final = sys.platform == "darwin"

DeadlineCheck = Callable[[], None]
"""Raises TimeoutError after the deadline."""
LARGEST: Final = 262_144  # bytes of a rules or settings file
MAX_INCLUDES: Final = 10
_HEADER: Final = re.compile(r'\[\s*([\w.-]+)(?:\s+"(?:[^"\\]|\\.)*")?\s*\]')


class IgnoreRule(NamedTuple):
    """A line of a rules file. It matches names, or paths relative to the folder of the rules file."""

    text: str
    is_negated: bool
    is_folder_only: bool
    name: NameMatcher | None
    path: Wildcard | None


class IgnoreRules:
    """The rules in a `.gitignore` file. The last rule that matches decides."""

    def __init__(self, lines: Iterable[str], *, strict: bool = False) -> None:
        """Parse the lines. With `strict`, a line that cannot match anything raises InvalidPattern."""
        rules: list[IgnoreRule] = []
        for line in lines:
            try:
                rules.append(_parse_rule(line))
            except InvalidPattern:
                if strict:
                    raise
        self._rules = tuple(reversed(rules))
        lasts = {rule: _literal_ending(rule.text) for rule in rules}
        self._names = frozenset(last for last in lasts.values() if last and not last.startswith("*"))
        self._endings = tuple({last[1:] for last in lasts.values() if last and last.startswith("*")})
        self._others = tuple(rule for rule in self._rules if lasts[rule] is None)

    def verdict(self, parts: Sequence[str], is_folder: bool, check: DeadlineCheck) -> bool | None:
        """Whether the rules ignore a path, relative to the folder of the rules. None if no rule matches the path."""
        base_name = parts[-1]
        for rule in self._rules if base_name in self._names or base_name.endswith(self._endings) else self._others:
            if rule.is_folder_only and not is_folder:
                continue
            if rule.path is not None:
                check()
            if rule.name(base_name) if rule.name is not None else rule.path is not None and rule.path.matches(parts):
                return not rule.is_negated
        return None

    def matches(self, parts: Sequence[str], is_folder: bool, check: DeadlineCheck) -> bool:
        """Whether a path or one of its parent folders is ignored."""
        prefixes = ((parts[:end], end < len(parts) or is_folder) for end in range(1, len(parts) + 1))
        return any(self.verdict(way, folder, check) for way, folder in prefixes)


def parse_rules(content: bytes) -> IgnoreRules:
    """Parse the rules in a file as git does, byte by byte. Raises UnreadableRules if the file exceeds the limits."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(content) > LARGEST or len(lines) > MAX_RULES or max(map(len, lines), default=0) > LONGEST:
        raise UnreadableRules(
            f"it has more than {LARGEST:,} bytes, {MAX_RULES:,} rules or {LONGEST:,} characters in a rule"
        )
    return IgnoreRules(map(_fold_case, lines))


class RuleLayer(NamedTuple):
    """The rules of one file. `start` is the number of path parts before the file's folder. If the rules cannot be used,
    `reason` says why."""

    rules: IgnoreRules | None
    start: int
    reason: str = ""


class GitIgnore:
    """Determines what git ignores in a folder. Rules that ignore the folder itself have no effect."""

    def __init__(self, tree: ConfinedFolder, check: DeadlineCheck) -> None:
        self._tree = tree
        self._check = check
        self._prefix, layers = _outer_layers(Path(os.path.realpath(tree.path)))
        self._layers: dict[tuple[str, ...], tuple[RuleLayer, ...]] = {}
        self._base = self._add_layers(layers, ())

    def ignore_reason(self, parts: tuple[str, ...], is_folder: bool) -> str:
        """Return why git ignores a path; empty if it does not. The path's parent folder must not be ignored."""
        full_path = (*self._prefix, *map(_encode_name, parts))
        for layer in reversed(self._layers_for(parts[:-1])):
            self._check()
            if layer.rules is None:
                return layer.reason
            verdict = layer.rules.verdict(full_path[layer.start :], is_folder, self._check)
            if verdict is not None:
                return "git ignores it" if verdict else ""
        return ""

    def _layers_for(self, folder: tuple[str, ...]) -> tuple[RuleLayer, ...]:
        """Return the rules that apply in a folder, lowest precedence first."""
        cached_folder = folder
        while cached_folder and cached_folder not in self._layers:
            cached_folder = cached_folder[:-1]
        layers = self._layers[cached_folder] if cached_folder else self._base
        for end in range(len(cached_folder) + 1, len(folder) + 1):
            self._check()
            layers = self._add_layers(layers, folder[:end])
            if len(self._layers) >= MAX_CACHE:
                self._layers.clear()
            self._layers[folder[:end]] = layers
        return layers

    def _add_layers(self, layers: tuple[RuleLayer, ...], folder: tuple[str, ...]) -> tuple[RuleLayer, ...]:
        start = len(self._prefix) + len(folder)
        path = self._tree.path.joinpath(*folder)
        if folder and is_repository(path):
            layers += _load_layers(start, repository_rules, path)
        return (*layers, *_load_layers(start, _read_gitignore, self._tree, "/".join(folder)))


def _outer_layers(root: Path) -> tuple[tuple[str, ...], tuple[RuleLayer, ...]]:
    """Return the parts of a folder's path relative to its working tree, and the rules from outside the folder."""
    layers = _load_layers(0, user_rules)
    top = next((place for place in (root, *root.parents) if is_repository(place)), None)
    if top is None:
        return (), layers
    above = root.relative_to(top).parts
    layers += _load_layers(0, repository_rules, top)
    for depth in range(len(above)):
        with ConfinedFolder(top.joinpath(*above[:depth])) as tree:
            layers += _load_layers(depth, _read_gitignore, tree)
    return tuple(map(_encode_name, above)), layers


def _load_layers(start: int, read: Callable[..., list[bytes]], *arguments: object) -> tuple[RuleLayer, ...]:
    try:
        return tuple(RuleLayer(parse_rules(content), start) for content in read(*arguments))
    except UnreadableRules as error:
        return (RuleLayer(None, start, f"git's ignore rules for it cannot be read: {error}"),)


def _read_gitignore(tree: ConfinedFolder, folder: str = "") -> list[bytes]:
    """Return the content of a folder's `.gitignore` file, if any. Like git, ignores a `.gitignore` that is a link.

    Raises UnreadableRules.
    """
    try:
        return [tree.read(f"{folder}/.gitignore" if folder else ".gitignore", LARGEST, follow=False)]
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return []
    except OSError as error:
        if error.errno == errno.ELOOP:
            return []
        raise UnreadableRules(f"`.gitignore`: {error.strerror}") from None
    except PathRefused as error:
        raise UnreadableRules(error.message) from None


def _parse_rule(line: str) -> IgnoreRule:
    """Parse a line of a rules file. Raises InvalidPattern if the line cannot match anything."""
    is_negated = line.startswith("!")
    written = line[is_negated:]
    text = written.rstrip(" ")
    if len(text) < len(written) and (len(text) - len(text.rstrip("\\"))) % 2 == 1:
        text += " "  # a backslash escapes the first of the trailing spaces
    text = text.partition("\0")[0]
    is_folder_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        raise InvalidPattern(line)
    if "/" in text:
        return IgnoreRule(text, is_negated, is_folder_only, None, compile_wildcard(text))
    return IgnoreRule(text, is_negated, is_folder_only, compile_name(text), None)


def _literal_ending(text: str) -> str | None:
    """Return the last part of a rule if it is a plain name, or `*` before the end of a name, such as `*.log`. None for
    other rules."""
    last = text.rpartition("/")[2]
    is_simple = not any(sign in last[last.startswith("*") :] for sign in "*?\\") and "[" not in text
    return last if is_simple and not _INNER_DOUBLE_STAR.search(text) else None


def _encode_name(part: str) -> str:
    """Return a name with one character for each byte, because git compares bytes."""
    return _fold_case(part if part.isascii() else os.fsencode(part).decode("latin-1"))


def _fold_case(text: str) -> str:
    return text.lower() if _IGNORES_CASE else text


class UnreadableRules(Exception):
    """A rules file exists but cannot be used."""


def is_repository(folder: Path) -> bool:
    """Whether a folder is the root of a working tree; like git, this ignores an empty `.git` folder."""
    try:
        status = (folder / ".git").stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) or (stat.S_ISDIR(status.st_mode) and os.path.lexists(folder / ".git" / "HEAD"))


def repository_rules(top: Path) -> list[bytes]:
    """Return the ignore rules of a working tree that are not in `.gitignore` files, lowest precedence first."""
    git = top / ".git"
    if git.is_file():
        git = top / (_first_line(git).removeprefix("gitdir:").strip() or ".git")
    if common := _first_line(git / "commondir").strip():
        git /= common  # a linked working tree uses the folder of the main working tree
    contents = [_read_content(Path(top, named)) for named in _excludes_files(git / "config")[-1:]]
    return [content for content in (*contents, _read_content(git / "info" / "exclude")) if content is not None]


def user_rules() -> list[bytes]:
    """Return the user's ignore rules for all repositories. They are in the file named by `core.excludesFile`, or by
    default in `git/ignore` in the config folder."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git"
    files = [Path("/etc/gitconfig"), config / "config", Path.home() / ".gitconfig"]
    if "GIT_CONFIG_GLOBAL" in os.environ:
        files[1:] = [Path(os.environ["GIT_CONFIG_GLOBAL"])]
    named = [value for file in files for value in _excludes_files(file)]
    content = _read_content(Path(Path.home(), named[-1]) if named else config / "ignore")
    return [content] if content is not None else []


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
        with open_file(path) as file:
            content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, NotAFile, ValueError):
        return None
    except OSError as error:
        raise UnreadableRules(f"`{path.name}`: {error.strerror}") from None
    if len(content) > LARGEST:
        raise UnreadableRules(f"`{path.name}` is larger than {LARGEST:,} bytes")
    return content


def _excludes_files(path: Path, read: set[Path] | None = None) -> list[str]:
    """Return the values of `core.excludesFile` in a git settings file and in included files. The last value applies.

    Conditional includes, and files in `read`, are skipped.
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
