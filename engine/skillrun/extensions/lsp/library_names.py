"""The names of what a library has: roles and their variants, models, protocols, workflows, skills, configs.

Each with a line about it, from its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from skillrun.extensions.lsp.cursor_context import Around, Candidate, entries
from skillrun.templates.expressions import Value

# members and models


def members(around: Around) -> Iterator[Candidate]:
    """Roles, in each of their variants; behind an `@` models."""
    written = around.place.before
    head, at, _ = written.rpartition("@")
    if at:
        yield from (each._replace(name=f"{head}@{each.name}") for each in models(around))
        return
    library = around.knowledge.library
    for name in library.names("roles"):
        role = library.role(name)
        yield Candidate(name, "role", role.description if role is not None else "")
        for variant, lens in role.variants.items() if role is not None else ():
            yield Candidate(f"{name}:{variant}", "variant", lens)


def models(around: Around) -> Iterator[Candidate]:
    """Tiers, aliases, intents and listed models."""
    config = around.knowledge.library.config("models")
    data = config.data if config is not None else {}
    for part in ("tiers", "aliases"):
        for name, meaning in entries(data, part).items():
            yield Candidate(
                name, "model", f"{part[:-1].removesuffix('e')}: {meaning}" if part == "tiers" else f"alias: {meaning}"
            )
    for name in entries(data, "intents"):
        yield Candidate(name, "model", "the newest of its kind")
    for name in entries(data, "models"):
        yield Candidate(name, "model", "a listed model")


def model_part(part: str) -> Callable[[Around], Iterator[Candidate]]:
    """The names in a part of `config/models.yaml`."""

    def give(around: Around) -> Iterator[Candidate]:
        config = around.knowledge.library.config("models")
        yield from (Candidate(name, "model") for name in entries(config.data if config else {}, part))

    return give


# files


def protocols(around: Around) -> Iterator[Candidate]:
    """Every protocol with its line."""
    library = around.knowledge.library
    for name in library.names("skills/protocols"):
        protocol = library.protocol(name)
        yield Candidate(name, "protocol", protocol.description if protocol is not None else "")


def workflows(around: Around) -> Iterator[Candidate]:
    """Every workflow with its line."""
    for name in around.knowledge.library.names("workflows"):
        workflow = around.knowledge.workflow(name)
        yield Candidate(name, "workflow", workflow.description if workflow is not None else "")


def skills(*kinds: str, agent: bool = False) -> Callable[[Around], Iterator[Candidate]]:
    """Files below `skills/` of some kinds, by `area/name`; Agent Skills where they may stand here."""

    def give(around: Around) -> Iterator[Candidate]:
        library = around.knowledge.library
        for name in library.skills():
            if "/" in name:
                kind = library.kind(name)
                if kind in kinds:
                    document = library.skill(name)
                    node = document.front.get("description") if document is not None else None
                    yield Candidate(name, "file", str(getattr(node, "value", "")))
            elif agent and (skill := library.agent_skill(name)) is not None:
                yield Candidate(name, "skill", skill.description)

    return give


def shapes(around: Around) -> Iterator[Candidate]:
    """Templates that have a shape; inside of a shape its types."""
    if around.slot.within and around.slot.name != "record":
        yield from (Candidate(name, "value") for name in ("string", "integer", "number", "boolean", "any"))
        return
    library = around.knowledge.library
    for candidate in skills("template")(around):
        text = library.text(candidate.name)
        if text is not None and text.output is not None:
            yield candidate


def configs(around: Around) -> Iterator[Candidate]:
    """Every config but those of the engine."""
    names = around.knowledge.library.names("config")
    yield from (Candidate(name, "config") for name in names if name not in ("models", "skillrun", "sizes"))


def agent_skills(around: Around) -> Iterator[Candidate]:
    """The Agent Skills that there are."""
    yield from skills(agent=True)(around)


def artifacts(around: Around) -> Iterator[Candidate]:
    """The files that the phases of the workflow write under names that are written out."""
    workflow, library = around.workflow, around.knowledge.library
    for use in workflow.phases.values() if workflow is not None else ():
        phase = library.phase(use.skill) if library.locate(f"skills/{use.skill}.md") is not None else None
        for step in phase.walk() if phase is not None else ():
            path = literal(step.artifact)
            if path:
                yield Candidate(path, "file", f"written by `{use.name}`")


def literal(value: Value | None) -> str:
    """The text of a value that is written out."""
    given = value.literal if value is not None else None
    return given if isinstance(given, str) else ""
