"""Where the things that names mean are declared: in the frontmatter of their files, or as whole files.

Reads nodes that are parsed already; what names a thing is what the checker has noted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from skillrun.extensions.lsp.symbol_index import Knowledge, Stretch
from skillrun.library.symbols import Mention, Thing
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Span
from skillrun.types.types import identifier

FILES: Final = ("role", "protocol", "workflow", "file", "skill", "config")
"""Kinds of things that are whole files."""
_NOTATION: Final = re.compile(r"[?(].*", re.DOTALL)


def declarations(front: Node, home: str) -> Iterator[Mention]:
    """Every thing that a file declares, where its name stands."""
    if not isinstance(front, Mapping):
        return
    folder = home.partition("/")[0]
    if folder == "config":
        yield from _keys(front, home, ())
        return
    for kind, part in (("input", "inputs"), ("state", "state"), ("output", "outputs"), ("phase", "phases")):
        if folder in ("workflows", "skills"):
            yield from _entries(front.get(part), home, kind)
    if folder == "roles":
        yield from _entries(front.get("variants"), home, "variant", identifiers=False)
    seats = front.get("seats")
    for seat in seats.items if isinstance(seats, Sequence) else ():
        yield from _named(seat, Thing("seat", home, str(getattr(seat, "value", ""))))
    yield from _steps(front.get("steps"), home)


def _entries(node: Node | None, home: str, kind: str, *, identifiers: bool = True) -> Iterator[Mention]:
    for key, entry in node.entries.items() if isinstance(node, Mapping) else ():
        name = _NOTATION.sub("", key)
        yield from _named(entry.key, Thing(kind, home, identifier(name) if identifiers else name), len(name))


def _named(node: Node, thing: Thing, length: int | None = None) -> Iterator[Mention]:
    if isinstance(node, Scalar) and node.text is not None:
        yield Mention(node.text.at(0), len(node.text.value) if length is None else length, thing)


def _keys(node: Mapping, home: str, path: tuple[str, ...]) -> Iterator[Mention]:
    for key, entry in node.entries.items():
        inner = (*path, identifier(key))
        yield from _named(entry.key, Thing("key", home, ".".join(inner)))
        if isinstance(entry.value, Mapping):
            yield from _keys(entry.value, home, inner)


def _steps(node: Node | None, home: str) -> Iterator[Mention]:
    for step in node.items if isinstance(node, Sequence) else ():
        yield from _step(step, home)


def _step(step: Node, home: str) -> Iterator[Mention]:
    if not isinstance(step, Mapping):
        return
    id_ = step.get("id")
    name = identifier(str(getattr(id_, "value", "")))
    if id_ is not None:
        yield from _named(id_, Thing("local", home, name))
    yield from _entries(step.get("set"), home, "local")
    if "each" in step.entries and (item := step.get("as")) is not None:
        yield from _named(item, Thing("local", home, identifier(str(getattr(item, "value", "")))))
    for part in ("output", "shape", "record"):
        yield from _fields(step.get(part), home, name)
    for part in ("write", "writes"):
        artifact = step.get(part)
        if isinstance(artifact, Scalar):
            yield from _named(artifact, Thing("artifact", home, identifier(str(artifact.value))))
    for part in ("repeat", "steps"):
        yield from _steps(step.get(part), home)
    other = step.get("otherwise")
    if other is not None:
        yield from _step(other, home)


def _fields(node: Node | None, home: str, path: str) -> Iterator[Mention]:
    """The fields of a shape, as expressions go through them."""
    for key, entry in node.entries.items() if isinstance(node, Mapping) else ():
        written, _, form = key.partition("(")
        name = written.removesuffix("?")
        inner = f"{path}.{identifier(name)}"
        yield from _named(entry.key, Thing("field", home, inner), len(name))
        yield from _fields(entry.value, home, f"{inner}.[]" if form.startswith("array") else inner)


def declared_in(knowledge: Knowledge, home: str) -> list[Mention]:
    """What a file of the library declares; of a config, each of its files."""
    fronts: list[Node] = []
    if home.startswith("config/"):
        fronts += knowledge.layers(home.removeprefix("config/").removesuffix(".yaml"))
    elif (front := knowledge.front(home)) is not None:
        fronts.append(front)
    return [mention for front in fronts for mention in declarations(front, home)]


def places_of(knowledge: Knowledge, thing: Thing) -> list[Stretch]:
    """Where a thing is declared: the strongest file first; nothing where it is not."""
    if thing.kind in FILES:
        span = knowledge.whole_file(thing.home)
        return [Stretch(span.source.path, 0, 0)] if span is not None else []
    places = [stretch_of(mention) for mention in declared_in(knowledge, thing.home) if mention.thing == thing]
    if not places and thing.kind == "field":
        return places_of(knowledge, Thing("local", thing.home, thing.name.partition(".")[0]))
    return places


def stretch_of(mention: Mention) -> Stretch:
    """The stretch of the file that names the thing."""
    span: Span = mention.span
    return Stretch(span.source.path, span.offset, span.offset + mention.length)
