"""What a check sees of names, for whoever shows files to their author: which place means what, what is known where.

Filled in by the lookups and the checks while they resolve names; decides nothing, and a check without it is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from skillrun.language.text.source import Source, Span
from skillrun.language.types.types import Type, identifier


class Thing(NamedTuple):
    """What a name can mean: its kind, the path of the file that has it below the library, and its name there.

    Names of what expressions can read are as expressions write them; those of config are paths, such as `breakers.judges`.
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
class View:
    """What is known in a stretch of a file: a template, or a step with what stands in it.

    `step` is the id of the step, `home` the file whose steps these are, `owner` the one whose inputs and state are read,
    `config` the name of the config.
    """

    source: Source
    start: int
    end: int
    names: Mapping[str, Type]
    step: str | None = None
    home: str = ""
    owner: str = ""
    config: str = ""


@dataclass
class Sightings:
    """What one check has seen, by file; `indexed` are things whose parts are read by names that only the run knows.

    Such a thing has the name of a part that is empty.
    """

    mentions: dict[Source, dict[Mention, None]] = field(default_factory=lambda: defaultdict(dict))
    views: dict[Source, list[View]] = field(default_factory=lambda: defaultdict(list))
    indexed: set[Thing] = field(default_factory=set)

    def mention(self, span: Span, name: str, thing: Thing) -> None:
        """Note that a name stands at a place, perhaps in quotes; where something else stands there, nothing is noted."""
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
