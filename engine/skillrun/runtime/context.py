"""What a prompt is made of: preamble and references, context pack, role, task. In this order members share a prefix.

Every sentence comes from a markdown file. Fits the prompt into the model's window, or says before the call that it
does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillrun.collaboration.compaction import accumulate, estimate_tokens
from skillrun.language.definitions import Role, Step
from skillrun.language.diagnostics import SkillrunError
from skillrun.language.expressions import ABSENT
from skillrun.language.members import Member, MemberError, parse_member
from skillrun.models.messages import Block, Message, Request
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.run import Frame, PhaseRun, Run

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


def seat(frame: Frame, written: Any) -> Seated:
    """The member that `written` names (its written form, or the member itself). Raises StepFailed."""
    if isinstance(written, Mapping):
        written = written.get("id")
    try:
        member = parse_member(str(written))
    except MemberError as error:
        raise StepFailed(str(error)) from None
    role = frame.run.program.role(member.role)
    if role is None:
        raise StepFailed(f"there is no role `{member.role}`")
    lens = role.variants.get(member.variant) if member.variant else None
    if member.variant and lens is None:
        raise StepFailed(f"the role `{member.role}` has no variant `{member.variant}`")
    resolved = frame.run.resolve(member.model or role.model)
    names: dict[str, Any] = {"id": member.id, "role": member.role, "model": resolved.model.partition(":")[2]}
    if member.variant:
        names |= {"variant": member.variant, "lens": lens}
    names |= {"lines": len(role.body.splitlines()), "skills": list(role.skills)}
    return Seated(member, role, names)


def request_for(
    frame: Frame, step: Step, seated: Seated, task: str, schema: dict[str, Any] | None, *, tools: bool
) -> Request:
    """The first request of a member's attempt. Raises StepFailed when it does not fit the model's window."""
    run, phase = frame.run, frame.open
    resolved = run.resolve(seated.member.model or seated.role.model)
    system, pack = prefix(phase)
    speaker = phase.speakers.get(seated.id)
    if speaker is None:
        speaker = phase.speakers[seated.id] = template(run, "system/role", _speaker(frame, seated))
    final = template(run, "system/task", {"task": task})
    earlier = _conversation(frame, step, seated)
    if earlier:
        messages = (*earlier, Message("user", (Block(final),)))
    else:
        messages = (Message("user", (Block(pack, cache=True), Block(speaker), Block(final))),)
    size = size_of(system, messages, schema, resolved.window - resolved.max_output)
    if size + LEAST_REPLY > resolved.window and earlier:
        phase.warnings.append(f"{seated.id} lost its conversation: it no longer fits the window of {resolved.model}")
        frame.sessions.pop(seated.id, None)
        return request_for(frame, step, seated, task, schema, tools=tools)
    if size + LEAST_REPLY > resolved.window:
        pack = _pack(phase, 0)
        messages = (Message("user", (Block(pack, cache=True), Block(speaker), Block(final))),)
        size = size_of(system, messages, schema)
    if size + LEAST_REPLY > resolved.window:
        raise StepFailed(
            f"the prompt of `{step.id}` for {seated.id} has about {size} tokens; {resolved.model} has a window of "
            f"{resolved.window} (`| clip(…)` what it takes over, or use a larger model)"
        )
    room = min(resolved.max_output, resolved.window - size)
    return Request(resolved.model, system, messages, room, schema=schema)


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


def prefix(phase: PhaseRun) -> tuple[tuple[Block, ...], str]:
    """The system blocks and the context pack of a phase; made again only when its state has changed."""
    if phase.prefix is None or phase.prefix[0] != phase.version:
        phase.prefix = (phase.version, (_system(phase), _pack(phase, _budget(phase))))
    found: tuple[tuple[Block, ...], str] = phase.prefix[1]
    return found


def worth_caching(phase: PhaseRun) -> bool:
    """Whether what the members of a phase share is long enough for a provider to keep."""
    system, pack = prefix(phase)
    shared = sum(estimate_tokens(block.text) for block in system) + estimate_tokens(pack)
    return shared >= int((phase.run.program.engine.get("context") or {}).get("cache_from", CACHE_FROM))


def _system(phase: PhaseRun) -> tuple[Block, ...]:
    run = phase.run
    parts = []
    if run.program.workflow.preamble is not None:
        parts.append(run.program.workflow.preamble.render_text(phase.names))
    for reference in phase.phase.references:
        if reference.when is not None and not reference.when.render(phase.names):
            continue
        if reference.agent_skill:
            skill = run.program.library.agent_skill(reference.name)
            parts.append(skill.body if skill else "")
        else:
            text = run.program.library.text(reference.name, "reference")
            parts.append(text.template.render_text(phase.names) if text else "")
    whole = "\n\n".join(part.strip() for part in parts if part.strip())
    return (Block(whole, cache=True),) if whole else ()


def _budget(phase: PhaseRun) -> int:
    return int((phase.run.program.engine.get("context") or {}).get("accumulated_tokens", 500))


def _pack(phase: PhaseRun, budget: int) -> str:
    known = accumulate((data["summary"] for data in phase.names["phases"].values()), budget)
    phase.dropped = known["dropped"]
    acceptance = phase.phase.acceptance
    names: dict[str, Any] = {
        "request": original_request(phase),
        **{key: known[key] for key in ("key_decisions", "open_questions", "risks_identified")},
        "dropped": len(known["dropped"]),
    }
    names["acceptance_criteria"] = acceptance.render_text(phase.names) if acceptance is not None else ABSENT
    return template(phase.run, "system/context-pack", names)


def original_request(phase: PhaseRun) -> str:
    """The workflow's first required input, word for word; empty where it has none."""
    fields = phase.run.program.workflow.inputs
    first = next((field for field in fields if field.required), None)
    return str(phase.run.state.inputs.get(first.name, "")) if first is not None else ""
