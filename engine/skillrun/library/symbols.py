"""What a check sees of names, for whoever shows files to their author: which place means what, what is known where.

Filled in by the lookups and the checks while they resolve names; decides nothing, and a check without it is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from skillrun.definitions.verbs import RESERVED
from skillrun.syntax.source import Source, Span
from skillrun.types.types import Path, Type, identifier


class Symbol(NamedTuple):
    """What a name can mean: its kind, the path of the file that has it below the library, and its name there.

    Names of what expressions can read are as expressions write them; those of config are paths: `breakers.judges`.
    """

    kind: str
    path: str
    name: str


class SymbolReference(NamedTuple):
    """A place that names a thing: so many characters from there on."""

    span: Span
    length: int
    symbol: Symbol


@dataclass(frozen=True)
class ScopeOwners:
    """Which files the names at a place belong to.

    `steps` is the file whose steps stand here, `owner` the one whose inputs and state are read, `config` the name of
    the config; `givers` are the files whose outputs a step's fields, or those of a phase (`phases.<name>`), are.
    """

    steps: str = ""
    owner: str = ""
    config: str = ""
    output_files: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def resolve_symbols(self, key: str, label: Path | None, local: Collection[str]) -> Iterator[Symbol]:
        """What a name means, or the field of the record with a label: one thing, or as many as may give it.

        `local` are the names that steps bind.
        """
        name = identifier(key)
        match label:
            case None if name not in RESERVED:
                yield Symbol("local", self.steps, name)
            case ("inputs",) | ("state",):
                yield Symbol(label[0].removesuffix("s"), self.owner, name)
            case ("seats",):
                yield Symbol("seat", self.owner, name)
            case ("features",):
                yield Symbol("key", f"config/{self.config}.yaml", f"features.{name}")
            case ("config", *path):
                yield Symbol("key", f"config/{self.config}.yaml", ".".join(map(identifier, (*path, name))))
            case ("phases",) | ("past", "phases"):
                yield Symbol("phase", self.owner, name)
            case ("phases", phase, "outputs" | "artifacts" as part):
                kind = part.removesuffix("s")
                yield from (Symbol(kind, home, name) for home in self.output_files.get(f"phases.{phase}", ()))
            case (step,) if step in self.output_files:
                yield from (Symbol("output", home, name) for home in self.output_files[step])
            case ("pass", "previous") | (_, "done" | "failed") if name in local:
                yield Symbol("local", self.steps, name)
            case (step, "data" | "record", *path):
                yield Symbol("field", self.steps, ".".join(map(identifier, (step, *path, name))))


@dataclass(frozen=True)
class ScopeRange:
    """What is known in a stretch of a file: a template, or a step with what stands in it.

    `homes` are the files whose names are read, `step` is the id of the step.
    """

    source: Source
    start: int
    end: int
    names: Mapping[str, Type]
    owners: ScopeOwners
    step: str | None = None


@dataclass
class SymbolTable:
    """What one check has seen, by file; `indexed` are things whose parts are read by names that only the run knows.

    Such a thing has the name of a part that is empty.
    """

    references: dict[Source, dict[SymbolReference, None]] = field(default_factory=lambda: defaultdict(dict))
    scopes: dict[Source, list[ScopeRange]] = field(default_factory=lambda: defaultdict(list))
    indexed: set[Symbol] = field(default_factory=set)

    def add_reference(self, span: Span, name: str, symbol: Symbol) -> None:
        """Note that a name stands at a place, perhaps in quotes; where something else stands there, note nothing."""
        text, start = span.source.text, span.offset
        start += text[start : start + 1] in ("'", '"')
        for spelling in (name, identifier(name)):
            if spelling and text.startswith(spelling, start):
                reference = SymbolReference(Span(span.source, start), len(spelling), symbol)
                self.references[span.source][reference] = None
                return

    def add_scope(self, scope: ScopeRange) -> None:
        self.scopes[scope.source].append(scope)


def library_path(source: Source) -> str:
    """The path of a file below the folder of the library that it is in."""
    return source.label.removeprefix("skillrun:").removeprefix("~config/")
