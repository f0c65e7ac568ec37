"""Measures the size, names and wording of the code, and the path from a command to a request.

`make measure` prints the table. `tests/unit/test_measures.py` checks that no measure is above its limit.
"""

from __future__ import annotations

import ast
import asyncio
import io
import os
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

TOP: Final = Path(__file__).parents[1]
ENGINE: Final = TOP / "engine" / "skillrun"
PHRASES: Final = (  # wording that is not standard English; a rate of 0.3 per 1,000 words is ordinary text
    r"\bstands? (in|at|behind|beside|above|below|there|first|last|alone in|on|for it|by)\b",
    r"\bstanding (in|at|behind|beside)\b",
    r"\b(is|are|was|were|be|been|being) (told|said)\b",
    r"\b(tells?|told) (of|how|which|what)\b",
    r"\bwho(m)?ever\b",
    r"\bnobody\b",
    r"\bsomebody('s)?\b",
    r"\b(is|are) none\b|\bis no [a-z]+\b",
    r"\bof (its|their|his|her|one's) own\b",
    r"\bgo(es|ing)? on\b|\bwent on\b|\bgone on\b",
    r"\bmend(s|ed|ing)?\b",
    r"\bbehind\b",
    r"\bbeside\b",
    r"\bas (it|they) came\b",
    r"\bin (its|the) place of\b|\btake(s|n)? the place of\b",
    r"\bon record\b",
    r"\b(is|are|was|were|be|been) asked again\b",
    r"\bask(s|ed|ing)? (the|a|each|every|its|their) (model|member|provider|judge|chair)s?\b",
    r"\bhears?\b|\bheard\b",
    r"\b(not )?any more\b",
    r"\b(from )?elsewhere\b",
    r"\bto type\b|\btyped\b",
    r"\bforetold\b|\bforetell(s|ing)?\b",
    r"\b(never|not) asked\b",
    r"\bthings?\b",
    r"\bfrom then on\b|\bas long as it is there\b",
    r"\blies? (in|inside|at|within)\b",
    r"\bshall\b",
    r"\bwhat is (wanted|left|there|new|said|kept|known|sent|read|written|asked|missing)\b",
    r"\bthat (it|he|she|they) (was|were|is|are) (told|given|asked)\b",
    r"\bsa(ys?|id) so\b",
    r"\bby hand\b",
    r"\bfor good\b",
    r"\bat (the|its) foot\b",
    r"\bbrings? (forward|along)\b|\bbrought forward\b",
    r"\bin turn\b",
    r"\blook(s|ed) at\b|\bto look at\b",
    r"\bhand(s|ed)? over\b",
    r"\bgives? (way|back)\b|\bgiven back\b",
    r"\bcomes? (to|of)\b|\bcame of\b",
    r"\bto (its|the) end\b",
    r"\bnot even\b",
)
HITS: Final = re.compile("|".join(PHRASES), re.IGNORECASE)
PARTICIPLE: Final = re.compile(
    r"^_*(?:(?:[a-z0-9]+_)*)?(told|heard|made|kept|sent|given|taken|left|found|held|gone|written|known|shown|said|met|"
    r"lost|brought|bound|put|unkept|here|around|beside|before|behind|late|again|none|worth|meant|[a-z]{3,}ed)$"
)
VERBS_IN_ED: Final = {"need", "feed", "seed", "speed", "embed", "exceed", "proceed", "succeed"}
NOUNS: Final = {"put", "bed"}
FIRST_WORDS: Final = (
    *("is_", "has_", "was_", "are_", "can_", "should_", "get_", "set_", "on_", "check_", "find_", "list_", "read_"),
    *("make_", "build_", "render_", "format_", "parse_", "load_", "write_"),
)
NOT_FUNCTIONS: Final = {"property", "cached_property", "fixture", "setter"}


class Measure(NamedTuple):
    """A measured value, the limit that `make test` checks, and the goal that the limit is lowered to."""

    name: str
    value: float
    limit: float
    goal: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def measure_all() -> list[Measure]:
    """Measure everything except the path to a request, which needs a run."""
    files = sorted(ENGINE.rglob("*.py"))
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in files}
    core = [path for path in files if "extensions" not in path.relative_to(ENGINE).parts]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    return [
        Measure("lines of the engine", sum(lines.values()), 60_900, 51_000),
        Measure("lines of the core", sum(lines[path] for path in core), 47_620, 38_000),
        Measure("files of the engine", len([path for path in files if lines[path] > 1]), 290, 300),
        Measure("lines of a function, mean", round(mean_function_length(trees), 1), 9.9, 11.0, at_least=True),
        Measure("concepts of the core", len(find_concepts()), 60, 60),
        Measure("functions with participle names", len(list(find_participle_names(trees))), 0, 0),
        Measure("public class names used twice", len(find_duplicate_classes(trees)), 0, 0),
        Measure("unusual phrases per 1,000 words, engine", round(phrase_rate(ENGINE), 2), 1.5, 1.5),
        Measure("unusual phrases per 1,000 words, tests", round(phrase_rate(TOP / "tests"), 2), 1.5, 1.5),
    ]


def mean_function_length(trees: list[ast.Module]) -> float:
    """Lines of a function or method, from `def` to its last line, on average."""
    lengths = [node.end_lineno - node.lineno + 1 for tree in trees for node in _functions(tree) if node.end_lineno]
    return sum(lengths) / len(lengths)


def find_concepts() -> list[str]:
    """Concepts of the core: its classes that at least six modules outside their package import; all events are one."""
    importers: Counter[tuple[str, str]] = Counter()
    for path in ENGINE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("skillrun."):
                parts = node.module.split(".")
                if parts[1] not in {path.relative_to(ENGINE).parts[0], "extensions"}:
                    importers.update((".".join(parts[1:]), name.name) for name in node.names)
    names = {name for (_, name), count in importers.items() if count >= 6}
    classes = set[str]()
    for path in ENGINE.rglob("*.py"):
        if path.name != "events.py":
            body = ast.parse(path.read_text(encoding="utf-8")).body
            classes |= {node.name for node in body if isinstance(node, ast.ClassDef)}
    return sorted(names & classes | {"Event"})


def find_participle_names(trees: list[ast.Module]) -> Iterator[str]:
    """Functions and methods whose name is a participle or an adjective instead of a verb."""
    for tree in trees:
        for node in _functions(tree):
            marks = {ast.unparse(mark).split("(")[0].rsplit(".", 1)[-1] for mark in node.decorator_list}
            name = node.name.lstrip("_")
            last = name.rsplit("_", 1)[-1]
            if node.name.startswith("__") or marks & NOT_FUNCTIONS or name.startswith(FIRST_WORDS):
                continue
            if PARTICIPLE.match(node.name) and last not in VERBS_IN_ED | NOUNS:
                yield node.name


def find_duplicate_classes(trees: list[ast.Module]) -> list[str]:
    """Public class names that the engine defines more than once."""
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1 and not name.startswith("_"))


def phrase_rate(folder: Path) -> float:
    """Unusual phrases per 1,000 words in the docstrings, comments and texts of a folder's Python files."""
    words = hits = 0
    for path in sorted(folder.rglob("*.py")):
        if path == Path(__file__) or "golden" in path.parts or "examples" in path.parts:
            continue
        for _, text in prose(path):
            words += len(re.findall(r"[A-Za-z']{2,}", text))
            hits += len(HITS.findall(text))
    return 1000 * hits / words


def find_phrases(folder: Path) -> Iterator[str]:
    """Every unusual phrase with its file and line."""
    for path in sorted(folder.rglob("*.py")):
        for line, text in prose(path):
            for match in HITS.finditer(text):
                yield f"{path.relative_to(TOP)}:{line}: {match[0]}"


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of comments, docstrings and texts with a space, each with its number."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    for token in tokens:
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield from enumerate(token.string.splitlines(), token.start[0])


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


class CallPath:
    """The engine's functions on the stack when `reached` is called, across the tasks that led there."""

    def __init__(self) -> None:
        self.frames: list[CodeType] = []
        self._creators: dict[int, list[CodeType]] = {}

    def install(self, patch: Callable[[type, str, Any], None]) -> None:
        """Have every task remember the stack that created it."""
        create_task = asyncio.BaseEventLoop.create_task
        creators = self._creators

        def remember(loop: asyncio.BaseEventLoop, *arguments: Any, **settings: Any) -> Any:
            task = create_task(loop, *arguments, **settings)
            creators[id(task)] = self._stack(sys._getframe(1))
            return task

        patch(asyncio.BaseEventLoop, "create_task", remember)

    def reached(self) -> None:
        self.frames = self.frames or self._stack(sys._getframe(1))

    def functions(self) -> list[str]:
        """Each function once, outermost first: `file:function`."""
        names = [f"{os.path.relpath(code.co_filename, ENGINE)}:{code.co_qualname}" for code in self.frames]
        return list(dict.fromkeys(re.sub(r"\.<locals>.*", "", name) for name in names))

    def _stack(self, frame: FrameType | None) -> list[CodeType]:
        """Outermost first; the stack of the current task continues that of its creator."""
        codes: list[CodeType] = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(str(ENGINE)):
                codes.append(frame.f_code)
            frame = frame.f_back
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        inner = codes[::-1]
        outer = self._creators.get(id(task), []) if task is not None else []
        return [*outer, *(code for code in inner if code not in outer)]


def main() -> int:
    for measure in measure_all():
        bound = "at least" if measure.at_least else "at most"
        mark = "" if measure.holds else "  <- above its limit"
        print(f"{measure.name:42} {measure.value:>9,}   {bound} {measure.limit:,} (goal {measure.goal:,}){mark}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
