"""Assembles prompts: preamble, original request, material, references, earlier records, task, role.

The parts that several prompts share come first, so that providers can cache them. Every sentence of a prompt comes from
a markdown file. If a prompt cannot be made to fit the model's window, the step fails before the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from skillrun.definitions.definitions import Step
from skillrun.models.messages import Block, Message, Request, ToolSpec
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame, SeatedMember
from skillrun.runtime.prompts.material import (
    TITLE_ONLY,
    WHOLE,
    MaterialBlock,
    MaterialGroup,
    fit_levels,
)
from skillrun.runtime.prompts.shared_prefix import (
    DOCUMENTS,
    EARLIER_RECORDS,
    RECORD,
    REFERENCES,
    PromptBlocks,
    SharedPrefix,
    active_references,
    get_shared_prefix,
    record_token_budget,
    render_material,
    render_skill,
    render_template,
)
from skillrun.runtime.run import PhaseRun
from skillrun.scoring.compaction import estimate_tokens
from skillrun.templates.values import ABSENT

if TYPE_CHECKING:
    from skillrun.models.entries import ResolvedModel

MIN_REPLY_TOKENS: Final = 256  # a prompt that leaves less room does not fit
REPLY_SHARE: Final = 4  # material is shortened until a quarter of the window is free for the reply
STEP_MATERIAL: Final = "handed"


@dataclass(frozen=True)
class PromptParts:
    """The step, member and model of a prompt, and the parts of the request that depend on them."""

    phase: PhaseRun
    resolved: ResolvedModel
    step: str
    member: str
    task: str
    schema: dict[str, Any] | None
    material: Sequence[MaterialBlock] = ()
    tools: tuple[ToolSpec, ...] = ()
    criteria: str = ""
    """Acceptance criteria that replace the phase's criteria."""

    @property
    def reply_tokens(self) -> int:
        """The number of tokens that must stay free for the reply when material is shortened."""
        return max(MIN_REPLY_TOKENS, min(self.resolved.max_output, self.resolved.window // REPLY_SHARE))

    def room(self, system: tuple[Block, ...], messages: tuple[Message, ...]) -> int:
        """Return the maximum length of the reply in tokens; 0 if the prompt leaves too little room for a reply."""
        window, most = self.resolved.window, self.resolved.max_output
        room = window - estimate_request_tokens(system, messages, self.schema, self.tools, window - most)
        return min(most, room) if room >= MIN_REPLY_TOKENS else 0

    def task_block(self, *, cache: bool) -> Block:
        return Block(render_template(self.phase.run, "system/task", {"task": self.task}), cache=cache, part="task")


def build_request(frame: Frame, step: Step, seated: SeatedMember, parts: PromptParts, *, shared: bool) -> Request:
    """Return a member's first request in an attempt. `shared` means that other members get the same task.

    Raises StepFailed if the request does not fit the model's window.
    """
    role_texts = frame.phase.prompt_cache.role_texts
    if seated.id not in role_texts:
        library = frame.run.program.library
        shared_skills = [each.skill for each in active_references(frame.phase) if each.is_agent_skill]
        skills = [
            {"name": name, "body": render_skill(frame.run, skill, has_tools=parts.resolved.tools)}
            for name in seated.role.skills
            if name not in shared_skills and (skill := library.agent_skill(name)) is not None
        ]
        names = {"variant": ABSENT, "lens": ABSENT, **seated.names, "body": seated.role.body, "skills": skills}
        role_texts[seated.id] = render_template(frame.run, "system/role", names)
    role = Block(role_texts[seated.id], cache=is_persistent(frame, step), part="role")  # later requests repeat it
    return assemble_request(parts, (role,), shared=shared)


def build_followup_request(frame: Frame, step: Step, seated: SeatedMember, parts: PromptParts) -> Request | None:
    """Return the next request in a member's conversation.

    If the request does not fit the window, warn, forget the conversation, and return None.

    A piece of material is omitted if its text equals the latest text under the same title in the conversation.
    """
    earlier = conversation(frame, step, seated)
    texts = [block.text for message in earlier if message.role == "user" for block in message.blocks]
    known = {text.partition("\n")[0]: text for text in texts}
    pieces = [(piece.title, piece.render_at(WHOLE)[0]) for piece in parts.material]
    new_blocks = [Block(text, part=title) for title, text in pieces if known.get(text.partition("\n")[0]) != text]
    messages = (*earlier, Message("user", (*new_blocks, parts.task_block(cache=True))))
    system, model = get_shared_prefix(frame.phase).system, parts.resolved.model
    if room := parts.room(system, messages):
        return Request(model, system, messages, room, schema=parts.schema, continues_conversation=True)
    forget_conversation(frame, seated, f"the earlier one no longer fits the window of {model}")
    return None


def forget_conversation(frame: Frame, seated: SeatedMember, reason: str) -> None:
    """Warn that a member starts a new conversation, and forget the earlier one."""
    frame.phase.warn(f"{seated.id} starts a new conversation: {reason}")
    frame.sessions.pop(seated.id, None)


def assemble_request(parts: PromptParts, last: tuple[Block, ...] = (), *, shared: bool = False) -> Request:
    """Return a request that consists of the shared prefix, the step's material, the task, and the `last` blocks.

    If the request does not fit the window, material is shortened, the least important first, and the omissions are
    recorded. Raises StepFailed if the request still does not fit.
    """
    phase, resolved = parts.phase, parts.resolved
    opening = get_shared_prefix(phase).with_criteria(parts.criteria)
    ending = (parts.task_block(cache=shared), *last)
    usual = record_token_budget(phase, resolved.window)
    opened = opening.build_blocks(usual)
    handed = render_material(parts.material, WHOLE)
    messages = _messages(opened, handed, ending)
    room = parts.room(opening.system, messages)
    if room < parts.reply_tokens:
        opened, handed = _fit_to_window(parts, opening, usual, ending)
        messages = _messages(opened, handed, ending)
        room = parts.room(opening.system, messages)
        if not room:
            raise _too_large(parts, estimate_request_tokens(opening.system, messages, parts.schema, parts.tools))
    prompts = phase.record.prompts
    prompts.dropped_records = opened.dropped_records
    named = [block for block in (*opening.system, *messages[0].blocks) if block.part]
    length = sum(len(block.text) for block in named)
    if prompts.is_longest(parts.step, length):
        tokens = {block.part: estimate_tokens(block.text) for block in named}
        prompts.longest[parts.step] = length, tokens
    for omission in (*opened.omissions, *handed.omissions):
        if omission.title == EARLIER_RECORDS:  # they have a separate token budget, and members can look them up
            hint, level = "`context.accumulated_tokens` in config/skillrun.yaml limits them", "info"
            notice = f"omits {omission} ({hint})"
        else:
            size, level = f"the window of {resolved.model} has {resolved.window:,} tokens", "warn"
            hint = f"{size}; use a larger model, or correct its `window` in config/models.yaml"
            notice = f"exceeds the window; omitted: {omission} ({hint})"
        phase.record_omission(parts.step, omission.title, omission.tokens, str(omission), notice, level)
    return Request(resolved.model, opening.system, messages, room, schema=parts.schema)


def _messages(opened: PromptBlocks, handed: PromptBlocks, ending: tuple[Block, ...]) -> tuple[Message, ...]:
    return (Message("user", (*opened.blocks, *handed.blocks, *ending)),)


def _fit_to_window(
    parts: PromptParts, opening: SharedPrefix, usual: int, ending: tuple[Block, ...]
) -> tuple[PromptBlocks, PromptBlocks]:
    """Return the prefix and the step's material, shortened to fit the window. Raises StepFailed."""
    bare = replace(opening, documents=(), references=(), summaries=(), block_cache={}).build_blocks(0)
    fixed = estimate_request_tokens(
        opening.system, (Message("user", (*bare.blocks, *ending)),), parts.schema, parts.tools
    )
    groups = [
        *opening.shortening_groups(usual),
        MaterialGroup.for_material(STEP_MATERIAL, parts.material),
        opening.record_group(usual, TITLE_ONLY),
    ]
    window = parts.resolved.window - fixed
    levels, total = fit_levels(groups, window - parts.reply_tokens)
    if total > window - MIN_REPLY_TOKENS:
        raise _too_large(parts, fixed + total)
    opened = opening.build_blocks(min(levels[RECORD], usual), levels[DOCUMENTS], levels[REFERENCES])
    return opened, render_material(parts.material, levels[STEP_MATERIAL])


def _too_large(parts: PromptParts, size: int) -> StepFailed:
    window = parts.resolved.window
    over = size + MIN_REPLY_TOKENS - window
    return StepFailed(
        f"the prompt of `{parts.step}` for {parts.member} is about {over} tokens too large for "
        f"{parts.resolved.model}, whose window is {window}; no material is left to shorten "
        "(use a larger model, correct its `window` in config/models.yaml, "
        "or shorten the section, the request, the criteria or the role)"
    )


def is_persistent(frame: Frame, step: Step) -> bool:
    return bool(frame.value(step, "session", "fresh") == "persistent")


def conversation(frame: Frame, step: Step, seated: SeatedMember) -> tuple[Message, ...]:
    """Return a member's conversation before this step; empty if the step does not use a persistent session."""
    if not is_persistent(frame, step):
        return ()
    earlier = [messages for where, messages in frame.sessions.get(seated.id, {}).items() if where != frame.at(step)]
    return earlier[-1] if earlier else ()


FREE_CALLS: Final = 2_000  # characters of the tool calls of a turn that the estimate leaves out, since they are few


def estimate_request_tokens(
    system: tuple[Block, ...],
    messages: Sequence[Message],
    schema: dict[str, Any] | None,
    tools: tuple[ToolSpec, ...] = (),
    enough: int = 0,
) -> int:
    """Return the estimated tokens of a request. If an upper bound is at most `enough`, return that bound instead."""
    texts = [block.text for block in system]
    texts += [block.text for message in messages for block in message.blocks]
    calls = [str([call.to_dict() for call in message.calls]) for message in messages if message.calls]
    texts += [text for text in calls if len(text) > FREE_CALLS]
    if schema:
        texts.append(str(schema))
    fixed = 8 * len(messages) + (estimate_tokens(str([vars(tool) for tool in tools])) if tools else 0)
    bound = fixed + sum(len(text) if text.isascii() else 3 * len(text) for text in texts)
    return bound if bound <= enough else fixed + sum(map(estimate_tokens, texts))
