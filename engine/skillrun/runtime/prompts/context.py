"""Assembles prompts: preamble, original request, material, references, earlier records, task, role.

The parts that several prompts share come first, so that providers can cache them. Every sentence of a prompt comes from
a markdown file. If a prompt cannot be made to fit the model's window, the step fails before the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from skillrun.definitions.definitions import Step
from skillrun.models.messages import Block, Message, Request, ToolSpec
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.runtime.members import SeatedMember
from skillrun.runtime.phase_record import Longest
from skillrun.runtime.prompts.material import (
    TITLE_ONLY,
    WHOLE,
    MaterialBlock,
    MaterialGroup,
    MaterialOmission,
    fit_levels,
)
from skillrun.runtime.prompts.shared_prefix import (
    DOCUMENTS,
    RECORD,
    REFERENCES,
    PromptBlocks,
    SharedPrefix,
    get_shared_prefix,
    record_token_budget,
    render_material,
    render_template,
)
from skillrun.runtime.run import PhaseRun, Run
from skillrun.scoring.compaction import estimate_tokens
from skillrun.templates.expressions import ABSENT

if TYPE_CHECKING:
    from skillrun.models.entries import ResolvedModel

MIN_REPLY_TOKENS: Final = 256  # a prompt that leaves less room does not fit
REPLY_SHARE: Final = 4  # material is shortened until a quarter of the window is free for the reply
STEP_MATERIAL: Final = "handed"


@dataclass(frozen=True)
class PromptParts:
    """The parts of a request that depend on the step and the member: task, schema of the reply, material and tools."""

    task: str
    schema: dict[str, Any] | None
    material: Sequence[MaterialBlock] = ()
    tools: tuple[ToolSpec, ...] = ()


def build_request(frame: Frame, step: Step, seated: SeatedMember, parts: PromptParts, *, shared: bool) -> Request:
    """Return the first request of an attempt of a member. `shared` means that other members get the same task.

    Raises StepFailed if the request does not fit the model's window.
    """
    phase = frame.phase
    speaker = phase.prompt_cache.role_texts.get(seated.id)
    if speaker is None:
        speaker = phase.prompt_cache.role_texts[seated.id] = render_template(
            frame.run, "system/role", _speaker(frame, seated)
        )
    role = Block(speaker, cache=is_persistent(frame, step), part="role")  # later requests repeat it
    return assemble_request(
        _prompt_target(frame, step, seated, parts), parts.task, parts.material, (role,), shared=shared
    )


def build_followup_request(frame: Frame, step: Step, seated: SeatedMember, parts: PromptParts) -> Request | None:
    """Return the next request in a member's conversation. If it does not fit the window, warn, forget the conversation,
    and return None.

    Material is omitted if the conversation already contains the same text as its latest one under the same title.
    """
    phase, target = frame.phase, _prompt_target(frame, step, seated, parts)
    earlier = conversation(frame, step, seated)
    earlier_texts = {
        _title(block.text): block.text for message in earlier if message.role == "user" for block in message.blocks
    }
    pieces = [(piece.title, piece.render_at(WHOLE)[0]) for piece in parts.material]
    new_blocks = [Block(text, part=title) for title, text in pieces if earlier_texts.get(_title(text)) != text]
    final = Message("user", (*new_blocks, Block(_task(frame.run, parts.task), cache=True, part="task")))
    system, messages = get_shared_prefix(phase).system, (*earlier, final)
    if room := target.room(system, messages):
        return Request(target.resolved.model, system, messages, room, schema=parts.schema, continues_conversation=True)
    phase.warn(
        f"{seated.id} starts a new conversation: the earlier one no longer fits the window of {target.resolved.model}"
    )
    frame.sessions.pop(seated.id, None)
    return None


def _title(text: str) -> str:
    return text.partition("\n")[0]


def _prompt_target(frame: Frame, step: Step, seated: SeatedMember, parts: PromptParts) -> PromptTarget:
    resolved = frame.run.resolve_model(seated.member.model or seated.role.model)
    criteria = frame.text(step, "criteria") or frame.criteria
    return PromptTarget(frame.phase, resolved, step.id or step.verb, seated.id, parts.schema, parts.tools, criteria)


@dataclass(frozen=True)
class PromptTarget:
    """What a prompt is for: model, step, member, schema of the reply, and tools."""

    phase: PhaseRun
    resolved: ResolvedModel
    step: str
    member: str
    schema: dict[str, Any] | None
    tools: tuple[ToolSpec, ...] = ()
    criteria: str = ""
    """Acceptance criteria that replace those of the phase."""

    @property
    def reply_tokens(self) -> int:
        """The number of tokens that are kept free for the reply by shortening material."""
        return max(MIN_REPLY_TOKENS, min(self.resolved.max_output, self.resolved.window // REPLY_SHARE))

    def room(self, system: tuple[Block, ...], messages: tuple[Message, ...]) -> int:
        """Return the maximum length of the reply in tokens; 0 if the prompt leaves too little room for a reply."""
        window, most = self.resolved.window, self.resolved.max_output
        room = window - self.size(system, messages, window - most)
        return min(most, room) if room >= MIN_REPLY_TOKENS else 0

    def size(self, system: tuple[Block, ...], messages: tuple[Message, ...], enough: int = 0) -> int:
        """Return the estimated tokens of the request, or an upper bound if that is at most `enough`."""
        tools = estimate_tool_tokens(self.tools)
        return tools + estimate_request_tokens(system, messages, self.schema, enough - tools)


def assemble_request(
    target: PromptTarget,
    task: str,
    material: Sequence[MaterialBlock] = (),
    last: tuple[Block, ...] = (),
    *,
    shared: bool = False,
) -> Request:
    """Return a request that consists of the shared prefix, the step's material, the task, and the `last` blocks.

    If the request does not fit the window, material is shortened, the least important first, and the omissions are
    recorded. Raises StepFailed if the request still does not fit.
    """
    phase, resolved, schema = target.phase, target.resolved, target.schema
    opening = get_shared_prefix(phase).with_criteria(target.criteria)
    ending = (Block(_task(phase.run, task), cache=shared, part="task"), *last)
    usual = record_token_budget(phase, resolved.window)
    opened = opening.build_blocks(usual)
    handed = render_material(material, WHOLE)
    room = target.room(opening.system, _messages(opened, handed, ending))
    if room < target.reply_tokens:
        opened, handed = _fit_to_window(target, opening, usual, material, ending)
        room = target.room(opening.system, _messages(opened, handed, ending))
        if not room:
            raise _too_large(target, target.size(opening.system, _messages(opened, handed, ending)))
    messages = _messages(opened, handed, ending)
    phase.record.prompts.dropped_records = opened.dropped_records
    _record_prompt_stats(target, (*opening.system, *messages[0].blocks), [*opened.omissions, *handed.omissions])
    return Request(resolved.model, opening.system, messages, room, schema=schema)


def _messages(opened: PromptBlocks, handed: PromptBlocks, ending: tuple[Block, ...]) -> tuple[Message, ...]:
    return (Message("user", (*opened.blocks, *handed.blocks, *ending)),)


def _fit_to_window(
    target: PromptTarget,
    opening: SharedPrefix,
    usual: int,
    material: Sequence[MaterialBlock],
    ending: tuple[Block, ...],
) -> tuple[PromptBlocks, PromptBlocks]:
    """Return the prefix and the step's material, shortened to fit the window. Raises StepFailed."""
    bare = (
        *replace(opening, documents=(), references=(), summaries=(), block_cache={}).build_blocks(0).blocks,
        *ending,
    )
    fixed = target.size(opening.system, (Message("user", bare),))
    groups = [
        *opening.shortening_groups(usual),
        MaterialGroup.for_material(STEP_MATERIAL, material),
        opening.record_group(usual, TITLE_ONLY),
    ]
    window = target.resolved.window - fixed
    levels, total = fit_levels(groups, window - target.reply_tokens)
    if total > window - MIN_REPLY_TOKENS:
        raise _too_large(target, fixed + total)
    opened = opening.build_blocks(min(levels[RECORD], usual), levels[DOCUMENTS], levels[REFERENCES])
    return opened, render_material(material, levels[STEP_MATERIAL])


def _too_large(target: PromptTarget, size: int) -> StepFailed:
    window = target.resolved.window
    over = size + MIN_REPLY_TOKENS - window
    return StepFailed(
        f"the prompt of `{target.step}` for {target.member} is about {over} tokens too large for "
        f"{target.resolved.model}, whose window is {window}; no material is left to shorten "
        "(use a larger model, or shorten the section, the request, the criteria or the role)"
    )


def _record_prompt_stats(target: PromptTarget, blocks: Iterable[Block], left_out: list[MaterialOmission]) -> None:
    """Record the omissions of a prompt for the summary, and its parts if it is the longest prompt of the step."""
    phase, named = target.phase, [block for block in blocks if block.part]
    length = sum(len(block.text) for block in named)
    prompts = phase.record.prompts
    if prompts.is_longest(target.step, length):
        prompts.longest[target.step] = Longest(length, {block.part: _tokens(block.text) for block in named})
    for omission in left_out:
        phase.record_omission(target.step, omission.title, omission.tokens, str(omission))


@lru_cache(maxsize=64)  # the prompts of a phase have parts and tools in common
def _tokens(text: str) -> int:
    return estimate_tokens(text)


def is_persistent(frame: Frame, step: Step) -> bool:
    return bool(frame.value(step, "session", "fresh") == "persistent")


def conversation(frame: Frame, step: Step, seated: SeatedMember) -> tuple[Message, ...]:
    """Return a member's conversation before this step; empty if the step does not use a persistent session."""
    if not is_persistent(frame, step):
        return ()
    earlier = [messages for where, messages in frame.sessions.get(seated.id, {}).items() if where != frame.at(step)]
    return earlier[-1] if earlier else ()


def _speaker(frame: Frame, seated: SeatedMember) -> dict[str, object]:
    skills = []
    for name in seated.role.skills:
        skill = frame.run.program.library.agent_skill(name)
        if skill is not None:
            skills.append({"name": name, "body": skill.body})
    return {"variant": ABSENT, "lens": ABSENT, **seated.names, "body": seated.role.body, "skills": skills}


def estimate_request_tokens(
    system: tuple[Block, ...], messages: tuple[Message, ...], schema: dict[str, Any] | None, enough: int = 0
) -> int:
    """Return the estimated tokens of a request, or an upper bound if that is at most `enough`."""
    texts = [block.text for block in system]
    texts += [block.text for message in messages for block in message.blocks]
    if schema:
        texts.append(str(schema))
    frames = 8 * len(messages)
    bound = frames + sum(len(text) if text.isascii() else 3 * len(text) for text in texts)
    return bound if bound <= enough else frames + sum(map(estimate_tokens, texts))


def estimate_tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    """Return the estimated tokens of the tool definitions."""
    return _tokens(str([vars(tool) for tool in tools])) if tools else 0


def _task(run: Run, task: str) -> str:
    return render_template(run, "system/task", {"task": task})
