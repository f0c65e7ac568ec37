"""What a prompt is made of: preamble, original request, documents, context pack, task, role.

What most prompts share comes first, so that providers' caches serve it; every sentence comes from a markdown file.
Fits the prompt into the model's window, or says before the call that it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skillrun.collaboration.compaction import accumulate, estimate_tokens
from skillrun.language.definitions import Role, Step
from skillrun.language.diagnostics import SkillrunError
from skillrun.language.expressions import ABSENT
from skillrun.language.fields import Member, MemberError, parse_member
from skillrun.models.messages import Block, Message, Request
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.given import model_of
from skillrun.runtime.run import Frame, PhaseRun, Run

if TYPE_CHECKING:
    from skillrun.models.catalogue import Resolved

CACHE_FROM: Final = 1024  # tokens; what providers keep at least
LEAST_REPLY: Final = 256  # tokens; a prompt that leaves less room than this does not fit


@dataclass(frozen=True)
class Seated:
    """A member with its role, and what templates see of it."""

    member: Member
    role: Role
    names: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.member.id


async def seat_all(frame: Frame, several: list[Any]) -> list[Seated]:
    """The members that are named, in their order, on models that are settled. Raises StepFailed."""
    library = frame.run.program.library
    ids = (one.get("id") if isinstance(one, Mapping) else one for one in several)
    await frame.run.settle(name for written in ids for name in model_of(library, str(written)))
    return [seat(frame, one) for one in several]


def seat(frame: Frame, written: Any) -> Seated:
    """The member that `written` names (its written form, or the member itself). Raises StepFailed."""
    if isinstance(written, Mapping):
        written = written.get("id")
    try:
        member = parse_member(str(written))
    except MemberError as error:
        raise StepFailed(str(error)) from None
    role = frame.run.program.library.role(member.role)
    if role is None:
        raise StepFailed(f"there is no role `{member.role}`")
    lens = role.variants.get(member.variant) if member.variant else None
    if member.variant and lens is None:
        raise StepFailed(f"the role `{member.role}` has no variant `{member.variant}`")
    resolved = frame.run.resolve(member.model or role.model)
    names: dict[str, Any] = {"id": member.id, "role": member.role, "model": resolved.short}
    if member.variant:
        names |= {"variant": member.variant, "lens": lens}
    names |= {"lines": len(role.body.splitlines()), "skills": list(role.skills)}
    return Seated(member, role, names)


def request_for(
    frame: Frame, step: Step, seated: Seated, task: str, schema: dict[str, Any] | None, *, shared: bool
) -> Request:
    """The first request of a member's attempt; `shared` says that other calls begin with its task as well.

    Raises StepFailed when it does not fit the model's window.
    """
    run, phase = frame.run, frame.open
    resolved = run.resolve(seated.member.model or seated.role.model)
    what = f"the prompt of `{step.id}` for {seated.id}"
    earlier = _conversation(frame, step, seated)
    if earlier:
        system, final = shared_by_all(phase).system, Block(_task(run, task))
        messages = (*earlier, Message("user", (final,)))
        if room := _room(resolved, system, messages, schema):
            return Request(resolved.model, system, messages, room, schema=schema)
        phase.warn(f"{seated.id} lost its conversation: it no longer fits the window of {resolved.model}")
        frame.sessions.pop(seated.id, None)
    speaker = phase.speakers.get(seated.id)
    if speaker is None:
        speaker = phase.speakers[seated.id] = template(run, "system/role", _speaker(frame, seated))
    return request_in(phase, resolved, what, task, schema, (Block(speaker),), shared=shared)


def request_in(
    phase: PhaseRun,
    resolved: Resolved,
    what: str,
    task: str,
    schema: dict[str, Any] | None,
    last: tuple[Block, ...] = (),
    *,
    shared: bool = False,
) -> Request:
    """A request of a phase: what all its prompts share, the task, and what comes last.

    Where the window is too small, what earlier phases left on record goes first, then their documents, oldest first;
    the summary says so. Raises StepFailed when it still does not fit.
    """
    opening = shared_by_all(phase)
    ending = (Block(_task(phase.run, task), cache=shared), *last)
    messages: tuple[Message, ...] = ()
    for blocks, left_out in _shorter(phase, opening):
        messages = (Message("user", (*blocks, *ending)),)
        if room := _room(resolved, opening.system, messages, schema):
            for text in left_out:
                phase.warn(text)
            return Request(resolved.model, opening.system, messages, room, schema=schema)
    size = size_of(opening.system, messages, schema)
    raise StepFailed(
        f"{what} has about {size} tokens; {resolved.model} has a window of {resolved.window} "
        "(`| clip(…)` what it takes over, or use a larger model)"
    )


def persistent(frame: Frame, step: Step) -> bool:
    return bool(frame.value(step, "session", "fresh") == "persistent")


def _conversation(frame: Frame, step: Step, seated: Seated) -> tuple[Message, ...]:
    """What a member that keeps its conversation has heard and said in the steps before this one."""
    if not persistent(frame, step):
        return ()
    earlier = [said for where, said in frame.sessions.get(seated.id, {}).items() if where != frame.at(step)]
    return earlier[-1] if earlier else ()


def _speaker(frame: Frame, seated: Seated) -> dict[str, Any]:
    skills = []
    for name in seated.role.skills:
        skill = frame.run.program.library.agent_skill(name)
        if skill is not None:
            skills.append({"name": name, "body": skill.body})
    return {"variant": ABSENT, "lens": ABSENT, **seated.names, "body": seated.role.body, "skills": skills}


def size_of(
    system: tuple[Block, ...], messages: tuple[Message, ...], schema: dict[str, Any] | None, enough: int = 0
) -> int:
    """Estimated tokens of a request; no more than an upper bound of them where that is at most `enough`."""
    texts = [block.text for block in system]
    texts += [block.text for message in messages for block in message.blocks]
    if schema:
        texts.append(str(schema))
    frames = 8 * len(messages)
    bound = frames + sum(len(text) if text.isascii() else 3 * len(text) for text in texts)
    return bound if bound <= enough else frames + sum(map(estimate_tokens, texts))


def template(run: Run, name: str, names: Mapping[str, Any]) -> str:
    """A system template, rendered. Raises SkillrunError when it is missing."""
    found = run.program.library.text(name)
    if found is None:
        raise SkillrunError(
            f"`skills/{name}.md` is missing or broken", "`skillrun validate` shows what is wrong with it"
        )
    return found.template.render_text(names)


@dataclass(frozen=True)
class Opening:
    """What all prompts of a phase begin with: the system's blocks, the request, each document, the context pack."""

    system: tuple[Block, ...]
    request: Block
    documents: Mapping[str, Block]
    pack: Block

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.request, *self.documents.values(), self.pack)


def shared_by_all(phase: PhaseRun) -> Opening:
    """The opening of a phase's prompts; made again only when its state has changed."""
    if phase.opening is None or phase.opening[0] != phase.version:
        phase.opening = (phase.version, _opening(phase))
    found: Opening = phase.opening[1]
    return found


def worth_caching(phase: PhaseRun) -> bool:
    """Whether what the members of a phase share is long enough for a provider to keep."""
    opening = shared_by_all(phase)
    shared = sum(estimate_tokens(block.text) for block in (*opening.system, *opening.blocks))
    return shared >= int((phase.run.program.engine.get("context") or {}).get("cache_from", CACHE_FROM))


def _opening(phase: PhaseRun) -> Opening:
    run, workflow = phase.run, phase.run.program.workflow
    preamble = workflow.preamble.render_text(phase.names).strip() if workflow.preamble is not None else ""
    request = template(run, "system/request", {"request": original_request(phase)})
    documents = {}
    for title, value in workflow.documents.items():
        text = value.evaluate(phase.names)
        if text:  # an absent one is left out
            documents[title] = template(run, "system/document", {"title": title, "text": str(text)})
    last = next(reversed(documents), None)
    budget = int((run.program.engine.get("context") or {}).get("accumulated_tokens", 500))
    return Opening(
        (Block(preamble),) if preamble else (),
        Block(request, cache=last is None),
        {title: Block(text, cache=title == last) for title, text in documents.items()},
        _pack(phase, budget),
    )


def _shorter(phase: PhaseRun, opening: Opening) -> Iterator[tuple[tuple[Block, ...], list[str]]]:
    """The opening, then with less and less in it; and what to say of what is left out."""
    yield opening.blocks, []
    pack, kept = _pack(phase, 0), dict(opening.documents)
    left_out: list[str] = []
    yield (opening.request, *kept.values(), pack), left_out
    for title in opening.documents:
        del kept[title]
        left_out.append(f"`{title}` was left out of a prompt: the model's window is too small")
        yield (opening.request, *kept.values(), pack), left_out


def _room(
    resolved: Resolved, system: tuple[Block, ...], messages: tuple[Message, ...], schema: dict[str, Any] | None
) -> int:
    """Tokens that are left for the reply; 0 where they are too few."""
    room = resolved.window - size_of(system, messages, schema, resolved.window - resolved.max_output)
    return min(resolved.max_output, room) if room >= LEAST_REPLY else 0


def _task(run: Run, task: str) -> str:
    return template(run, "system/task", {"task": task})


def _references(phase: PhaseRun) -> list[str]:
    library = phase.run.program.library
    parts = []
    for reference in phase.phase.references:
        if reference.when is not None and not reference.when.render(phase.names):
            continue
        if reference.agent_skill:
            skill = library.agent_skill(reference.skill)
            parts.append(skill.body if skill else "")
        else:
            text = library.text(reference.skill, "reference")
            parts.append(text.template.render_text(phase.names) if text else "")
    return [part.strip() for part in parts if part.strip()]


def _pack(phase: PhaseRun, budget: int) -> Block:
    known = accumulate((data["summary"] for data in phase.names["phases"].values()), budget)
    phase.context_dropped = known["dropped"]
    acceptance = phase.phase.acceptance
    names: dict[str, Any] = {
        **{key: known[key] for key in ("key_decisions", "open_questions", "risks_identified")},
        "dropped": len(known["dropped"]),
        "references": _references(phase),
        "acceptance_criteria": acceptance.render_text(phase.names) if acceptance is not None else ABSENT,
    }
    return Block(template(phase.run, "system/context-pack", names), cache=True)


def original_request(phase: PhaseRun) -> str:
    """The workflow's first required input, word for word; empty where it has none."""
    fields = phase.run.program.workflow.inputs
    first = next((field for field in fields if field.required), None)
    return str(phase.run.state.inputs.get(first.name, "")) if first is not None else ""
