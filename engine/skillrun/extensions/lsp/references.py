"""From a name to what it means, and to every place that names the same: across all files of a project.

Goes by what the checker has noted; cases are looked through here, as the checker knows none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skillrun.extensions.lsp.declarations import declared_in, places_of, stretch_of
from skillrun.extensions.lsp.symbol_index import Knowledge, Stretch, moved
from skillrun.extensions.testing.case_reader import CaseFile, case_files
from skillrun.library.symbols import Mention, Thing
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.document import parse_document
from skillrun.syntax.source import Mapping, Node, Scalar, Sequence, Source
from skillrun.types.types import identifier

_STEP: Final = re.compile(r"[A-Za-z][\w-]*(?![^#~@])")
"""A phase or a step in an address, without its pass, item or round."""


def things_at(knowledge: Knowledge, path: Path, relative: str, text: str, offset: int) -> list[Mention]:
    """What is named, or declared, at an offset of a text: the innermost first."""
    sighted = knowledge.sighted(path)
    mentions: list[Mention] = []
    if sighted is not None:
        place = moved(sighted.source.text, text, offset)
        mentions = [each for each in sighted.named(place) if _stands(each, text, offset - place)]
    own = _declared(knowledge, path, relative) if not relative.startswith("tests/") else _of_case(knowledge, path)
    places: dict[Source, int] = {}
    for mention in own:
        source, start = mention.span
        if source not in places:
            places[source] = moved(source.text, text, offset)
        taken = any(each.thing.kind == "state" and each.span == mention.span for each in mentions)
        if start <= places[source] <= start + mention.length and not taken:
            mentions.append(mention)
    unique = {(each.span.offset, each.thing): each for each in mentions}
    return sorted(unique.values(), key=lambda mention: mention.length)


def _stands(mention: Mention, text: str, shift: int) -> bool:
    """Whether the name still stands where it was noted."""
    start = mention.span.offset
    written = mention.span.source.text[start : start + mention.length]
    return text[start + shift : start + shift + mention.length] == written


def _declared(knowledge: Knowledge, path: Path, relative: str) -> Iterator[Mention]:
    for mention in declared_in(knowledge, relative):
        if mention.span.source.path == path:
            yield mention


def definitions(knowledge: Knowledge, path: Path, relative: str, text: str, offset: int) -> list[Stretch]:
    """Where what stands at an offset is declared; at a phase's declaration, its file."""
    found: dict[Stretch, None] = {}
    for mention in things_at(knowledge, path, relative, text, offset):
        places = places_of(knowledge, mention.thing)
        if mention.thing.kind == "phase" and stretch_of(mention) in places:
            places = _file_of_phase(knowledge, mention.thing) or places
        found |= dict.fromkeys(places)
    return list(found)


def _file_of_phase(knowledge: Knowledge, thing: Thing) -> list[Stretch]:
    workflow = knowledge.workflow(thing.home.removeprefix("workflows/").removesuffix(".md"))
    uses = workflow.phases.values() if workflow is not None else ()
    skill = next((use.skill for use in uses if identifier(use.name) == thing.name), None)
    return places_of(knowledge, Thing("file", f"skills/{skill}.md", skill)) if skill is not None else []


def references(knowledge: Knowledge, thing: Thing, *, declaring: bool = True) -> list[Stretch]:
    """Every place that names a thing, and where it is declared; by file and from the top."""
    declared = {stretch_of(each) for each in declared_in(knowledge, thing.home) if each.thing == thing}
    named = {stretch_of(each) for each in knowledge.mentions(thing)}
    named |= {stretch_of(each) for each in mentions_of_cases(knowledge) if each.thing == thing}
    if thing.kind == "phase":
        named = {each for each in named if each not in declared}
    return sorted(named | declared if declaring else named - declared)


def of_file(relative: str) -> Thing | None:
    """The thing that a file of the library is as a whole."""
    folder, _, rest = relative.partition("/")
    name = rest.rpartition(".")[0]
    match folder:
        case "roles":
            return Thing("role", relative, name)
        case "workflows":
            return Thing("workflow", relative, name)
        case "config":
            return Thing("config", relative, name)
        case "skills" if name.endswith("/SKILL"):
            return Thing("skill", relative, name.removesuffix("/SKILL"))
        case "skills" if name.startswith("protocols/"):
            return Thing("protocol", relative, name.removeprefix("protocols/"))
        case "skills":
            return Thing("file", relative, name)
    return None


# cases


def mentions_of_cases(knowledge: Knowledge) -> Iterator[Mention]:
    """What the cases of the project name of their workflows."""
    for file in case_files(knowledge.library.project):
        yield from _named_by(knowledge, file)


def _of_case(knowledge: Knowledge, path: Path) -> Iterator[Mention]:
    for file in case_files(knowledge.library.project):
        if file.path == path:
            yield from _named_by(knowledge, file)


def _named_by(knowledge: Knowledge, file: CaseFile) -> Iterator[Mention]:
    problems, unsaved = Problems.unheard(), knowledge.library.unsaved.get(file.path)
    if unsaved is None:
        document = file.document(problems, knowledge.library.project)
    else:
        document = parse_document(Source(file.path, file.label, unsaved), problems)
    if document is None:
        return
    home = f"workflows/{file.workflow}.md"
    yield from _keys(document.front.get("inputs"), "input", home)
    yield from _of_addresses(knowledge, file.workflow, document.front)
    expect = document.front.get("expect")
    if not isinstance(expect, Mapping):
        return
    items = expect.get("path")
    for item in items.items if isinstance(items, Sequence) else ():
        yield from _named(item, "phase", home)
    for part in ("outputs", "flags"):
        yield from _keys(expect.get(part), "phase", home)
    workflow = knowledge.workflow(file.workflow)
    outputs = expect.get("outputs")
    for name, entry in outputs.entries.items() if isinstance(outputs, Mapping) and workflow is not None else ():
        if workflow is not None and name in workflow.phases:
            yield from _keys(entry.value, "output", f"skills/{workflow.phases[name].skill}.md")


def _keys(node: Node | None, kind: str, home: str) -> Iterator[Mention]:
    for entry in node.entries.values() if isinstance(node, Mapping) else ():
        yield from _named(entry.key, kind, home)


def _named(node: Node, kind: str, home: str) -> Iterator[Mention]:
    if isinstance(node, Scalar) and node.text is not None:
        yield Mention(node.text.at(0), len(node.text.value), Thing(kind, home, identifier(node.text.value)))


def _of_addresses(knowledge: Knowledge, name: str, front: Mapping) -> Iterator[Mention]:
    """The phases and steps that addresses name: `workflow/phase/step/…`, or a pattern that can mean one alone."""
    workflow = knowledge.workflow(name)
    if workflow is None:
        return
    home = f"workflows/{name}.md"
    phases = {use.name: Thing("phase", home, identifier(use.name)) for use in workflow.phases.values()}
    steps = {use.name: _steps_of(knowledge, f"skills/{use.skill}.md") for use in workflow.phases.values()}
    meant: dict[str, list[Thing]] = {}
    for several in (phases, *steps.values()):
        for named, thing in several.items():
            meant.setdefault(named, []).append(thing)
    for node in _addresses(front):
        assert node.text is not None
        segments = node.text.value.split("/")
        exact = segments[0] == name and segments[1:2] != [] and segments[1] in phases
        at = 0
        for number, segment in enumerate(segments):
            word = _STEP.match(segment)
            things: list[Thing] = []
            if exact and number == 1:
                things = [phases[segment]]
            elif exact and number == 2 and word is not None:
                things = [steps[segments[1]][word[0]]] if word[0] in steps[segments[1]] else []
            elif not exact and word is not None and segments[0] == "*":
                things = meant.get(word[0], [])
            if word is not None and len(things) == 1:
                yield Mention(node.text.at(at), len(word[0]), things[0])
            at += len(segment) + 1


def _steps_of(knowledge: Knowledge, home: str) -> dict[str, Thing]:
    """The steps of a phase by their ids, as they are written."""
    named = (mention for mention in declared_in(knowledge, home) if mention.thing.kind == "local")
    return {
        mention.span.source.text[mention.span.offset : mention.span.offset + mention.length]: mention.thing
        for mention in named
    }


def _addresses(front: Mapping) -> Iterator[Scalar]:
    """The addresses that a case has, and patterns of them: of replies, prompts and calls."""
    replies, expect = front.get("replies"), front.get("expect")
    items = replies.items if isinstance(replies, Sequence) else ()
    nodes: list[Node | None] = [item.get("address") for item in items if isinstance(item, Mapping)]
    for part in ("prompts", "calls"):
        several = expect.get(part) if isinstance(expect, Mapping) else None
        nodes += [entry.key for entry in several.entries.values()] if isinstance(several, Mapping) else []
    yield from (node for node in nodes if isinstance(node, Scalar) and node.text is not None)
