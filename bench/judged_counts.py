"""The figures of an arm: paths, places, limits, criteria, ids, names handed on, words that put off, length."""

import builtins
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from bench.judged_arms import Arm, Code
from skillrun.templates.document_search import hits_in
from skillrun.templates.ids import ids_in, links_between
from skillrun.templates.numbers import numbers_in
from skillrun.templates.paths import paths_in

CRITERIA = [r"AC-?\d+"]
IDS = r"[A-Z]{1,15}(?:-[A-Z]{1,15})?-?\d+"
# What looks like an id and is a name of the world.
NAMES = re.compile(
    "AES|AMD|ARM|ASCII|BASE|CP|CRC|CVE|ECMA|EN|GPT|HTTP|IEC|IEEE|INT|IPV|ISO|LATIN|LTS|"
    "MD|MP|PEP|POSIX|PY|REDIS|RFC|RS|SHA|SQL|TLS|UCS|UINT|UTF|UTC|WIN|X|XXH"
)
NEW = [r"\bnew\b", r"\bcreat(?:e|es|ed|ing)\b", r"\badd(?:s|ed|ing)?\b"]
PLACEHOLDERS = [
    r"\bTBD\b",
    r"\bTODO\b",
    r"\bFIXME\b",
    r"\bXXX\b",
    r"\bto be (?:decided|defined|determined|clarified|discussed)\b",
    r"\bas (?:needed|necessary)\b",
    r"\bif necessary\b",
    r"\bappropriate(?:ly)?\b",
    r"\bhandle (?:errors|edge cases)\b",
    r"\bsimilar to (?:task|above|the other)\b",
    r"\betc\.",
    r"\band so on\b",
]
SHRINKING = [
    r"\bfor now\b",
    r"\bv1\b",
    r"\b(?:first|initial|minimal|smallest|basic) version\b",
    r"\bMVP\b",
    r"\bsimplified\b",
    r"\bhard-?coded\b",
    r"\bfollow-?up\b",
    r"\bfuture (?:work|version|release|change)s?\b",
    r"\b(?:later|separate|another) (?:change|release|issue|pull request|version)\b",
    r"\beventually\b",
    r"\bbest effort\b",
    r"\bwill be (?:wired|added|done) later\b",
]

_SPAN = re.compile(r"`([^`\n]+)`")
_PLACE = re.compile(r"(?<![\w/.:-])((?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,5}):(\d+)")
_LABEL = re.compile(r"(?:^|[.;]\s+|[-*]\s+)[*_]*([A-Z][a-z]+(?: [a-z]+)?)[*_]*\s*:[*_]*")
_FIRST_NAME = re.compile(r"(?:(?:async|def|class)\s+)*((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)")


@dataclass(frozen=True)
class Count:
    """A figure: how it is shown, empty where it cannot be told, and what it rests on."""

    name: str
    shown: str
    details: tuple[str, ...] = ()


def count(arm: Arm, request: str, code: Code | None, criteria: list[str]) -> list[Count]:
    """The figures of an arm, always the same ones in the same order."""
    return [
        *_paths(arm, code),
        *_limits(arm, request),
        *_criteria(arm, criteria),
        _dangling(arm, request, criteria),
        *_handed_on(arm, code),
        _hits(arm, "placeholder words", PLACEHOLDERS, request),
        _hits(arm, "words that shrink the scope", SHRINKING, request),
        Count("words", f"{sum(len(text.split()) for text in arm.documents.values()):,}"),
    ]


def _of(found: int, all_of_them: int) -> str:
    return f"{found} of {all_of_them}" if all_of_them else ""


# paths


def _paths(arm: Arm, code: Code | None) -> Iterator[Count]:
    names = ("paths that are there", "paths said to be new", "paths that are neither", "places past a file's end")
    if code is None:
        yield from (Count(name, "") for name in names)
        return
    paths = paths_in(arm.documents, NEW)
    there = [one for one in paths if code.has(one["path"])]
    new = [one for one in paths if one["new"] and one not in there]
    neither = [one for one in paths if one not in there and one not in new and _is_file(one["path"])]
    for name, several in zip(names, (there, new, neither), strict=False):
        shown = () if several is there else tuple(f"{one['path']} ({_where(one['cited'])})" for one in several)
        yield Count(name, str(len(several)), shown)
    places = sorted({(path, int(line)) for path, line in _PLACE.findall(arm.text) if code.files(path)})
    past = [f"{path}:{line}" for path, line in places if all(code.lines[one] < line for one in code.files(path))]
    yield Count(names[3], _of(len(past), len(places)), tuple(past))


def _is_file(path: str) -> bool:
    """Whether a path is one by its end: in backticks `try/except` is none."""
    return path.endswith("/") or path.startswith(".") or "." in path.rpartition("/")[2]


def _where(places: list[dict[str, object]]) -> str:
    return f"{places[0]['document']}:{places[0]['line']}"


# limits


def _limits(arm: Arm, request: str) -> Iterator[Count]:
    """The numbers and the names in backticks that the request has, and where they came to."""
    values = {one["value"]: one["number"] for one in numbers_in(_SPAN.sub(_plain, request), code=True)}
    names = sorted({name for name in map(_literal, _SPAN.findall(request)) if name})
    built = "\n".join([arm.parts["tests"], arm.parts["tasks"]])
    for where, text in (("anywhere", arm.text), ("in tests or tasks", built)):
        held = {one["value"] for one in numbers_in(text, code=True)}
        lost = [str(number) for value, number in values.items() if value not in held]
        yield Count(f"limits of the request {where}", _of(len(values) - len(lost), len(values)), tuple(lost))
        gone = [name for name in names if name not in text]
        yield Count(f"names of the request {where}", _of(len(names) - len(gone), len(names)), tuple(gone))


def _plain(span: re.Match[str]) -> str:
    return span[1] if re.fullmatch(r"[\d.,_]+", span[1]) else " "


def _literal(span: str) -> str:
    name = span.strip().rstrip("=")
    return name if re.fullmatch(r"[\w.:/-]*[^\W\d][\w.:/-]*", name) else ""


# ids


def _criteria(arm: Arm, patterns: list[str]) -> Iterator[Count]:
    """A criterion has a case where one names the other; what stands among the cases is one itself. So with tasks."""
    known = ids_in(arm.parts, {"criterion": patterns, "id": IDS})
    criteria = [one for one in known if one["kind"] == "criterion" and one["defined"]]
    have: dict[str, set[str]] = {}
    for part in ("tests", "tasks"):
        have[part] = {one["id"] for one in criteria if one["defined"][0]["document"] == part}
        for own in {one["defined"][0]["document"] for one in criteria} - {part}:
            have[part] |= {one["id"] for one in links_between(known, own, part) if one["links"]}
    for name, held in (
        ("criteria with a case", have["tests"]),
        ("criteria with a task", have["tasks"]),
        ("criteria with both", have["tests"] & have["tasks"]),
    ):
        without = tuple(one["id"] for one in criteria if one["id"] not in held)
        yield Count(name, _of(len(criteria) - len(without), len(criteria)), without)


def _dangling(arm: Arm, request: str, patterns: list[str]) -> Count:
    """Ids that are used and nowhere defined. Without a hyphen only those count of whose kind others are defined."""
    known = ids_in(arm.documents, {"id": [*patterns, IDS]})
    kinds: dict[str, int] = {}
    for one in known:
        kinds[_kind(one["id"])] = kinds.get(_kind(one["id"]), 0) + bool(one["defined"])
    lost = [
        one
        for one in known
        if not one["defined"]
        and one["id"] not in request
        and not NAMES.fullmatch(_kind(one["id"]).partition("-")[0])
        and ("-" in one["id"] or kinds[_kind(one["id"])] > 1)
    ]
    return Count(
        "ids that lead nowhere", str(len(lost)), tuple(f"{one['id']} ({_where(one['cited'])})" for one in lost)
    )


def _kind(name: str) -> str:
    return name.rstrip("0123456789").rstrip("-")


# names that tasks hand on


def _handed_on(arm: Arm, code: Code | None) -> Iterator[Count]:
    """Names behind `Consumes:` that no `Produces:` has, nor the code; told only where tasks have that form."""
    consumed, produced = (set(_names(arm.text, label)) for label in ("Consumes", "Produces"))
    known = produced | (code.names if code else frozenset())
    lost = sorted(one for one in consumed if not {one, one.rpartition(".")[2]} & known and not _is_standard(one))
    shown = str(len(lost)) if consumed and (code is not None) else ""
    yield Count("names consumed", str(len(consumed)) if consumed else "")
    yield Count("of these produced nowhere", shown, tuple(lost) if shown else ())


def _names(text: str, label: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*#|])", text):
        marks = list(_LABEL.finditer(paragraph))
        for at, mark in enumerate(marks):
            end = marks[at + 1].start() if at + 1 < len(marks) else len(paragraph)
            if mark[1] == label:
                for span in _SPAN.findall(paragraph[mark.end() : end]):
                    found = _FIRST_NAME.match(span)
                    if found is not None and "/" not in span:
                        yield found[1]


def _is_standard(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names or hasattr(builtins, name)


# words


def _hits(arm: Arm, name: str, patterns: list[str], request: str) -> Count:
    """Hits of the patterns but for words that the request itself uses."""
    used = request.lower()
    found = [one for one in hits_in(arm.documents, patterns) if one["hit"].lower() not in used]
    return Count(name, str(len(found)), tuple(f"{one['hit']} ({one['document']}:{one['line']})" for one in found))
