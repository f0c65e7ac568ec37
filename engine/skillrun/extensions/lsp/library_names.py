"""Lists the names of the roles, models, protocols, workflows, skills and configs in a library, with descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from skillrun.extensions.lsp.cursor_context import CompletionCandidate, CursorContext, config_entries
from skillrun.templates.expressions import Value

# members and models


def members(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield roles and their variants or, after an `@`, the models that may follow."""
    written = context.place.prefix
    head, at, _ = written.rpartition("@")
    if at:
        yield from (each._replace(name=f"{head}@{each.name}") for each in models(context))
        return
    library = context.index.library
    for name in library.names("roles"):
        role = library.role(name)
        yield CompletionCandidate(name, "role", role.description if role is not None else "")
        for variant, lens in role.variants.items() if role is not None else ():
            yield CompletionCandidate(f"{name}:{variant}", "variant", lens)


def models(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield the tiers, aliases, intents and models that `config/models.yaml` lists."""
    config = context.index.library.config("models")
    data = config.data if config is not None else {}
    for part in ("tiers", "aliases"):
        for name, meaning in config_entries(data, part).items():
            yield CompletionCandidate(
                name, "model", f"{part[:-1].removesuffix('e')}: {meaning}" if part == "tiers" else f"alias: {meaning}"
            )
    for name in config_entries(data, "intents"):
        yield CompletionCandidate(name, "model", "the newest matching model")
    for name in config_entries(data, "models"):
        yield CompletionCandidate(name, "model", "a listed model")


def model_part(part: str) -> Callable[[CursorContext], Iterator[CompletionCandidate]]:
    """Return a function that yields the names in a part of `config/models.yaml`."""

    def provide(context: CursorContext) -> Iterator[CompletionCandidate]:
        config = context.index.library.config("models")
        yield from (CompletionCandidate(name, "model") for name in config_entries(config.data if config else {}, part))

    return provide


# files


def protocols(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield every protocol with its description."""
    library = context.index.library
    for name in library.names("skills/protocols"):
        protocol = library.protocol(name)
        yield CompletionCandidate(name, "protocol", protocol.description if protocol is not None else "")


def workflows(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield every workflow with its description."""
    for name in context.index.library.names("workflows"):
        workflow = context.index.workflow(name)
        yield CompletionCandidate(name, "workflow", workflow.description if workflow is not None else "")


def skills(*kinds: str, agent: bool = False) -> Callable[[CursorContext], Iterator[CompletionCandidate]]:
    """Return a function that yields the skill files of these kinds as `area/name`. `agent` adds the Agent Skills."""

    def provide(context: CursorContext) -> Iterator[CompletionCandidate]:
        library = context.index.library
        for name in library.skills():
            if "/" in name:
                kind = library.kind(name)
                if kind in kinds:
                    document = library.skill(name)
                    node = document.frontmatter.get("description") if document is not None else None
                    yield CompletionCandidate(name, "file", str(getattr(node, "value", "")))
            elif agent and (skill := library.agent_skill(name)) is not None:
                yield CompletionCandidate(name, "skill", skill.description)

    return provide


def shapes(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield the templates that have a shape or, inside a shape, the types of fields."""
    if context.slot.within and context.slot.name != "record":
        yield from (CompletionCandidate(name, "value") for name in ("string", "integer", "number", "boolean", "any"))
        return
    library = context.index.library
    for candidate in skills("template")(context):
        text = library.text(candidate.name)
        if text is not None and text.output is not None:
            yield candidate


def configs(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield every config except the engine's own."""
    names = context.index.library.names("config")
    yield from (CompletionCandidate(name, "config") for name in names if name not in ("models", "skillrun", "sizes"))


def agent_skills(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield the Agent Skills."""
    yield from skills(agent=True)(context)


def artifacts(context: CursorContext) -> Iterator[CompletionCandidate]:
    """Yield the artifacts that the phases of the workflow write, if their path is literal."""
    workflow, library = context.workflow, context.index.library
    for use in workflow.phases.values() if workflow is not None else ():
        phase = library.phase(use.skill) if library.locate(f"skills/{use.skill}.md") is not None else None
        for step in phase.walk() if phase is not None else ():
            path = literal_text(step.artifact)
            if path:
                yield CompletionCandidate(path, "file", f"written by `{use.name}`")


def literal_text(value: Value | None) -> str:
    """Return a value that is a literal text; empty for any other value."""
    given = value.literal if value is not None else None
    return given if isinstance(given, str) else ""
