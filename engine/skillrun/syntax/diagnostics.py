"""Problems in an author's files, their presentation as text, and errors that a user can act on.

This module also writes the suggestions in hints, and removes characters that are not allowed in a run or on a terminal.
It does not read files, and does not know the rules of the language.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn, TypeVar

if TYPE_CHECKING:
    from skillrun.syntax.source import Span

Severity = Literal["error", "warning"]
Plain = TypeVar("Plain")

SHOWN_WIDTH: Final = 110  # characters of a source line; a longer one is cut around the caret
MAX_NAME_LENGTH: Final = 80  # longer names get no suggestion, because they are no typos and slow to compare
MAX_OPTIONS_SHOWN: Final = 30
# The least similarity of a name and its suggestion. With 0.6, `store` would be suggested for `start`.
MIN_SIMILARITY: Final = 0.66
MIN_ABBREVIATION: Final = 3  # letters that count as an abbreviation, such as `int` for `integer`
MAX_COMPARED: Final = 1_000  # names that a misspelled name is compared with
MAX_ERRORS: Final = 100  # per file; an author's file does not have more
# Escape sequences: first CSI, then strings such as a window title, then short sequences.
ESCAPE_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_END: Final = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    r"\U000e0000-\U000e007f]"
)
# This many spaces could move the text after them to the start of the next terminal row.
_GAP: Final = re.compile(r"[ \t\xa0\u115f\u1160\u1680\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\uffa0]{12,}")
_HIDDEN: Final = re.compile(f"{_UNSEEN.pattern}|[\\t\\n]|{_LINE_END.pattern}")


class Suggestion(str):
    """A hint that suggests the name `meant` in place of the name `written`."""

    __slots__ = ("meant", "written")
    meant: str
    written: str

    @staticmethod
    def of(written: str, meant: str, suffix: str = "") -> Suggestion:
        suggestion = Suggestion(f"did you mean `{meant}`?{suffix}")
        suggestion.written, suggestion.meant = written, meant
        return suggestion

    def find_replacement(self, line: int, column: int, source_line: str) -> Replacement | None:
        """Return the replacement of the first occurrence of `written` in a line, searching from `column` on.

        For a name such as `area/name`, the line can contain only the last part. Return None if the line contains
        neither name.
        """
        names = [(self.written, self.meant)]
        (area, _, last), (other, _, meant) = (name.rpartition("/") for name in names[0])
        if area and area == other:
            names.append((last, meant))
        for written, text in names:
            pattern = re.compile(rf"(?<![\w-]){re.escape(written)}(?![\w-])", re.IGNORECASE)
            if match := pattern.search(source_line, column - 1):
                return Replacement(line, match.start() + 1, match[0], text)
        return None


@dataclass(frozen=True)
class Replacement:
    """A fix for one line: `text` replaces `written` at `column`. Lines and columns are counted from 1."""

    line: int
    column: int
    written: str
    text: str


class RelatedLocation(NamedTuple):
    """Another place that a problem refers to, such as the first use of a duplicate name."""

    path: str
    line: int
    column: int


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake at one place. Line and column are counted from 1. `mending` is a fix, if a similar name exists."""

    path: str
    line: int
    column: int
    code: str
    message: str
    hint: str = ""
    severity: Severity = "error"
    source_line: str = ""
    mending: Replacement | None = field(default=None, compare=False)
    elsewhere: RelatedLocation | None = field(default=None, compare=False)


class ParsingStopped(Exception):
    """Raised to stop parsing a file, after the reason has been reported."""


class Problems:
    """A collection of problems without duplicates, sorted by position."""

    def __init__(self, max_errors: int = MAX_ERRORS) -> None:
        """Create an empty collection. `max_errors` is the number of errors after which parsing of a file stops."""
        self.max_errors = max_errors
        self._found: dict[tuple[str, int, int, str, str], Problem] = {}
        self._errors: Counter[str] = Counter()
        self._warnings: Counter[str] = Counter()

    def add(self, problem: Problem) -> None:
        key = (problem.path, problem.line, problem.column, problem.code, problem.message)
        if self._found.setdefault(key, problem) is problem and problem.severity == "error":
            self._errors[problem.path] += 1

    def report(
        self,
        span: Span,
        code: str,
        message: str,
        hint: str = "",
        severity: Severity = "error",
        elsewhere: Span | None = None,
    ) -> None:
        """Add a problem. Warnings beyond the limit are dropped. Raises ParsingStopped at the limit of errors."""
        line, column = span.source.position(span.offset)
        source_line = span.source.line(line)
        if severity == "warning":
            self._warnings[span.path] += 1
            if self._warnings[span.path] > self.max_errors:
                return
            if self._warnings[span.path] == self.max_errors:
                code, message, hint = "too-many", f"there are more than {self.max_errors - 1} warnings", ""
        mending = hint.find_replacement(line, column, source_line) if isinstance(hint, Suggestion) else None
        related = RelatedLocation(elsewhere.path, elsewhere.line, elsewhere.column) if elsewhere is not None else None
        self.add(Problem(span.path, line, column, code, message, hint, severity, source_line, mending, related))
        if self._errors[span.path] >= self.max_errors:
            message = f"there are more than {self.max_errors} problems"
            self.add(Problem(span.path, line, column, "too-many", message, "", "error", source_line))
            raise ParsingStopped

    def report_and_stop(self, span: Span, code: str, message: str, hint: str = "") -> NoReturn:
        """Add a problem after which parsing cannot continue. Raises ParsingStopped."""
        self.report(span, code, message, hint)
        raise ParsingStopped

    @staticmethod
    def without_limit() -> Problems:
        """Return a collection without a limit, for parsing a file on trial."""
        return Problems(sys.maxsize)

    @property
    def has_errors(self) -> bool:
        return any(problem.severity == "error" for problem in self._found.values())

    def __iter__(self) -> Iterator[Problem]:
        return iter(sorted(self._found.values()))

    def __len__(self) -> int:
        return len(self._found)


class SkillrunError(Exception):
    """An error that a user can act on. `message` says what happened, and `next_step` says what to do."""

    exit_code = 1

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


class UsageError(SkillrunError):
    """Raised if the command line is invalid."""

    exit_code = 2


def render_problem(problem: Problem) -> str:
    """Return the problem as text: position, message, source line, a caret under the column, and hint."""
    place = f"{problem.path}:{problem.line}:{problem.column}"
    lines = [f"{place}: {problem.severity}[{problem.code}]: {problem.message}"]
    if problem.source_line.strip():
        from rich.cells import cell_len

        line, at = problem.source_line, problem.column - 1
        start = max(0, min(at - SHOWN_WIDTH * 2 // 3, len(line) - SHOWN_WIDTH))
        excerpt = _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", line[start : start + SHOWN_WIDTH].replace("\t", " "))
        before, after = "…" if start else "", "…" if start + SHOWN_WIDTH < len(line) else ""
        caret = cell_len(before + excerpt[: at - start])
        lines += [f"  {before}{excerpt}{after}".rstrip(), f"  {' ' * caret}^"]
    if problem.hint:
        lines.append(f"hint: {problem.hint}")
    return "\n".join(escape_line(line) for line in lines)


def did_you_mean(name: str, options: Iterable[str], suffix: str = "") -> str:
    """Return a Suggestion of the option closest to `name`, or "" if no option is close. The hint ends with `suffix`."""
    if not name or len(name) > MAX_NAME_LENGTH:
        return ""
    candidates = {_fold_name(option): option for option in islice(options, MAX_COMPARED)}
    nearest = candidates.get(_fold_name(name))
    if nearest is None:
        from difflib import get_close_matches

        short = _fold_name(name)
        longer = (known for known in candidates if len(short) >= MIN_ABBREVIATION and known.startswith(short))
        matches = get_close_matches(short, candidates, n=1, cutoff=MIN_SIMILARITY) or [*islice(longer, 1)]
        nearest = candidates[matches[0]] if matches else None
    return Suggestion.of(name, nearest, suffix) if nearest is not None and nearest != name else ""


def allowed_hint(options: Iterable[str]) -> str:
    """Return "allowed: a, b, c" in the given order. A long list ends with the number of names that are left out."""
    names = [name or '""' for name in options]
    rest = len(names) - MAX_OPTIONS_SHOWN
    if rest > 0:
        names[MAX_OPTIONS_SHOWN:] = [f"and {rest} more"]
    return f"allowed: {', '.join(names)}" if names else ""


def suggest(name: str, options: Iterable[str], fallback: str = "") -> str:
    """Return a hint for an unknown name: the closest option. If no option is close, it is `fallback` or all options."""
    known = list(dict.fromkeys(options))
    return did_you_mean(name, known) or fallback or allowed_hint(known)


def near_miss(name: str, options: Collection[str]) -> str | None:
    """Return an option that differs from `name` by one typo, or None.

    A typo is a letter that is omitted, added or changed, or two letters that are swapped.
    """
    if len(options) > MAX_COMPARED:
        return None
    for option in options:
        short, long = sorted((option, name), key=len)
        if len(short) <= 2:
            continue
        at = next((place for place, letter in enumerate(short) if letter != long[place]), len(short))
        if len(short) < len(long):
            is_typo = short[at:] == long[at + 1 :]
        else:
            is_swapped = short[at : at + 2] == long[at : at + 2][::-1] and short[at + 2 :] == long[at + 2 :]
            is_typo = is_swapped or short[at + 1 :] == long[at + 1 :]
        if is_typo:
            return option
    return None


def _fold_name(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


def escape_line(line: str) -> str:
    """Escape characters that could control the terminal or reorder the line."""
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), line)


def make_printable(text: str) -> str:
    """Return the text without control, bidirectional and invisible characters, with `\\n` as the only line end."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub("", ESCAPE_SEQUENCE.sub("", _LINE_END.sub("\n", text)))


def indent_continuation(text: str) -> str:
    """Return the printable text, with all lines but the first indented to mark them as part of the text."""
    return _GAP.sub("  ", make_printable(text)).replace("\n", "\n    ")


# Surrogates, escape sequences that end before a JSON quote or bracket, and control characters (C0 and C1,
# but not tab and line feed) with bidirectional controls. Zero-width joiners are allowed.
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_COMPLETE_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n\"\\]*\x07")
_STEERING: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Any character matched by these three patterns or _LINE_END.
_STRANGE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def sanitize(value: Plain) -> Plain:
    """Return `value` with every text and key sanitized.

    Texts from models, tools, users and files are sanitized where they enter a run. The result is valid Unicode without
    control characters, and `\\n` is the only line end. A surrogate pair becomes the encoded character, and a single
    surrogate becomes U+FFFD.
    """
    cleaned: Any = value
    if isinstance(value, str) and _STRANGE.search(value):
        text: str = value
        if _SURROGATE.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        cleaned = _STEERING.sub("", _COMPLETE_SEQUENCE.sub("", _LINE_END.sub("\n", text)))
    elif isinstance(value, dict):
        cleaned = {sanitize(key): sanitize(part) for key, part in value.items()}
    elif isinstance(value, list | tuple):
        cleaned = type(value)(map(sanitize, value))
    return cleaned  # type: ignore[no-any-return]
