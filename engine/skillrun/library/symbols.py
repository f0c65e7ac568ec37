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


class Thing(NamedTuple):
    """What a name can mean: its kind, the path of the file that has it below the library, and its name there.

    Names of what expressions can read are as expressions write them; those of config are paths: `breakers.judges`.
    """

    kind: str
    home: str
    name: str


class Mention(NamedTuple):
    """A place that names a thing: so many characters from there on."""

    span: Span
    length: int
    thing: Thing


@dataclass(frozen=True)
class Homes:
    """Which files the names at a place belong to.

    `steps` is the file whose steps stand here, `owner` the one whose inputs and state are read, `config` the name of
    the config; `givers` are the files whose outputs a step's fields, or those of a phase (`phases.<name>`), are.
    """

    steps: str = ""
    owner: str = ""
    config: str = ""
    givers: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def meant(self, key: str, label: Path | None, local: Collection[str]) -> Iterator[Thing]:
        """What a name means, or the field of the record with a label: one thing, or as many as may give it.

        `local` are the names that steps bind.
        """
        name = identifier(key)
        match label:
            case None if name not in RESERVED:
                yield Thing("local", self.steps, name)
            case ("inputs",) | ("state",):
                yield Thing(label[0].removesuffix("s"), self.owner, name)
            case ("seats",):
                yield Thing("seat", self.owner, name)
            case ("features",):
                yield Thing("key", f"config/{self.config}.yaml", f"features.{name}")
            case ("config", *path):
                yield Thing("key", f"config/{self.config}.yaml", ".".join(map(identifier, (*path, name))))
            case ("phases",) | ("past", "phases"):
                yield Thing("phase", self.owner, name)
            case ("phases", phase, "outputs" | "artifacts" as part):
                kind = part.removesuffix("s")
                yield from (Thing(kind, home, name) for home in self.givers.get(f"phases.{phase}", ()))
            case (step,) if step in self.givers:
                yield from (Thing("output", home, name) for home in self.givers[step])
            case ("pass", "previous") | (_, "done" | "failed") if name in local:
                yield Thing("local", self.steps, name)
            case (step, "data" | "record", *path):
                yield Thing("field", self.steps, ".".join(map(identifier, (step, *path, name))))


@dataclass(frozen=True)
class View:
    """What is known in a stretch of a file: a template, or a step with what stands in it.

    `homes` are the files whose names are read, `step` is the id of the step.
    """

    source: Source
    start: int
    end: int
    names: Mapping[str, Type]
    homes: Homes
    step: str | None = None


@dataclass
class Sightings:
    """What one check has seen, by file; `indexed` are things whose parts are read by names that only the run knows.

    Such a thing has the name of a part that is empty.
    """

    mentions: dict[Source, dict[Mention, None]] = field(default_factory=lambda: defaultdict(dict))
    views: dict[Source, list[View]] = field(default_factory=lambda: defaultdict(list))
    indexed: set[Thing] = field(default_factory=set)

    def mention(self, span: Span, name: str, thing: Thing) -> None:
        """Note that a name stands at a place, perhaps in quotes; where something else stands there, note nothing."""
        text, start = span.source.text, span.offset
        start += text[start : start + 1] in ("'", '"')
        for written in (name, identifier(name)):
            if written and text.startswith(written, start):
                place = Mention(Span(span.source, start), len(written), thing)
                self.mentions[span.source][place] = None
                return

    def view(self, view: View) -> None:
        self.views[view.source].append(view)


def home_of(source: Source) -> str:
    """The path of a file below the folder of the library that it is in."""
    return source.label.removeprefix("skillrun:").removeprefix("~config/")
