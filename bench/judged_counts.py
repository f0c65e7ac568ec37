"""Computes the figures of an arm: paths, places, limits, criteria, ids, interfaces, placeholder words, length."""

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
# Well-known names that look like ids.
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
    """A figure: its text, empty if it is unknown, and the evidence for it."""

    name: str
    shown: str
    details: tuple[str, ...] = ()


def count(arm: Arm, request: str, code: Code | None, criteria: list[str]) -> list[Count]:
    """The figures of an arm, always the same in the same order."""
    return [
        *_paths(arm, code),
        *_limits(arm, request),
        *_criteria(arm, criteria),
        _dangling(arm, request, criteria),
        *_interfaces(arm, code),
        _hits(arm, "placeholder words", PLACEHOLDERS, request),
        _hits(arm, "words that shrink the scope", SHRINKING, request),
        Count("words", f"{sum(len(text.split()) for text in arm.documents.values()):,}"),
    ]


def _ratio(found: int, total: int) -> str:
    return f"{found} of {total}" if total else ""


# paths


def _paths(arm: Arm, code: Code | None) -> Iterator[Count]:
    names = ("paths that are there", "paths said to be new", "paths that are neither", "places past a file's end")
    if code is None:
        yield from (Count(name, "") for name in names)
        return
    paths = paths_in(arm.documents, NEW)
    existing = [path for path in paths if code.has(path["path"])]
    new = [path for path in paths if path["new"] and path not in existing]
    unknown = [path for path in paths if path not in existing and path not in new and _is_file(path["path"])]
    for name, group in zip(names, (existing, new, unknown), strict=False):
        details = () if group is existing else tuple(f"{path['path']} ({_where(path['cited'])})" for path in group)
        yield Count(name, str(len(group)), details)
    places = sorted({(path, int(line)) for path, line in _PLACE.findall(arm.text) if code.files(path)})
    invalid = [f"{path}:{line}" for path, line in places if all(code.lines[file] < line for file in code.files(path))]
    yield Count(names[3], _ratio(len(invalid), len(places)), tuple(invalid))


def _is_file(path: str) -> bool:
    """Whether the path ends like a file or folder, unlike `try/except`."""
    return path.endswith("/") or path.startswith(".") or "." in path.rpartition("/")[2]


def _where(places: list[dict[str, object]]) -> str:
    return f"{places[0]['document']}:{places[0]['line']}"


# limits


def _limits(arm: Arm, request: str) -> Iterator[Count]:
    """How many of the numbers and backticked names in the request reach the plan."""
    values = {number["value"]: number["number"] for number in numbers_in(_SPAN.sub(_plain, request), code=True)}
    names = sorted({name for name in map(_literal, _SPAN.findall(request)) if name})
    tests_and_tasks = "\n".join([arm.parts["tests"], arm.parts["tasks"]])
    for where, text in (("anywhere", arm.text), ("in tests or tasks", tests_and_tasks)):
        found = {number["value"] for number in numbers_in(text, code=True)}
        lost = [str(number) for value, number in values.items() if value not in found]
        yield Count(f"limits of the request {where}", _ratio(len(values) - len(lost), len(values)), tuple(lost))
        missing = [name for name in names if name not in text]
        yield Count(f"names of the request {where}", _ratio(len(names) - len(missing), len(names)), tuple(missing))


def _plain(span: re.Match[str]) -> str:
    return span[1] if re.fullmatch(r"[\d.,_]+", span[1]) else " "


def _literal(span: str) -> str:
    name = span.strip().rstrip("=")
    return name if re.fullmatch(r"[\w.:/-]*[^\W\d][\w.:/-]*", name) else ""


# ids


def _criteria(arm: Arm, patterns: list[str]) -> Iterator[Count]:
    """How many criteria have a case or task: one of them names the other, or the part itself defines the criterion."""
    known = ids_in(arm.parts, {"criterion": patterns, "id": IDS})
    criteria = [item for item in known if item["kind"] == "criterion" and item["defined"]]
    covered: dict[str, set[str]] = {}
    for part in ("tests", "tasks"):
        covered[part] = {item["id"] for item in criteria if item["defined"][0]["document"] == part}
        for source in {item["defined"][0]["document"] for item in criteria} - {part}:
            covered[part] |= {item["id"] for item in links_between(known, source, part) if item["links"]}
    for name, ids in (
        ("criteria with a case", covered["tests"]),
        ("criteria with a task", covered["tasks"]),
        ("criteria with both", covered["tests"] & covered["tasks"]),
    ):
        missing = tuple(item["id"] for item in criteria if item["id"] not in ids)
        yield Count(name, _ratio(len(criteria) - len(missing), len(criteria)), missing)


def _dangling(arm: Arm, request: str, patterns: list[str]) -> Count:
    """Ids that are used but not defined. An id without a hyphen counts only if others of its kind are defined."""
    known = ids_in(arm.documents, {"id": [*patterns, IDS]})
    kinds: dict[str, int] = {}
    for item in known:
        kinds[_kind(item["id"])] = kinds.get(_kind(item["id"]), 0) + bool(item["defined"])
    undefined = [
        item
        for item in known
        if not item["defined"]
        and item["id"] not in request
        and not NAMES.fullmatch(_kind(item["id"]).partition("-")[0])
        and ("-" in item["id"] or kinds[_kind(item["id"])] > 1)
    ]
    details = tuple(f"{item['id']} ({_where(item['cited'])})" for item in undefined)
    return Count("ids that lead nowhere", str(len(undefined)), details)


def _kind(name: str) -> str:
    return name.rstrip("0123456789").rstrip("-")


# interfaces between tasks


def _interfaces(arm: Arm, code: Code | None) -> Iterator[Count]:
    """Names after `Consumes:` that neither a `Produces:` nor the code has; empty if no task has these labels."""
    consumed, produced = (set(_names(arm.text, label)) for label in ("Consumes", "Produces"))
    known = produced | (code.names if code else frozenset())
    unknown = sorted(
        name for name in consumed if not {name, name.rpartition(".")[2]} & known and not _is_standard(name)
    )
    shown = str(len(unknown)) if consumed and (code is not None) else ""
    yield Count("names consumed", str(len(consumed)) if consumed else "")
    yield Count("of these produced nowhere", shown, tuple(unknown) if shown else ())


def _names(text: str, label: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*#|])", text):
        matches = list(_LABEL.finditer(paragraph))
        for index, match in enumerate(matches):
            end = matches[index + 1].start() if index + 1 < len(matches) else len(paragraph)
            if match[1] == label:
                for span in _SPAN.findall(paragraph[match.end() : end]):
                    name = _FIRST_NAME.match(span)
                    if name is not None and "/" not in span:
                        yield name[1]


def _is_standard(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names or hasattr(builtins, name)


# words


def _hits(arm: Arm, name: str, patterns: list[str], request: str) -> Count:
    """Hits of the patterns, except words that the request itself uses."""
    lowered = request.lower()
    hits = [hit for hit in hits_in(arm.documents, patterns) if hit["hit"].lower() not in lowered]
    return Count(name, str(len(hits)), tuple(f"{hit['hit']} ({hit['document']}:{hit['line']})" for hit in hits))
