"""The symbol table of a check, for editors: references to symbols, and the names known in each range.

Filled in by lookups and checks while they resolve names; does not affect their results.
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
    """A named item: its kind, the library path of the file that defines it, and its name in that file.

    A name that expressions can read is spelled as in expressions. The name of a config key is its path, such as
    `breakers.judges`.
    """

    kind: str
    path: str
    name: str


class SymbolReference(NamedTuple):
    """A reference to a symbol: `length` characters at a position."""

    span: Span
    length: int
    symbol: Symbol

    @property
    def text(self) -> str:
        """The characters of the reference in the file."""
        return self.span.source.text[self.span.offset : self.span.offset + self.length]


@dataclass(frozen=True)
class ScopeOwners:
    """The files that own the names in a scope.

    `steps` is the file with the steps, `owner` the file that declares the inputs and state, and `config` the name of
    the config. `output_files` has the files that define the outputs of a step or of a phase (`phases.<name>`).
    """

    steps: str = ""
    owner: str = ""
    config: str = ""
    output_files: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def resolve_symbols(self, key: str, label: Path | None, local: Collection[str]) -> Iterator[Symbol]:
        """Yield the symbols that a name or a field can refer to.

        Without a label, `key` is a name; with a label, it is a field of the record with this label. `local` has the
        names that steps bind.
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
    """The names known in a range of a file: a template, or a step with its content.

    `owners` are the files that own the names; `step` is the id of the step.
    """

    start: int
    end: int
    names: Mapping[str, Type]
    owners: ScopeOwners
    step: str | None = None


@dataclass
class SymbolTable:
    """The references and scopes of one check, by file.

    `indexed` has the symbols with a field that is read by a computed name. The name of such a symbol ends with
    an empty part.
    """

    references: dict[Source, dict[SymbolReference, None]] = field(default_factory=lambda: defaultdict(dict))
    scopes: dict[Source, list[ScopeRange]] = field(default_factory=lambda: defaultdict(list))
    indexed: set[Symbol] = field(default_factory=set)

    def add_reference(self, span: Span, name: str, symbol: Symbol) -> None:
        """Record a reference if the text at `span` is `name`, with or without quotes."""
        text, start = span.source.text, span.offset
        start += text[start : start + 1] in ("'", '"')
        for spelling in (name, identifier(name)):
            if spelling and text.startswith(spelling, start):
                reference = SymbolReference(Span(span.source, start), len(spelling), symbol)
                self.references[span.source][reference] = None
                return


def library_path(source: Source) -> str:
    """Return the path of a file relative to its library folder."""
    return source.label.removeprefix("skillrun:").removeprefix("~config/")
