"""Answers given ahead in a file: `--answers FILE`, YAML or the frontmatter of a markdown file.

A key is a question's id or a step's key (`architecture/divergence`), `*` and `**` standing for any part; the number of
a loop's pass may be left out. A value is the answer, `{answer: …, confidence: …}`, or a list with one for each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillrun.language.diagnostics import Problem, Problems, SkillrunError, allowed, did_you_mean, render
from skillrun.language.document import parse_config, parse_document
from skillrun.language.source import Mapping, Node, Scalar, Sequence, Span, plain, read_source
from skillrun.people.answers import AnswerUnfit, Question, answered, fitting, is_multiple

KEYS: Final = ("answer", "confidence")
_PASS: Final = re.compile(r"#\d+")
_WILD: Final = {"*": "[^/]*", "**": ".*"}


@dataclass(frozen=True, eq=False)
class Entry:
    """A key of the file with the answers it gives."""

    key: str
    span: Span
    node: Node

    def matches(self, key: str, identity: str) -> bool:
        """Whether it answers the question `identity` of the step `key`."""
        parts = re.split(r"(\*+)", self.key.replace("#*", ""))
        pattern = "".join(_WILD.get(part[:2]) or re.escape(part) for part in parts)
        return any(re.fullmatch(pattern, name) for name in (identity, key, _PASS.sub("", key)))

    def answers(self, question: Question) -> tuple[tuple[Node, ...], bool]:
        """The answers that it has for such a question, and whether each is for one time only."""
        if not isinstance(self.node, Sequence):
            return (self.node,), False
        if is_multiple(question) and all(isinstance(item, Scalar) for item in self.node.items):
            return (self.node,), False
        return self.node.items, True


class Prepared:
    """The answers of a file; a list gives one after the other."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: "*" in entry.key))
        self._used = dict.fromkeys(self.entries, 0)
        self._asked: dict[str, None] = {}

    def take(self, key: str, question: Question) -> dict[str, Any] | None:
        """The answer of a question that is put now; None where the file has none. Raises SkillrunError."""
        node = self._next(key, question)
        if node is None:
            return None
        try:
            return _answer(node, question)
        except AnswerUnfit as unfit:
            place = f"{node.span.path}:{node.span.line}:{node.span.column}"
            message = f"{place}: {unfit.message}, for `{question.get('id')}` of `{key}`"
            raise SkillrunError(message, unfit.next_step) from None

    def skip(self, key: str, question: Question) -> None:
        """Count a question that was put before: lists go on behind it."""
        self._next(key, question)

    def _next(self, key: str, question: Question) -> Node | None:
        identity = str(question.get("id", ""))
        self._asked |= {key: None, identity: None}
        for entry in self.entries:
            if not entry.matches(key, identity):
                continue
            nodes, each_once = entry.answers(question)
            number = self._used[entry] if each_once else 0
            if number < len(nodes):
                self._used[entry] += 1
                return nodes[number]
        return None

    def has(self, key: str, question: Question) -> bool:
        """Whether there is an answer for such a question."""
        return any(entry.matches(key, str(question.get("id", ""))) for entry in self.entries)

    def unfit(self, key: str, question: Question) -> Iterator[Problem]:
        """The answers that such a question would not take."""
        problems = Problems()
        for entry in self.entries:
            if entry.matches(key, str(question.get("id", ""))):
                for node in entry.answers(question)[0]:
                    try:
                        _answer(node, question)
                    except AnswerUnfit as unfit:
                        problems.report(node.span, "answer", unfit.message, unfit.next_step)
        yield from problems

    def unused(self) -> list[Problem]:
        """A warning for each key that has answered no question so far."""
        problems = Problems()
        for entry, times in self._used.items():
            if not times:
                message = f"`{entry.key}` answered no question"
                problems.report(entry.span, "unused", message, did_you_mean(entry.key, self._asked), "warning")
        return list(problems)


def read_answers(path: Path) -> Prepared:
    """The prepared answers of a file. Raises SkillrunError with everything that is wrong with it."""
    problems = Problems()
    source = read_source(path, str(path), problems)
    mapping = None
    if source is not None and path.suffix in (".md", ".markdown"):
        document = parse_document(source, problems)
        mapping = document.front if document else None
    elif source is not None:
        mapping = parse_config(source, problems)
    entries = []
    for key, entry in (mapping.entries if mapping else {}).items():
        _check(entry.value, problems)
        entries.append(Entry(key, entry.key.span, entry.value))
    if problems.errors:
        text = "\n".join(map(render, problems))
        raise SkillrunError(f"the prepared answers cannot be used:\n{text}", f"mend {path}, then run again")
    return Prepared(entries)


def _check(node: Node, problems: Problems, lists: int = 2, record: bool = True) -> None:
    """Report what is no answer; `lists` is how deep lists may go: one for each time, and in it several choices."""
    if isinstance(node, Sequence) and lists:
        for item in node.items:
            _check(item, problems, lists - 1, record and lists > 1)
    elif isinstance(node, Mapping) and record:
        for name, entry in node.entries.items():
            if name not in KEYS:
                hint = did_you_mean(name, KEYS) or allowed(KEYS)
                problems.report(entry.key.span, "unknown-key", f"an answer has no key `{name}`", hint)
            else:
                _check(entry.value, problems, int(name == "answer"), record=False)
        if "answer" not in node.entries:
            problems.report(node.span, "missing-key", "the key `answer` is missing", "write `answer: …`")
    elif not isinstance(node, Scalar):
        problems.report(node.span, "answer", "this is no answer", "write a text, a list, or `{answer: …}`")


def _answer(node: Node, question: Question) -> dict[str, Any]:
    given: Any = plain(node)
    confidence = None
    if isinstance(given, dict):
        given, confidence = given["answer"], given.get("confidence")
    return answered(fitting(question, given), confidence)
