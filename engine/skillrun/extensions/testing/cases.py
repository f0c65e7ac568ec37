"""Defines the keys of case files, lists the case files in `tests/`, and reads them.

The module `checking` compares the names in a case with the workflow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from skillrun.definitions.reader import Reader
from skillrun.definitions.verbs import Key, Keys
from skillrun.models.scripted import Rule, read_script
from skillrun.questions.prepared_answers import PreparedEntry, parse_prepared_answers
from skillrun.scoring.patterns import rejection_reason
from skillrun.syntax import source
from skillrun.syntax.diagnostics import ParsingStopped, Problems
from skillrun.syntax.document import parse_document
from skillrun.syntax.reading import decode_source, is_outside, read_source
from skillrun.syntax.source import MAX_BYTES, Document, Node, Scalar, Sequence, Source, Span, to_plain
from skillrun.syntax.yaml import parse_yaml
from skillrun.templates.expressions import Value

CASES_FOLDER: Final = "tests"
ROUND_PREFIX: Final = re.compile(r"round-([0-9]{1,9})/")  # a prefix that limits an address pattern to one round

CASE_KEYS: Final[Keys] = {
    "inputs": Key("anything", "the workflow's inputs"),
    "answers": Key("anything", "answers to questions, as in a prepared answers file"),
    "replies": Key("anything", "the models' replies, as in a script"),
    "model": Key("sentence", "one model for every call, such as `scripted:noise-1`"),
    "project": Key("sentence", "the run's project folder, relative to the case"),
    "runs": Key("sentence", "the folder of other runs that the run reads, relative to the case"),
    "prompts": Key("sentence", "the file of recorded prompts, relative to the case"),
    "run": Key("anything", "the values of `run`"),
    "expect": Key("anything", "the expected results"),
}
RUN_KEYS: Final[Keys] = {
    "name": Key("sentence", "`run.name`"),
    "started_at": Key("sentence", "`run.started_at`"),
    "environment": Key("choice", "`run.environment`", values=("terminal", "editor", "ci")),
}
EXPECT_KEYS: Final[Keys] = {
    "outcome": Key("anything", "the final status of the run"),
    "path": Key("anything", "the phases in the order in which they start"),
    "outputs": Key("anything", "outputs of phases"),
    "flags": Key("anything", "flags of phases"),
    "artifacts": Key("anything", "the artifacts of the run"),
    "prompts": Key("anything", "the prompts, by address pattern"),
    "calls": Key("anything", "the number of calls"),
    "price": Key("number", "the maximum price of the calls, in dollars", least=0),
}
OUTCOME_KEYS: Final[Keys] = {
    "status": Key("choice", "the final status of the run", values=("completed", "failed", "waiting")),
    "reason": Key("sentence", "a part of the reason"),
}
TEXT_KEYS: Final[Keys] = {
    "contains": Key("anything", "a text that must occur, or a list of them"),
    "lacks": Key("anything", "a text that must not occur, or a list of them"),
    "matches": Key("anything", "a regular expression that must match, or a list of them"),
    "equals": Key("sentence", "a file with the same text, relative to the case"),
}
PROMPT_KEYS: Final[Keys] = {**TEXT_KEYS, "at_most": Key("integer", "the maximum number of tokens", least=0)}
BOUND_KEYS: Final[Keys] = {
    "at_least": Key("integer", "the minimum", least=0),
    "at_most": Key("integer", "the maximum", least=0),
}


@dataclass(frozen=True)
class Expectation:
    """One expectation of a case.

    `kind` says what is checked. `subject` is the phase, artifact or address pattern. If the kind has several checks,
    `test` is the key of the check, such as `contains`.
    """

    kind: str
    value: Any
    span: Span
    subject: str = ""
    test: str = ""


@dataclass(frozen=True)
class RunSettings:
    """Fixed values of the template variable `run` in the runs of the case."""

    name: str = "run"
    started_at: str = "2026-01-01T00:00:00Z"
    environment: str = "terminal"


@dataclass(frozen=True)
class Case:
    """A test case: the inputs, answers and replies of a run, and the expected results."""

    name: str
    workflow: str
    front: source.Mapping
    answers: Mapping[str, PreparedEntry] = field(default_factory=dict)
    replies: tuple[Rule, ...] = ()
    model: str = ""
    project: str = ""
    runs: str = ""
    prompts: str = ""
    run: RunSettings = field(default_factory=RunSettings)
    expectations: tuple[Expectation, ...] = ()

    def span(self, *path: str) -> Span:
        """Return the position of the key at `path`, of the nearest existing parent key, or of the start of the file."""
        spans = (self.front.key_span(*path[:length]) for length in range(len(path), 0, -1))
        return next((span for span in spans if span is not None), Span(self.front.span.source, 0))

    @property
    def input_names(self) -> frozenset[str]:
        """The names of the inputs that the case sets."""
        node = self.front.get("inputs")
        return frozenset(node.entries) if isinstance(node, source.Mapping) else frozenset()


class CaseFile(NamedTuple):
    """A case file, `tests/<workflow>/<name>.md`."""

    workflow: str
    name: str
    path: Path
    label: str

    def document(self, problems: Problems, project: Path, text: str | None = None) -> Document | None:
        """Return the parsed file; None if it cannot be read. If `text` is given, it replaces the content on disk."""
        if text is not None:
            read = decode_source(text.encode("utf-8", "replace"), self.path, self.label, problems, MAX_BYTES)
        else:
            read = read_source(self.path, self.label, problems, boundary=project)
        try:
            return parse_document(read, problems) if read is not None else None
        except ParsingStopped:
            return None


def case_files(project: Path) -> Iterator[CaseFile]:
    """Yield the case files in the subfolders of `tests/`, sorted.

    A folder that is a link out of the project is not listed. It is yielded in place of its files, without a name; to
    read it reports the link.
    """
    top = project / CASES_FOLDER
    if is_outside(top, project):
        yield CaseFile(CASES_FOLDER, "", top, CASES_FOLDER)
        return
    for folder in sorted(filter(Path.is_dir, top.glob("*"))):
        if is_outside(folder, project):
            yield CaseFile(folder.name, "", folder, folder.relative_to(project).as_posix())
            continue
        for path in sorted(folder.glob("*.md")):
            label = path.relative_to(project)
            if is_case_file(label):
                yield CaseFile(folder.name, path.stem, path, label.as_posix())


def is_case_file(path: Path) -> bool:
    """Whether a path relative to the project names a case file. READMEs and hidden files are not case files."""
    return len(path.parts) == 3 and path.match(f"{CASES_FOLDER}/[!.]*/[!.]*.md") and path.name != "README.md"


def read_named_file(
    path: Path, name: str, span: Span, problems: Problems, project: Path, max_bytes: int = MAX_BYTES
) -> Source | None:
    """Read a file that a case names. Problems are reported at `span`, the position of the file name in the case."""
    file_problems = Problems()
    label = Path(os.path.relpath(path, project)).as_posix()
    content = read_source(path, label, file_problems, max_bytes, boundary=project)
    for problem in file_problems:
        problems.report(span, problem.code, f"{name}: {problem.message}", problem.hint)
    return content


class CaseReader(Reader):
    """Reads the parts of a case. Invalid parts are reported and left out."""

    def __init__(self, file: CaseFile, project: Path, problems: Problems) -> None:
        super().__init__(problems, literal=True)
        self.file, self.project = file, project

    def read_case(self, document: Document) -> Case:
        """Return the case in a file. Raises ParsingStopped if there are too many errors."""
        front = document.frontmatter
        values = self.read(front, CASE_KEYS)
        if not front.entries:
            self.report(front.span, "frontmatter", "this case is empty", "start with the lines `---`, `expect:`, `---`")
        answers, replies, run, expect = (front.get(name) for name in ("answers", "replies", "run", "expect"))
        if isinstance(inputs := front.get("inputs"), Scalar | Sequence) and to_plain(inputs) is not None:
            self.report_wrong_type(inputs, "a mapping of inputs to values")
        return Case(
            self.file.name,
            self.file.workflow,
            front,
            parse_prepared_answers(answers, self.problems) if answers is not None else {},
            tuple(self.read_replies(replies)) if replies is not None else (),
            values.get("model", ""),
            values.get("project", ""),
            values.get("runs", ""),
            values.get("prompts", ""),
            RunSettings(**self.read(run, RUN_KEYS)) if run is not None else RunSettings(),
            tuple(self.read_expectations(expect)) if expect is not None else (),
        )

    def read_key_value(self, name: str, key: Key, node: Node) -> Any:
        value = super().read_key_value(name, key, node)
        return value.literal if isinstance(value, Value) else value

    def read_replies(self, node: Node) -> Iterator[Rule]:
        """Yield the replies written in the case, or the replies in the script files that the case names.

        File names are relative to the folder of the case.
        """
        names = node.items if isinstance(node, Sequence) else (node,)
        if not names or not all(isinstance(name, Scalar) and isinstance(name.value, str) for name in names):
            yield from read_script(node, self.problems)
            return
        for name in names:
            typed = self.read_sentence(name)
            script = read_named_file(self.file.path.parent / typed, typed, name.span, self.problems, self.project)
            parsed = parse_yaml(script, 0, len(script.text), self.problems) if script is not None else None
            if parsed is not None:
                yield from read_script(parsed, self.problems)

    def read_expectations(self, node: Node) -> Iterator[Expectation]:
        self.read(node, EXPECT_KEYS)
        for name, entry in source.entries_of(node).items():
            value = entry.value
            match name:
                case "outcome":
                    yield from self.read_outcome(value)
                case "path":
                    items = self.read_items(value, "phases", "write `[first, second]`")
                    phases = tuple(self.read_sentence(item) for item in items)
                    if phases or isinstance(value, Sequence):
                        yield Expectation(name, phases, value.span)
                case "outputs" | "flags":
                    for phase, expected in self.read_entries(value, f"phases to their {name}"):
                        for key, each in self.read_entries(expected, "names to values"):
                            yield Expectation(name, to_plain(each), each.span, phase, key)
                case "artifacts":
                    yield from self.read_artifacts(value)
                case "prompts":
                    for address, texts in self.read_entries(value, "address patterns to expected prompt contents"):
                        yield from self.read_text_expectations("prompt", address, texts, PROMPT_KEYS)
                case "calls":
                    yield from self.read_calls(value)
                case "price" if isinstance(price := to_plain(value), int | float):
                    yield Expectation(name, price, value.span)

    def read_outcome(self, node: Node) -> Iterator[Expectation]:
        if isinstance(node, Scalar):
            status = self.read_key_value("outcome", OUTCOME_KEYS["status"], node)
            if status is not None:
                yield Expectation("outcome", status, node.span)
            return
        values = self.read(node, OUTCOME_KEYS)
        for name, kind in (("status", "outcome"), ("reason", "reason")):
            if name in values and isinstance(node, source.Mapping):
                yield Expectation(kind, values[name], node.value_span(name) or node.span)

    def read_artifacts(self, node: Node) -> Iterator[Expectation]:
        if isinstance(node, Sequence):
            for item in node.items:
                yield Expectation("artifact", True, item.span, self.read_sentence(item))
            return
        for name, value in self.read_entries(node, "artifacts to expected contents"):
            if isinstance(value, Scalar) and (value.value is None or isinstance(value.value, bool)):
                yield Expectation("artifact", value.value is not False, value.span, name)
            else:
                yield from self.read_text_expectations("artifact", name, value, TEXT_KEYS)

    def read_text_expectations(self, kind: str, subject: str, node: Node, keys: Keys) -> Iterator[Expectation]:
        """Yield the expectations about a text. A key with a list yields one expectation per item."""
        values = self.read(node, keys)
        for name, entry in source.entries_of(node).items():
            if name not in values:
                continue
            if name in ("equals", "at_most"):
                yield Expectation(kind, values[name], entry.value.span, subject, name)
                continue
            for item in entry.value.items if isinstance(entry.value, Sequence) else (entry.value,):
                wanted = self.read_sentence(item)
                if name == "matches" and (wrong := rejection_reason(wanted)):
                    self.report(item.span, "pattern", f"invalid pattern: {wrong}")
                elif not wanted:
                    self.report(item.span, "empty", f"`{name}` has an empty text", "write a text that is not empty")
                else:
                    yield Expectation(kind, wanted, item.span, subject, name)

    def read_calls(self, node: Node) -> Iterator[Expectation]:
        """Yield the expected numbers of calls. Each is an exact number, or a minimum and a maximum."""
        counts: Iterable[tuple[str, Node]] = [("*", node)]
        if isinstance(node, source.Mapping) and (not node.entries or node.entries.keys() - BOUND_KEYS.keys()):
            counts = self.read_entries(node, "address patterns to numbers of calls")
        for address, value in counts:
            if address in BOUND_KEYS:
                hint = f"for all calls, write `'*': {{{address}: …}}`"
                self.report(value.span, "calls", f"`{address}` cannot be combined with address patterns", hint)
            elif isinstance(value, source.Mapping):
                bounds = self.read(value, BOUND_KEYS)
                yield Expectation("calls", (bounds.get("at_least", 0), bounds.get("at_most")), value.span, address)
            elif (number := self.read_key_value("calls", Key("integer", "a number", least=0), value)) is not None:
                yield Expectation("calls", (number, number), value.span, address)

    def read_entries(self, node: Node, what: str) -> Iterator[tuple[str, Node]]:
        if isinstance(node, source.Mapping):
            yield from ((name, entry.value) for name, entry in node.entries.items())
        else:
            self.report_wrong_type(node, f"a mapping of {what}")
