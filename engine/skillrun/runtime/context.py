"""What a prompt is made of: preamble, original request, material, references, what is on record, task, role.

What most prompts share comes first, so that providers' caches serve it; every sentence comes from a markdown file.
Fits the prompt into the model's window, or says before the call that it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from skillrun.collaboration.compaction import KINDS, accumulate, estimate_tokens, record_cost
from skillrun.language.definitions import Role, Step
from skillrun.language.diagnostics import SkillrunError
from skillrun.language.expressions import ABSENT, Value
from skillrun.language.fields import Member, MemberError, parse_member
from skillrun.language.templates.functions import untrusted
from skillrun.models.messages import Block, Message, Request
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.fitting import Outline, Shortened
from skillrun.runtime.given import model_of
from skillrun.runtime.material import NAMED, WHOLE, Group, LeftOut, Piece, fitted, piece_of
from skillrun.runtime.run import Frame, PhaseRun, Run

if TYPE_CHECKING:
    from skillrun.models.catalogue import Resolved

CACHE_FROM: Final = 1024  # tokens; what providers keep at least
LEAST_REPLY: Final = 256  # tokens; a prompt that leaves less room than this does not fit
REPLY_SHARE: Final = 4  # a quarter of the window is kept for the reply, where material can make room for it
LEAST_RECORD: Final = 500  # tokens of what is on record
RECORD_SHARE: Final = 0.05  # of the window, where that is more
NAME_COST: Final = 8  # tokens of a record that is only named
REFERENCES: Final = "references"
RECORD: Final = "record"
DOCUMENTS: Final = "documents"
HANDED: Final = "handed"


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
    frame: Frame,
    step: Step,
    seated: Seated,
    task: str,
    schema: dict[str, Any] | None,
    material: Sequence[Piece] = (),
    *,
    shared: bool,
) -> Request:
    """The first request of a member's attempt; `shared` says that other calls begin with its task as well.

    Raises StepFailed when it does not fit the model's window.
    """
    run, phase = frame.run, frame.open
    resolved = run.resolve(seated.member.model or seated.role.model)
    asked = Asking(phase, resolved, step.id or step.verb, seated.id, schema)
    earlier = _conversation(frame, step, seated)
    if earlier:
        system, texts = shared_by_all(phase).system, [piece.at(WHOLE)[0] for piece in material]
        final = Message("user", (*map(Block, texts), Block(_task(run, task))))
        messages = (*earlier, final)
        if room := asked.room(system, messages):
            return Request(resolved.model, system, messages, room, schema=schema)
        phase.warn(f"{seated.id} lost its conversation: it no longer fits the window of {resolved.model}")
        frame.sessions.pop(seated.id, None)
    speaker = phase.speakers.get(seated.id)
    if speaker is None:
        speaker = phase.speakers[seated.id] = template(run, "system/role", _speaker(frame, seated))
    return request_in(asked, task, material, (Block(speaker, part="role"),), shared=shared)


@dataclass(frozen=True)
class Asking:
    """Who is asked for what in a phase: the model, the step, the member, and the shape of the reply."""

    phase: PhaseRun
    resolved: Resolved
    step: str
    member: str
    schema: dict[str, Any] | None

    @property
    def reply(self) -> int:
        """Tokens that are kept free for the reply, where material can make room for it."""
        return max(LEAST_REPLY, min(self.resolved.max_output, self.resolved.window // REPLY_SHARE))

    def room(self, system: tuple[Block, ...], messages: tuple[Message, ...]) -> int:
        """Tokens that are left for the reply; 0 where they are too few."""
        window, most = self.resolved.window, self.resolved.max_output
        room = window - size_of(system, messages, self.schema, window - most)
        return min(most, room) if room >= LEAST_REPLY else 0


def request_in(
    asking: Asking,
    task: str,
    material: Sequence[Piece] = (),
    last: tuple[Block, ...] = (),
    *,
    shared: bool = False,
) -> Request:
    """A request of a phase: what all its prompts share, the step's material, the task, and what comes last.

    Where the window is too small, material is shortened by weight, which is put on record. Raises StepFailed where the
    rest is too large as well.
    """
    phase, resolved, schema = asking.phase, asking.resolved, asking.schema
    opening = shared_by_all(phase)
    ending = (Block(_task(phase.run, task), cache=shared, part="task"), *last)
    usual = most_on_record(phase, resolved.window)
    shown = opening.blocks(usual)
    handed = _handed(material, WHOLE)
    room = asking.room(opening.system, _said(shown, handed, ending))
    if room < asking.reply:
        shown, handed = _fitted(asking, opening, usual, material, ending)
        room = asking.room(opening.system, _said(shown, handed, ending))
        if not room:
            raise _too_large(asking, size_of(opening.system, _said(shown, handed, ending), schema))
    messages = _said(shown, handed, ending)
    phase.context_dropped = shown.dropped
    _put_on_record(asking, (*opening.system, *messages[0].blocks), [*shown.left_out, *handed.left_out])
    return Request(resolved.model, opening.system, messages, room, schema=schema)


def _said(shown: Shown, handed: Shown, ending: tuple[Block, ...]) -> tuple[Message, ...]:
    return (Message("user", (*shown.blocks, *handed.blocks, *ending)),)


def _fitted(
    asking: Asking, opening: Opening, usual: int, material: Sequence[Piece], ending: tuple[Block, ...]
) -> tuple[Shown, Shown]:
    """As much of the opening and of the step's material as the window has room for. Raises StepFailed."""
    bare = (*replace(opening, documents=(), references=(), summaries=(), made={}).blocks(0).blocks, *ending)
    fixed = size_of(opening.system, (Message("user", bare),), asking.schema)
    groups = [*opening.groups(usual), Group.of(HANDED, material), opening.on_record(usual, NAMED)]
    window = asking.resolved.window - fixed
    levels, total = fitted(groups, window - asking.reply)
    if total > window - LEAST_REPLY:
        raise _too_large(asking, fixed + total)
    shown = opening.blocks(min(levels[RECORD], usual), levels[DOCUMENTS], levels[REFERENCES])
    return shown, _handed(material, levels[HANDED])


def _too_large(asking: Asking, size: int) -> StepFailed:
    window = asking.resolved.window
    return StepFailed(
        f"the prompt of `{asking.step}` for {asking.member} is about {size + LEAST_REPLY - window} tokens too large for "
        f"{asking.resolved.model}, whose window is {window}; no material is left in it to shorten "
        "(use a larger model, or shorten the section, the request, the criteria or the role)"
    )


@dataclass(frozen=True)
class Shown:
    """Blocks of a prompt, and what of their material is not in them."""

    blocks: tuple[Block, ...]
    left_out: list[LeftOut] = field(default_factory=list)
    dropped: list[Any] = field(default_factory=list)  # of what is on record


def _handed(pieces: Sequence[Piece], level: int) -> Shown:
    found = [(piece.title, *piece.at(level)) for piece in pieces]
    return Shown(tuple(Block(text, part=title) for title, text, _ in found), [left for *_, left in found if left])


def _put_on_record(asking: Asking, blocks: Iterable[Block], left_out: list[LeftOut]) -> None:
    """Note what a prompt is made of, and what it does not hold, for the summary; the longest of a step's counts."""
    phase, named = asking.phase, [block for block in blocks if block.part]
    length = sum(len(block.text) for block in named)
    if length > phase.longest.get(asking.step, 0):
        phase.longest[asking.step] = length
        phase.parts[asking.step] = {block.part: _tokens(block.text) for block in named}
    for one in left_out:
        phase.leave_out(asking.step, one.title, one.tokens, str(one))


@lru_cache(maxsize=64)  # most prompts of a phase begin alike
def _tokens(text: str) -> int:
    return estimate_tokens(text)


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
    """What all prompts of a phase begin with: preamble, request, the workflow's material, references, what is on
    record, and the criteria. Only the request and the criteria are always whole."""

    phase: PhaseRun
    system: tuple[Block, ...]
    request: Block
    documents: tuple[Piece, ...]
    references: tuple[tuple[str, Outline], ...]
    summaries: tuple[Mapping[str, Any], ...]
    acceptance: Any
    made: dict[tuple[int, ...], Shown] = field(default_factory=dict)

    def groups(self, usual: int) -> list[Group]:
        """What may be shortened of it, the least weighty first; of what is on record a part stays."""
        texts = [text for _, text in self.references]
        references = Group(
            REFERENCES,
            max((text.most for text in texts), default=0),
            NAMED,
            lambda level: sum(text.size if level >= text.most else text.cost(level) for text in texts if level >= 0),
        )
        return [references, self.on_record(usual, min(usual, LEAST_RECORD)), Group.of(DOCUMENTS, self.documents)]

    def on_record(self, usual: int, least: int) -> Group:
        """What earlier phases decided, left open and warned of; its level is its tokens."""
        records = accumulate(self.summaries, usual)
        held = sum(record_cost(one) for kind in KINDS for one in records[kind])
        names = NAME_COST * sum(map(len, records.values()))
        return Group(RECORD, min(usual, held), least, lambda level: min(max(0, level), held) + names)

    def blocks(self, record: int, documents: int = WHOLE, references: int = WHOLE) -> Shown:
        """Its blocks with so much of each."""
        key = (record, documents, references)
        if key not in self.made:
            self.made[key] = self._blocks(*key)
        return self.made[key]

    def _blocks(self, record: int, documents: int, references: int) -> Shown:
        shown = _handed(self.documents, documents)
        blocks = [replace(block, cache=block is shown.blocks[-1]) for block in shown.blocks]
        left_out, texts = list(shown.left_out), []
        for name, text in self.references:
            short = Shortened("", text.size) if references < 0 else text.at(references)
            texts.append(text.text if references >= text.most else short.text)
            if references < text.most:
                left_out.append(LeftOut(name, short.left_out, text.size, short.sections))
        known = accumulate(self.summaries, max(0, record))
        dropped = [str(one["record"].get("id") or "?") for one in known["dropped"]]
        if dropped:
            gone = sum(record_cost(one["record"]) for one in known["dropped"])
            held = sum(record_cost(one) for kind in KINDS for one in known[kind])
            left_out.append(LeftOut("what is on record", gone, gone + held, tuple(dropped)))
        names: dict[str, Any] = {
            **{kind: known[kind] for kind in KINDS},
            "dropped": dropped,
            "references": [text for text in texts if text],
            "references_dropped": [name for (name, _), text in zip(self.references, texts, strict=True) if not text],
            "acceptance_criteria": self.acceptance,
        }
        names["on_record"] = _on_record(self.phase, names)
        pack = Block(template(self.phase.run, "system/context-pack", names), cache=True, part="on record, criteria")
        return Shown((replace(self.request, cache=not blocks), *blocks, pack), left_out, known["dropped"])


def _on_record(phase: PhaseRun, names: Mapping[str, Any]) -> str:
    return untrusted(text) if (text := template(phase.run, "system/on-record", names).strip()) else ""


def shared_by_all(phase: PhaseRun) -> Opening:
    """The opening of a phase's prompts; made again only when its state has changed."""
    if phase.opening is None or phase.opening[0] != phase.version:
        phase.opening = (phase.version, _opening(phase))
    found: Opening = phase.opening[1]
    return found


def worth_caching(phase: PhaseRun) -> bool:
    """Whether what the members of a phase share is long enough for a provider to keep."""
    opening = shared_by_all(phase)
    blocks = (*opening.system, *opening.blocks(most_on_record(phase, 0)).blocks)
    least = int((phase.run.program.engine.get("context") or {}).get("cache_from", CACHE_FROM))
    return sum(estimate_tokens(block.text) for block in blocks) >= least


def _opening(phase: PhaseRun) -> Opening:
    run, workflow = phase.run, phase.run.program.workflow
    preamble = workflow.preamble.render_text(phase.names).strip() if workflow.preamble is not None else ""
    request = template(run, "system/request", {"request": untrusted(original_request(phase))})
    acceptance = phase.phase.acceptance
    return Opening(
        phase,
        (Block(preamble, part="preamble"),) if preamble else (),
        Block(request, part="request"),
        tuple(pieces_of(run, workflow.material, phase.names)),
        tuple((name, Outline(text)) for name, text in _references(phase)),
        tuple(data["summary"] for data in phase.names["phases"].values()),
        acceptance.render_text(phase.names) if acceptance is not None else ABSENT,
    )


def pieces_of(run: Run, material: Value | None, names: Mapping[str, Any]) -> list[Piece]:
    """Declared material as it is now; what is absent is left out."""
    if material is None:
        return []

    def shown(told: Mapping[str, Any]) -> str:
        return template(run, "system/material", told)

    found = (piece_of(title, value, shown) for title, value in material.evaluate(names).items())
    return [piece for piece in found if piece is not None]


def most_on_record(phase: PhaseRun, window: int) -> int:
    """Tokens that what is on record may have in a window, before anything is shortened."""
    context = phase.run.program.engine.get("context") or {}
    share = float(context.get("accumulated_share", RECORD_SHARE))
    return max(int(context.get("accumulated_tokens", LEAST_RECORD)), int(window * share))


def _task(run: Run, task: str) -> str:
    return template(run, "system/task", {"task": task})


def _references(phase: PhaseRun) -> Iterator[tuple[str, str]]:
    library = phase.run.program.library
    for reference in phase.phase.references:
        if reference.when is not None and not reference.when.render(phase.names):
            continue
        if reference.agent_skill:
            skill = library.agent_skill(reference.skill)
            body = skill.body if skill else ""
        else:
            text = library.text(reference.skill, "reference")
            body = text.template.render_text(phase.names) if text else ""
        if body.strip():
            yield reference.skill, body.strip()


def original_request(phase: PhaseRun) -> str:
    """The workflow's first required input, word for word; empty where it has none."""
    fields = phase.run.program.workflow.inputs
    first = next((field for field in fields if field.required), None)
    return str(phase.run.state.inputs.get(first.name, "")) if first is not None else ""
