"""What is known of a project's names: the last good reading of each file, what each place means, what is known where.

Grows with each check. A file that is broken keeps what was known of it before, so that there is something to go by
while it is written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skillrun.definitions.definitions import Workflow
from skillrun.library.library import Library
from skillrun.library.symbols import Mention, Sightings, Thing, View
from skillrun.syntax.source import Mapping as Node
from skillrun.syntax.source import Source, Span


class Stretch(NamedTuple):
    """A stretch of a file, by offsets in its text as it was checked last."""

    path: Path
    start: int
    end: int


@dataclass(frozen=True)
class Sighted:
    """What the last check that could read a file has seen in it."""

    source: Source
    mentions: tuple[Mention, ...]
    views: tuple[View, ...]

    def named(self, offset: int) -> Iterator[Mention]:
        """What the place names, from its first character up to behind its last."""
        for mention in self.mentions:
            if mention.span.offset <= offset <= mention.span.offset + mention.length:
                yield mention

    def view(self, offset: int, step: str = "") -> View | None:
        """What is known at an offset: in the smallest template around it, or else the step or the nearest above."""
        holding = [view for view in self.views if view.start <= offset <= view.end and view.start < view.end]
        if holding:
            return min(holding, key=lambda view: view.end - view.start)
        if step:
            return next((view for view in reversed(self.views) if view.step == step), None)
        place = bisect_right(self.views, offset, key=lambda view: view.start)
        return self.views[place - 1] if place else next(iter(self.views), None)


@dataclass
class Knowledge:
    """The library as it is now, and what checks have seen; `take` gives it what came of the newest check."""

    library: Library
    files: dict[Path, Sighted] = field(default_factory=dict)
    workflows: dict[str, Workflow] = field(default_factory=dict)
    fronts: dict[str, Node] = field(default_factory=dict)
    indexed: frozenset[Thing] = frozenset()
    _named: tuple[Mapping[Path, Sighted], dict[Thing, list[Mention]]] = ({}, {})  # of which files, and where

    def take(self, sightings: Iterable[Sightings]) -> None:
        """Take over what a check has seen; what it has not seen of a file stays as it was.

        May be called in another thread: who asks at that time is told what was known before.
        """
        several = list(sightings)
        mentions: dict[Source, dict[Mention, None]] = defaultdict(dict)
        views: dict[Source, list[View]] = defaultdict(list)
        for seen in several:
            for source, places in seen.mentions.items():
                mentions[source].update(places)
            for source, known in seen.views.items():
                views[source] += known
        files = dict(self.files)
        for source in {*mentions, *views}:
            files[source.path] = Sighted(
                source,
                tuple(sorted(mentions[source], key=lambda mention: mention.span.offset)),
                tuple(sorted(views[source], key=lambda view: view.start)),
            )
        self.indexed = frozenset(thing for seen in several for thing in seen.indexed)
        self.files = files

    def sighted(self, path: Path) -> Sighted | None:
        """What has been seen of a file."""
        return self.files.get(path)

    def mentions(self, thing: Thing) -> list[Mention]:
        """Every place that names a thing."""
        files, by_thing = self._named
        if files is not self.files:
            files, by_thing = self.files, defaultdict(list)
            for file in files.values():
                for mention in file.mentions:
                    by_thing[mention.thing].append(mention)
            self._named = files, by_thing
        return by_thing.get(thing, [])

    def front(self, home: str) -> Node | None:
        """The frontmatter of a file of the library that counts, or what a config file of the strongest root holds."""
        library = self.library
        found: Node | None = None
        folder, _, name = home.partition("/")
        stem = name.rpartition(".")[0]
        if library.locate(home) is not None:
            match folder:
                case "workflows":
                    workflow = library.workflow(stem)
                    found = workflow.document.front if workflow is not None else None
                case "roles":
                    role = library.role(stem)
                    found = role.document.front if role is not None else None
                case "skills":
                    document = library.skill(stem)
                    found = document.front if document is not None else None
                case "config":
                    config = library.config(stem)
                    found = config.layers[0] if config is not None else None
        if found is not None:
            self.fronts[home] = found
        return self.fronts.get(home)

    def layers(self, name: str) -> tuple[Node, ...]:
        """The files of a config, the strongest first."""
        config = self.library.config(name)
        return config.layers if config is not None else ()

    def workflow(self, name: str) -> Workflow | None:
        """A workflow, as it is or as it was when it could be read."""
        workflow = self.library.workflow(name) if self.library.locate(f"workflows/{name}.md") is not None else None
        if workflow is not None:
            self.workflows[name] = workflow
        return self.workflows.get(name)

    def whole_file(self, home: str) -> Span | None:
        """The beginning of a file of the library that counts."""
        place = self.library.locate(home)
        if place is None:
            return None
        root, path = place
        file = self.library.read.get(path)
        if file is not None and file.source is not None:
            return Span(file.source, 0)
        return Span(Source(path, root.label + home, ""), 0)


def moved(before: str, now: str, offset: int) -> int:
    """Where in an earlier text the place is that an offset of the text as it is now has; the edit counts as one."""
    if before == now:
        return offset
    start = _same(before, now)
    if offset <= start:
        return offset
    behind = min(len(before), len(now)) - start
    end = _same(before[len(before) - behind :][::-1], now[len(now) - behind :][::-1])
    return len(before) - (len(now) - offset) if offset >= len(now) - end else start


def _same(text: str, other: str) -> int:
    """How many characters two texts begin with that are the same."""
    least, most = 0, min(len(text), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if text[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
