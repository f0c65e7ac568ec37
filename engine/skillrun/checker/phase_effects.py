"""Collects the variables, names, artifacts and record fields that phases read or write.

Reports conflicts between phases that may run in any order. Warns of record fields that no template reads, because they
are not requested from models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import combinations, permutations
from posixpath import normpath, splitext
from typing import Final

from jinja2 import nodes

from skillrun.definitions.definitions import Step, Workflow
from skillrun.definitions.verbs import RECORD_KEYS
from skillrun.library.library import Library
from skillrun.syntax.diagnostics import Problems
from skillrun.templates.expressions import Value
from skillrun.types.types import identifier

RECORD_FIELD: Final = "record"  # the field of a step's result that holds the record
RecordReads = Mapping[str, AbstractSet[str]]
"""The record fields that are read, keyed by `step_key`; `*` stands for all fields."""


@dataclass(frozen=True)
class PhaseEffects:
    """The variables that a phase sets, the names that it reads and the artifacts that it writes.

    `certain_writes` are the artifacts that the phase always writes. `steps` are all of its steps, and those of the
    protocols and workflows that it calls.
    """

    sets: Mapping[str, Value]
    reads: frozenset[str]
    writes: Mapping[str, Step]
    certain_writes: frozenset[str]
    steps: tuple[Step, ...] = ()


def check_parallel(workflow: Workflow, effects: Mapping[str, PhaseEffects], problems: Problems) -> None:
    """Report conflicts between two phases that may run in any order.

    Two phases conflict if both set the same variable, one sets a variable that the other reads, both write the same
    file, or one writes a file that the other reads. A part of a path that only a run knows may be any name.
    """
    state = {identifier(variable.name) for variable in workflow.state}
    writes = {name: list(_write_patterns(name, each.steps)) for name, each in effects.items()}
    reads = {name: list(_read_patterns(each.steps)) for name, each in effects.items()}

    def report(value: Value | Step, first: str, second: str, what: str) -> None:
        message = f"{what}, and neither follows the other"
        problems.report(value.span, "unordered", message, f"add `after: [{first}]` to `{second}`")

    for first, second in combinations(effects, 2):
        if first in workflow.ancestors(second) or second in workflow.ancestors(first):
            continue
        first_effects, other = effects[first], effects[second]
        for name in first_effects.sets.keys() & other.sets.keys() & state:
            report(other.sets[name], first, second, f"`{first}` and `{second}` both set `state.{name}`")
        both = {path for _, path in _artifact_patterns(first_effects.steps)}
        for path, step in {path: step for step, path in _artifact_patterns(other.steps) if path in both}.items():
            report(step, first, second, f"`{first}` and `{second}` both write `{path}`")
        for setter, reader in permutations((first, second)):
            for name in (effects[setter].sets.keys() & state) - effects[reader].sets.keys():
                if f"state.{name}" in effects[reader].reads:
                    what = f"`{setter}` sets `state.{name}`, which `{reader}` reads"
                    report(effects[setter].sets[name], setter, reader, what)
        for writer, reader in permutations((first, second)):
            own = effects[reader].writes
            written = [path for path in writes[writer] if path not in own] if reads[reader] else []
            for step, pattern in reads[reader]:
                for path in [path for path in written if _may_match(path, pattern)][:1]:
                    report(step, writer, reader, f"`{reader}` reads `{path}`, which `{writer}` writes")


def _artifact_patterns(steps: Iterable[Step]) -> Iterator[tuple[Step, str]]:
    """Yield each step that writes an artifact of a known name, with this name."""
    for step in steps:
        if "*" not in (path := _path_pattern(step.artifact)) and path:
            yield step, path


def _write_patterns(phase: str, steps: Iterable[Step]) -> Iterator[str]:
    """Yield the patterns of the files that a phase writes: its summary, artifacts and forms."""
    yield f"summaries/{phase}.md"
    for step in steps:
        for value in (step.artifact, step.values.get("form")):
            if pattern := _path_pattern(value):
                yield pattern


def _read_patterns(steps: Iterable[Step]) -> Iterator[tuple[Step, str]]:
    """Yield each step that reads files of the run or waits for them, with the pattern of these files."""
    for step in steps:
        value = step.main if step.verb == "read" and "from" not in step.values else step.values.get("files")
        if pattern := _path_pattern(value):
            yield step, pattern


def _path_pattern(value: Value | None) -> str:
    """Return a path, with `*` for what only a run knows. "" if at most the folder or the suffix is known."""
    if value is None or value.template is None:
        return ""
    if isinstance(value.literal, str):
        return normpath(value.literal)
    outputs = [part for node in value.template.tree.body for part in getattr(node, "nodes", [node])]
    pattern = normpath("".join(part.data if isinstance(part, nodes.TemplateData) else "*" for part in outputs))
    return pattern if splitext(pattern.rpartition("/")[2])[0].strip("*") else ""


def _may_match(path: str, pattern: str) -> bool:
    """Whether two patterns may name the same file. A `*` stands for no `/`."""
    if "*" not in path + pattern:
        return path == pattern
    parts, others = path.split("/"), pattern.split("/")
    pairs = zip(parts, others, strict=False)
    return len(parts) == len(others) and all(fnmatchcase(*pair) or fnmatchcase(*pair[::-1]) for pair in pairs)


def artifacts(
    steps: tuple[Step, ...], skipping: frozenset[str], *, certain: bool = True
) -> Iterator[tuple[Step, bool]]:
    """Yield each step that writes an artifact, and whether the artifact is always written.

    `skipping` has the names of all breakers that skip after failures. Steps of called protocols and workflows are left
    out.
    """
    for step in steps:
        is_always_written = certain and step.when is None and step.otherwise is None and step.retry not in skipping
        if step.artifact is not None:
            yield step, is_always_written
        yield from artifacts(step.steps, skipping, certain=is_always_written)
        if step.otherwise is not None:
            yield from artifacts((step.otherwise,), skipping, certain=False)


def step_key(step: Step) -> str:
    """Return the key of a step in `RecordReads`."""
    return f"{step.span.source.label}#{step.id}"


def collect_record_reads(files: Iterable[tuple[Iterable[Step], AbstractSet[str]]]) -> RecordReads:
    """Return the record fields that are read.

    `files` has the steps of each file, and the names that the file reads. Replies are passed between files. So a field
    that is read from another value than a step of the file, such as a list item, counts as read for every step.
    """
    own_fields: dict[str, set[str]] = {}
    shared_fields: set[str] = set()
    for steps, reads in files:
        recording = {identifier(step.id): step for step in steps if step.record and step.id}
        for name, step in recording.items():
            own_fields[step_key(step)] = {"*"} if f"{name}.*" in reads else set()
        for name, first, *rest in (path.split(".", 2) for path in reads if "." in path):
            if first == RECORD_FIELD:
                fields = own_fields[step_key(recording[name])] if name in recording else shared_fields
                fields.add(rest[0] if rest else "*")
    return {key: fields | shared_fields for key, fields in own_fields.items()}


def is_read(name: str, fields: AbstractSet[str]) -> bool:
    return "*" in fields or identifier(name) in fields


def warn_about_unread_fields(
    steps: Iterable[Step], record_reads: RecordReads, library: Library, problems: Problems
) -> None:
    """Warn of record fields that are never read and are not part of the phase's summary."""
    for step in steps:
        for part in step.record:
            shape = library.record_shape(part)
            properties = (shape.static_schema if shape is not None else {}).get("properties", {})
            read = record_reads[step_key(step)]
            others = [name for name in properties if name not in RECORD_KEYS and not is_read(name, read)]
            if others:
                message = f"`{step.id}.{RECORD_FIELD}.{identifier(others[0])}` is never read, so it is not requested"
                hint = f"read {', '.join(f'`{name}`' for name in others)}, or remove it"
                problems.report(part.span, "unread-record", message, hint, "warning")
