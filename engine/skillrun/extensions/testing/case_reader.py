"""Finds case files, reads the cases in them, and reports problems at their positions.

`checking` checks the names in a case against the workflow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from skillrun.definitions.reader import Reader
from skillrun.definitions.verbs import Key, Keys
from skillrun.extensions.testing.cases import (
    BOUND_KEYS,
    CASE_KEYS,
    EXPECT_KEYS,
    OUTCOME_KEYS,
    PROMPT_KEYS,
    RUN_KEYS,
    TEXT_KEYS,
    Case,
    Expectation,
    RunSettings,
    ScriptedReply,
)
from skillrun.models.scripted import read_script
from skillrun.questions.prepared_answers import parse_prepared_answers
from skillrun.scoring.patterns import find_hits
from skillrun.syntax.diagnostics import ParsingStopped, Problems
from skillrun.syntax.document import parse_document
from skillrun.syntax.reading import read_source
from skillrun.syntax.source import Document, Mapping, Node, Scalar, Sequence, to_plain
from skillrun.syntax.yaml import parse_yaml
from skillrun.templates.expressions import Value

CASES_FOLDER: Final = "tests"
PATTERN_TIMEOUT: Final = 1.0  # seconds to search with one regular expression


class CaseFile(NamedTuple):
    """A case file, `tests/<workflow>/<name>.md`."""

    workflow: str
    name: str
    path: Path
    label: str

    def document(self, problems: Problems, project: Path) -> Document | None:
        """Return the parsed file; None if it cannot be read."""
        source = read_source(self.path, self.label, problems, boundary=project)
        try:
            return parse_document(source, problems) if source is not None else None
        except ParsingStopped:
            return None


def case_files(project: Path) -> Iterator[CaseFile]:
    """Yield the markdown files in the subfolders of `tests/`, sorted. READMEs and hidden files are left out."""
    for path in sorted((project / CASES_FOLDER).glob("[!.]*/[!.]*.md")):
        if path.name != "README.md":
            yield CaseFile(path.parent.name, path.stem, path, path.relative_to(project).as_posix())


def is_case_file(path: Path) -> bool:
    """Whether a path, relative to the project, is the path of a case file."""
    match path.parts:
        case (top, folder, name):
            hidden = folder.startswith(".") or name.startswith(".")
            return top == CASES_FOLDER and not hidden and path.suffix == ".md" and name != "README.md"
    return False


def looks_like_case(document: Document | None) -> bool:
    """Whether a markdown file has keys of a case. Used for folders that are not named after a workflow."""
    return document is not None and any(name in document.frontmatter.entries for name in ("expect", "replies"))


def read_case(file: CaseFile, document: Document, problems: Problems, project: Path) -> Case | None:
    """Return the case in a file; None if errors stop the parsing."""
    reader = CaseReader(problems, literal=True)
    try:
        return reader.read_case(file, document, project)
    except ParsingStopped:
        return None


class CaseReader(Reader):
    """Reads the parts of a case; invalid parts are reported at their positions and omitted."""

    def read_case(self, file: CaseFile, document: Document, project: Path) -> Case:
        front = document.frontmatter
        values = self.read(front, CASE_KEYS)
        if not front.entries:
            self.report(front.span, "frontmatter", "this case is empty", "begin with `---`, `expect:`, `---`")
        answers, replies, expect = (front.get(name) for name in ("answers", "replies", "expect"))
        if isinstance(inputs := front.get("inputs"), Scalar | Sequence) and to_plain(inputs) is not None:
            self.report_wrong_type(inputs, "a mapping of inputs to values")
        return Case(
            file.name,
            file.workflow,
            front,
            document.body.value.strip(),
            parse_prepared_answers(answers, self.problems) if answers is not None else {},
            tuple(self.read_replies(replies, file, project)) if replies is not None else (),
            values.get("model", ""),
            values.get("project", ""),
            values.get("runs", ""),
            values.get("prompts", ""),
            RunSettings(**self.read(run, RUN_KEYS)) if (run := front.get("run")) is not None else RunSettings(),
            tuple(self.read_expectations(expect)) if expect is not None else (),
        )

    def read_key_value(self, name: str, key: Key, node: Node) -> Any:
        value = super().read_key_value(name, key, node)
        return value.literal if isinstance(value, Value) else value

    def read_replies(self, node: Node, file: CaseFile, project: Path) -> Iterable[ScriptedReply]:
        """Yield the replies written in the case, or the replies in the script files that the case names.

        The names are relative to the folder of the case.
        """
        names = node.items if isinstance(node, Sequence) else (node,)
        if names and all(isinstance(name, Scalar) and isinstance(name.value, str) for name in names):
            read = [self.read_script_file(name, file, project) for name in names if isinstance(name, Scalar)]
            scripts = [script for script in read if script is not None]
        else:
            scripts = [node]
        for script in scripts:
            rules = read_script(script, self.problems)
            items = script.items if isinstance(script, Sequence) else ()
            yield from map(ScriptedReply, rules, [item.span for item in items if isinstance(item, Mapping)])

    def read_script_file(self, node: Scalar, file: CaseFile, project: Path) -> Node | None:
        """Return the content of a script file. Problems in reading it are reported where the case names the file."""
        path, script_problems = file.path.parent / str(node.value), Problems()
        label = Path(os.path.relpath(path, project)).as_posix()
        source = read_source(path, label, script_problems, boundary=project)
        for problem in script_problems:
            self.report(node.span, problem.code, f"{node.value}: {problem.message}", problem.hint)
        return parse_yaml(source, 0, len(source.text), self.problems) if source is not None else None

    def read_expectations(self, node: Node) -> Iterator[Expectation]:
        self.read(node, EXPECT_KEYS)
        for name, entry in node.entries.items() if isinstance(node, Mapping) else ():
            if name in _EXPECTATION_READERS:
                yield from _EXPECTATION_READERS[name](self, entry.value)

    def read_outcome(self, node: Node) -> Iterator[Expectation]:
        if isinstance(node, Scalar):
            status = self.read_key_value("outcome", OUTCOME_KEYS["status"], node)
            if status is not None:
                yield Expectation("outcome", status, node.span)
            return
        values = self.read(node, OUTCOME_KEYS)
        for name, kind in (("status", "outcome"), ("reason", "reason")):
            if name in values:
                yield Expectation(kind, values[name], _span_of(node, name))

    def read_path(self, node: Node) -> Iterator[Expectation]:
        items = self.read_items(node, "phases", "write `[first, second]`")
        names = tuple(self.read_sentence(item) for item in items)
        if items or isinstance(node, Sequence):
            yield Expectation("path", names, node.span)

    def read_phase_values(self, kind: str) -> Callable[[Node], Iterator[Expectation]]:
        def read(node: Node) -> Iterator[Expectation]:
            for phase, entry in self.read_entries(node, f"phases to their {kind}"):
                for name, value in self.read_entries(entry, "names to values"):
                    yield Expectation(kind, to_plain(value), value.span, phase, name)

        return read

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

    def read_prompts(self, node: Node) -> Iterator[Expectation]:
        for address, value in self.read_entries(node, "address patterns to expected prompt contents"):
            yield from self.read_text_expectations("prompt", address, value, PROMPT_KEYS)

    def read_text_expectations(self, kind: str, subject: str, node: Node, keys: Keys) -> Iterator[Expectation]:
        """Yield the expectations about a text. A key with a list has one expectation for each item."""
        values = self.read(node, keys)
        for name, entry in node.entries.items() if isinstance(node, Mapping) else ():
            if name not in values:
                continue
            if name in ("equals", "at_most"):
                yield Expectation(kind, values[name], entry.value.span, subject, name)
                continue
            for item in entry.value.items if isinstance(entry.value, Sequence) else (entry.value,):
                wanted = self.read_sentence(item)
                if name == "matches" and (wrong := _pattern_error(wanted)):
                    self.report(item.span, "pattern", f"invalid pattern: {wrong}")
                elif not wanted:
                    self.report(item.span, "empty", f"`{name}` has an empty text", "write a text that is not empty")
                else:
                    yield Expectation(kind, wanted, item.span, subject, name)

    def read_calls(self, node: Node) -> Iterator[Expectation]:
        if not isinstance(node, Mapping) or (node.entries and node.entries.keys() <= BOUND_KEYS.keys()):
            yield from self.read_call_count("*", node)
            return
        for address, value in self.read_entries(node, "address patterns to numbers of calls"):
            if address in BOUND_KEYS:
                hint = f"for all calls, write `'*': {{{address}: …}}`"
                self.report(value.span, "calls", f"`{address}` cannot be combined with address patterns", hint)
            else:
                yield from self.read_call_count(address, value)

    def read_call_count(self, address: str, node: Node) -> Iterator[Expectation]:
        """Yield the expectation about the number of calls: an exact number, or bounds."""
        if isinstance(node, Mapping):
            values = self.read(node, BOUND_KEYS)
            yield Expectation("calls", (values.get("at_least", 0), values.get("at_most")), node.span, address)
        elif (number := self.read_key_value("calls", Key("integer", "a number", least=0), node)) is not None:
            yield Expectation("calls", (number, number), node.span, address)

    def read_price(self, node: Node) -> Iterator[Expectation]:
        value = to_plain(node)
        if isinstance(value, int | float):
            yield Expectation("price", value, node.span)

    def read_entries(self, node: Node, what: str) -> Iterator[tuple[str, Node]]:
        if isinstance(node, Mapping):
            yield from ((name, entry.value) for name, entry in node.entries.items())
        else:
            self.report_wrong_type(node, f"a mapping of {what}")


_EXPECTATION_READERS: Final[dict[str, Callable[[CaseReader, Node], Iterator[Expectation]]]] = {
    "outcome": CaseReader.read_outcome,
    "path": CaseReader.read_path,
    "outputs": lambda reader, node: reader.read_phase_values("outputs")(node),
    "flags": lambda reader, node: reader.read_phase_values("flags")(node),
    "artifacts": CaseReader.read_artifacts,
    "prompts": CaseReader.read_prompts,
    "calls": CaseReader.read_calls,
    "price": CaseReader.read_price,
}


def _span_of(node: Node, name: str) -> Any:
    value = node.get(name) if isinstance(node, Mapping) else None
    return value.span if value is not None else node.span


def _pattern_error(pattern: str) -> str:
    """Return why a regular expression is invalid; empty if it is valid."""
    try:
        find_hits(pattern, "", PATTERN_TIMEOUT)
    except ValueError as error:
        return str(error)
    return ""
