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

DeadlineCheck = Callable[[], None]
"""Raises TimeoutError after the deadline."""
LARGEST: Final = 262_144  # bytes of a rules or settings file
MAX_INCLUDES: Final = 10
_HEADER: Final = re.compile(r'\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_QUOTED_PAIR: Final = re.compile(r"'([^']*)'(?:='([^']*)')?")
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_LOWER_CASE: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}  # git folds only ASCII


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


def parse_rules(content: bytes, *, fold: bool = False) -> IgnoreRules:
    """Parse the rules in a file as git does, byte by byte; with `fold`, in lower case. Raises UnreadableRules if the
    file exceeds the limits."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(content) > LARGEST or len(lines) > MAX_RULES or max(map(len, lines), default=0) > LONGEST:
        raise UnreadableRules(
            f"it has more than {LARGEST:,} bytes, {MAX_RULES:,} rules or {LONGEST:,} characters in a rule"
        )
    if fold:
        lines = [line.replace("[:upper:]", "[:alpha:]").translate(_LOWER_CASE) for line in lines]
    return IgnoreRules(lines)


class RuleLayer(NamedTuple):
    """The rules of one file. `start` is the number of path parts before the file's folder. With `fold`, the rules are
    in lower case. If the rules cannot be used, `reason` says why."""

    rules: IgnoreRules | None
    start: int
    fold: bool = False
    reason: str = ""


class GitIgnore:
    """Determines what git ignores in a folder. Rules that ignore the folder itself have no effect."""

    def __init__(self, tree: ConfinedFolder, check: DeadlineCheck) -> None:
        self._tree = tree
        self._check = check
        self._prefix, layers, self._fold = _outer_layers(Path(os.path.realpath(tree.path)))
        self._layers: dict[tuple[str, ...], tuple[RuleLayer, ...]] = {}
        self._base = self._add_layers(layers, ())

    def ignore_reason(self, parts: tuple[str, ...], is_folder: bool) -> str:
        """Return why git ignores a path; empty if it does not. The path's parent folder must not be ignored."""
        plain = (*self._prefix, *map(_encode_name, parts))
        folded = tuple(part.translate(_LOWER_CASE) for part in plain)
        for layer in reversed(self._layers_for(parts[:-1])):
            self._check()
            if layer.rules is None:
                return layer.reason
            path = folded if layer.fold else plain
            verdict = layer.rules.verdict(path[layer.start :], is_folder, self._check)
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
            layers += _repository_layers(start, path)[0]
        return (*layers, *_load_layers(start, self._fold, lambda: _read_gitignore(self._tree, "/".join(folder))))


def _outer_layers(root: Path) -> tuple[tuple[str, ...], tuple[RuleLayer, ...], bool]:
    """Return the parts of a folder's path relative to its working tree, the rules from outside the folder, and whether
    git ignores case there."""
    top = next((place for place in (root, *root.parents) if is_repository(place)), None)
    layers, fold = _repository_layers(0, top)
    if top is None:
        return (), layers, fold
    above = root.relative_to(top).parts
    for depth in range(len(above)):
        with ConfinedFolder(top.joinpath(*above[:depth])) as tree:
            layers += _load_layers(depth, fold, lambda tree=tree: _read_gitignore(tree))  # type: ignore[misc]
    return tuple(map(_encode_name, above)), layers, fold


def _repository_layers(start: int, top: Path | None) -> tuple[tuple[RuleLayer, ...], bool]:
    """Return the rules for a working tree that are not in `.gitignore` files, and whether git ignores case there.

    Without a working tree, the rules are the user's.
    """
    try:
        git = _git_folder(top) if top is not None else None
        common = git / (_first_line(git / "commondir") or ".") if git is not None else None
        settings = _read_settings(git, common)
    except UnreadableRules as error:
        return (_error_layer(start, error),), False
    fold = sys.platform == "darwin"
    for key, value in settings:
        fold = value.lower() in _TRUE if key == "core.ignorecase" else fold

    def read() -> list[bytes]:
        named = [value for key, value in settings if key == "core.excludesfile"]
        files = [Path(top or Path.home(), named[-1]) if named else _config_folder() / "ignore"]
        if common is not None:
            files.append(common / "info" / "exclude")
        return [content for content in map(_read_content, files) if content is not None]

    return _load_layers(start, fold, read), fold


def _load_layers(start: int, fold: bool, read: Callable[[], list[bytes]]) -> tuple[RuleLayer, ...]:
    try:
        return tuple(RuleLayer(parse_rules(content, fold=fold), start, fold) for content in read())
    except UnreadableRules as error:
        return (_error_layer(start, error),)


def _error_layer(start: int, error: UnreadableRules) -> RuleLayer:
    return RuleLayer(None, start, reason=f"git's ignore rules for it cannot be read: {error}")


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
    return part if part.isascii() else os.fsencode(part).decode("latin-1")


class UnreadableRules(Exception):
    """A rules file exists but cannot be used."""


def is_repository(folder: Path) -> bool:
    """Whether a folder is the root of a working tree; like git, this ignores an empty `.git` folder."""
    try:
        status = (folder / ".git").stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) or (stat.S_ISDIR(status.st_mode) and os.path.lexists(folder / ".git" / "HEAD"))


def _git_folder(top: Path) -> Path:
    """Return git's folder of a working tree. `GIT_DIR` selects another one, as it does for git."""
    selected = os.environ.get("GIT_DIR", "")
    if selected and os.path.realpath(os.environ.get("GIT_WORK_TREE") or os.curdir) == os.path.realpath(top):
        return Path(os.path.abspath(selected))  # noqa: PTH100 (does not resolve links)
    git = top / ".git"
    if git.is_file():
        git = top / (_first_line(git).removeprefix("gitdir:").strip() or ".git")
    return git


def _config_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git"


def _first_line(path: Path) -> str:
    return os.fsdecode((_read_content(path) or b"").split(b"\n", 1)[0]).replace("\0", "").strip()


def _read_content(path: Path) -> bytes | None:
    """Return a file's content, or None if the file is missing, a folder or the null device. Raises UnreadableRules."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode) or (stat.S_ISCHR(status.st_mode) and path.samefile(os.devnull)):
            return None
        with open_file(path) as file:
            content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except NotAFile:
        raise UnreadableRules(f"`{path.name}` is not a regular file") from None
    except OSError as error:
        raise UnreadableRules(f"`{path.name}`: {error.strerror}") from None
    if len(content) > LARGEST:
        raise UnreadableRules(f"`{path.name}` is larger than {LARGEST:,} bytes")
    return content


Setting = tuple[str, str]
"""The name of a setting of git, such as `core.ignorecase`, and its value."""


def _read_settings(git: Path | None, common: Path | None) -> list[Setting]:
    """Return the settings of the machine, the user, the repository and the environment, in this order.

    The last value of a setting applies. Like git, skips the user's files without permission. Raises UnreadableRules.
    """
    environ = os.environ
    files = [Path(environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")]
    if environ.get("GIT_CONFIG_NOSYSTEM", "").lower() in _TRUE:
        files = []
    if "GIT_CONFIG_GLOBAL" in environ:
        files.append(Path(environ["GIT_CONFIG_GLOBAL"] or os.devnull))
    else:
        files += [_config_folder() / "config", Path.home() / ".gitconfig"]
    settings = [pair for file in files if os.access(file, os.R_OK) for pair in _settings_in(file, git, set())]
    if git is not None and common is not None:
        own = list(_settings_in(common / "config", git, set()))
        if dict(own).get("extensions.worktreeconfig", "").lower() in _TRUE:
            own += _settings_in(git / "config.worktree", git, set())
        settings += own
    count = environ.get("GIT_CONFIG_COUNT", "")
    given = [
        (environ.get(f"GIT_CONFIG_KEY_{number}", "").lower(), environ.get(f"GIT_CONFIG_VALUE_{number}", ""))
        for number in range(min(int(count) if count.isdecimal() else 0, MAX_RULES))
    ]
    for argument in _QUOTED_PAIR.finditer(environ.get("GIT_CONFIG_PARAMETERS", "")):  # of `git -c KEY=VALUE`
        key, _, value = (argument[1] + ("=" + argument[2] if argument[2] is not None else "")).partition("=")
        given.append((key.lower(), value))
    return settings + [(key, os.path.expanduser(value)) for key, value in given]  # noqa: PTH111


def _settings_in(path: Path, git: Path | None, read: set[Path]) -> Iterator[Setting]:
    """Yield the settings in a file and in the files that it includes. Files in `read` are skipped."""
    if path in read or len(read) > MAX_INCLUDES:
        return
    read.add(path)
    for section, condition, key, value in _parse_settings(os.fsdecode(_read_content(path) or b"")):
        if key == "path" and value and (section == "include" or (section == "includeif" and condition is not None)):
            if section == "include" or _is_met(str(condition), path.parent, git):
                yield from _settings_in(path.parent / os.path.expanduser(value), git, read)  # noqa: PTH111
        elif condition is None:
            # `Path.expanduser` raises for an unknown user
            yield f"{section}.{key}", os.path.expanduser(value) if key == "excludesfile" else value  # noqa: PTH111


def _is_met(condition: str, folder: Path, git: Path | None) -> bool:
    """Whether a condition of `includeIf` is met. One that is not about folders or branches counts as met, so that the
    rules that it may add apply."""
    kind, _, pattern = condition.partition(":")
    if kind not in ("gitdir", "gitdir/i", "onbranch"):
        return True
    if git is None:
        return False
    if pattern.endswith("/"):
        pattern += "**"
    try:
        if kind == "onbranch":
            branch = _first_line(git / "HEAD").removeprefix("ref: refs/heads/")
            return compile_wildcard(pattern).matches(branch.split("/"))
        if pattern.startswith("./"):
            pattern = f"{os.path.realpath(folder)}{pattern[1:]}"
        pattern = os.path.expanduser(pattern)  # noqa: PTH111
        pattern = pattern if pattern.startswith("/") else f"**/{pattern}"
        fold = kind == "gitdir/i"
        wildcard = compile_wildcard((pattern.translate(_LOWER_CASE) if fold else pattern).lstrip("/"))
        places = {os.path.abspath(git), os.path.realpath(git)}  # noqa: PTH100 (does not resolve links)
        return any(
            wildcard.matches((place.translate(_LOWER_CASE) if fold else place).split("/")[1:]) for place in places
        )
    except InvalidPattern:
        return False


def _parse_settings(text: str) -> Iterator[tuple[str, str | None, str, str]]:
    """Yield the section, its quoted subsection if any, the key and the value of each setting."""
    section, subsection = "", None
    for line in text.replace("\r\n", "\n").replace("\\\n", "").split("\n"):
        rest = line.strip()
        if header := _HEADER.match(rest):
            section, subsection = header[1].lower(), header[2]
            rest = rest[header.end() :].strip()
        key, equals, value = rest.partition("=")
        if key.strip() and not rest.startswith(("#", ";")):
            yield section, subsection, key.strip().lower(), _unquote_value(value.strip()) if equals else "true"


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
