"""The prefix that all prompts of a phase share: preamble, request, workflow's material, references, earlier records.

The prefix is built again only when the phase changes its state, and is rendered once for each level of shortening.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from skillrun.definitions.definitions import AgentSkill, Reference
from skillrun.models.messages import Block
from skillrun.repository.repository import SKILL_PREFIX
from skillrun.runtime.prompts.material import (
    TITLE_ONLY,
    WHOLE,
    MaterialBlock,
    MaterialGroup,
    MaterialOmission,
    Outline,
    build_material_block,
    outline_of,
)
from skillrun.runtime.run import PhaseRun, Run
from skillrun.scoring.compaction import KINDS, accumulate, estimate_tokens, record_cost
from skillrun.store.frontmatter import format_json_text
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.templates.expressions import Value
from skillrun.templates.functions import to_single_line, wrap_untrusted_text
from skillrun.templates.limits import render_budget
from skillrun.templates.values import ABSENT

CACHE_FROM: Final = 1024  # tokens; providers do not cache a shorter prefix
LEAST_RECORD: Final = 500  # tokens for records of earlier phases, in a small window
RECORD_SHARE: Final = 0.05  # the share of the window for records of earlier phases, in a large window
NAMING: Final = 24  # tokens of the sentence that names what was omitted
LONGEST_NAME: Final = 40  # characters
MOST_NAMED: Final = 100  # omitted records that are named
RENDER_BUDGET_FACTOR: Final = 100  # a multiple of an author's limit; the size of prompts is checked later
REFERENCES: Final = "references"
RECORD: Final = "record"
DOCUMENTS: Final = "documents"
EARLIER_RECORDS: Final = "records of earlier phases"


@dataclass(frozen=True)
class PromptBlocks:
    """Blocks of a prompt, and what was omitted from the blocks."""

    blocks: tuple[Block, ...]
    omissions: list[MaterialOmission] = field(default_factory=list)
    dropped_records: list[Any] = field(default_factory=list)


def render_material(pieces: Sequence[MaterialBlock], level: int) -> PromptBlocks:
    at_level = [(piece.title, *piece.render_at(level)) for piece in pieces]
    return PromptBlocks(
        tuple(Block(text, part=title, left_out=(left.amount,) if left else ()) for title, text, left in at_level),
        [left for *_, left in at_level if left],
    )


@dataclass(frozen=True)
class SharedPrefix:
    """The parts with which all prompts of a phase begin. The documents (the workflow's material), the references, and
    the records of earlier phases can be shortened."""

    phase: PhaseRun
    system: tuple[Block, ...]
    request: Block
    documents: tuple[MaterialBlock, ...]
    references: tuple[tuple[str, Outline], ...]
    summaries: tuple[Mapping[str, Any], ...]
    acceptance: Any
    block_cache: dict[tuple[int, ...], PromptBlocks] = field(default_factory=dict)
    variants: dict[str, SharedPrefix] = field(default_factory=dict)

    def with_criteria(self, criteria: str) -> SharedPrefix:
        """Return the prefix with a step's own acceptance criteria; unchanged if `criteria` is empty."""
        if not criteria:
            return self
        if criteria not in self.variants:
            self.variants[criteria] = replace(self, acceptance=criteria, block_cache={})
        return self.variants[criteria]

    def shortening_groups(self, usual: int) -> list[MaterialGroup]:
        """Return the groups that can be shortened, the least important first. A part of the records is always kept."""
        texts = [text for _, text in self.references]
        named = NAMING + estimate_tokens(", ".join(name for name, _ in self.references)) if texts else 0
        references = MaterialGroup(
            REFERENCES,
            max((text.most for text in texts), default=0),
            TITLE_ONLY,
            lambda level: named + sum(text.cost(level) for text in texts if level != TITLE_ONLY),
        )
        return [
            references,
            self.record_group(usual, min(usual, LEAST_RECORD)),
            MaterialGroup.for_material(DOCUMENTS, self.documents),
        ]

    def record_group(self, usual: int, least: int) -> MaterialGroup:
        """Return the group of earlier decisions, open questions and risks. Its level is a number of tokens."""
        records = accumulate(self.summaries, usual)
        held = sum(record_cost(record) for kind in KINDS for record in records[kind])
        ids = sorted((_id(record) for several in records.values() for record in several), key=len)[-MOST_NAMED:]
        names = estimate_tokens(", ".join(ids)) + NAMING if ids else 0
        return MaterialGroup(RECORD, min(usual, held), least, lambda level: min(max(0, level), held) + names)

    def build_blocks(self, record: int, documents: int = WHOLE, references: int = WHOLE) -> PromptBlocks:
        """Return the blocks of the prefix. Each group is shortened to its level."""
        key = (record, documents, references)
        if key not in self.block_cache:
            self.block_cache[key] = self._blocks(*key)
        return self.block_cache[key]

    def _blocks(self, record: int, documents: int, references: int) -> PromptBlocks:
        documents_shown = render_material(self.documents, documents)
        blocks = [replace(block, cache=block is documents_shown.blocks[-1]) for block in documents_shown.blocks]
        shortened, texts = list[MaterialOmission](), []
        for name, text in self.references:
            short = text.shorten(references)
            texts.append(short.text)
            if references != WHOLE and references < text.most:
                shortened.append(MaterialOmission(name, short.omitted_tokens, text.size, short.sections))
        left_out = [*documents_shown.omissions, *shortened]
        known = accumulate(self.summaries, max(0, record))
        dropped = [_id(entry["record"]) for entry in known["dropped"]]
        if dropped:
            gone = sum(record_cost(entry["record"]) for entry in known["dropped"])
            held = sum(record_cost(entry) for kind in KINDS for entry in known[kind])
            left_out.append(MaterialOmission(EARLIER_RECORDS, gone, gone + held, tuple(dropped)))
        names: dict[str, object] = {
            **{kind: known[kind] for kind in KINDS},
            "dropped": dropped[:MOST_NAMED],
            "more_dropped": len(dropped[MOST_NAMED:]),
            "references": [text for text in texts if text],
            "references_dropped": [omission.title for omission in shortened],
            "records": self.phase.run.program.can_record,
        }
        records = render_template(self.phase.run, "system/on-record", names).strip()
        names["on_record"] = wrap_untrusted_text(records) if records else ""
        without = tuple(map(str, left_out[len(documents_shown.omissions) :]))
        pack = Block(
            render_template(self.phase.run, "system/context-pack", names),
            cache=True,
            part="on record",
            left_out=without,
        )
        done = Block(
            render_template(self.phase.run, "system/criteria", {"acceptance_criteria": self.acceptance}),
            part="criteria",
        )
        return PromptBlocks((replace(self.request, cache=not blocks), *blocks, pack, done), left_out, known["dropped"])


def _id(record: Mapping[str, Any]) -> str:
    return to_single_line(str(record.get("id") or "?"), LONGEST_NAME)


def get_shared_prefix(phase: PhaseRun) -> SharedPrefix:
    """Return the shared prefix of a phase's prompts. It is rebuilt only after the phase has changed its state."""
    if phase.prompt_cache.shared_prefix is None:
        phase.prompt_cache.shared_prefix = _build_prefix(phase)
    opening: SharedPrefix = phase.prompt_cache.shared_prefix
    return opening


def is_worth_caching(phase: PhaseRun) -> bool:
    """Return whether the shared prefix is long enough for a provider to cache."""
    opening = get_shared_prefix(phase)
    blocks = (*opening.system, *opening.build_blocks(record_token_budget(phase, 0)).blocks)
    least = int((phase.run.program.engine.get("context") or {}).get("cache_from", CACHE_FROM))
    return sum(estimate_tokens(block.text) for block in blocks) >= least


def _build_prefix(phase: PhaseRun) -> SharedPrefix:
    run, workflow = phase.run, phase.run.program.workflow
    preamble = workflow.preamble.render_text(phase.names).strip() if workflow.preamble is not None else ""
    first = workflow.first_input
    # the first required input, unchanged except that JSON is indented
    text = format_json_text(str(run.state.inputs.get(first.name, ""))) if first is not None else ""
    names = {"request": wrap_untrusted_text(text), "records": run.program.can_record}
    request = render_template(run, "system/request", names)
    acceptance = phase.phase.acceptance
    return SharedPrefix(
        phase,
        (Block(preamble, part="preamble"),) if preamble else (),
        Block(request, part="request"),
        tuple(material_blocks(run, workflow.material, phase.names)),
        tuple((name, outline_of(text)) for name, text in _references(phase)),
        tuple(data["summary"] for data in phase.names["phases"].values()),
        acceptance.render_text(phase.names) if acceptance is not None else ABSENT,
    )


def material_blocks(run: Run, material: Value | None, names: Mapping[str, Any]) -> list[MaterialBlock]:
    """Return the pieces that a `material` key declares, with their current values. Absent values are left out."""
    if material is None:
        return []

    print_piece = partial(render_template, run, "system/material")
    pieces = (build_material_block(title, value, print_piece) for title, value in material.evaluate(names).items())
    return [piece for piece in pieces if piece is not None]


def record_token_budget(phase: PhaseRun, window: int) -> int:
    """Return how many tokens of a window the records of earlier phases can take if nothing is shortened."""
    context = phase.run.program.engine.get("context") or {}
    share = float(context.get("accumulated_share", RECORD_SHARE))
    return max(int(context.get("accumulated_tokens", LEAST_RECORD)), int(window * share))


def _references(phase: PhaseRun) -> Iterator[tuple[str, str]]:
    library = phase.run.program.library
    for reference in active_references(phase):
        if reference.is_agent_skill:
            skill = library.agent_skill(reference.skill)
            body = render_skill(phase.run, skill) if skill else ""
        else:
            text = library.text(reference.skill, "reference")
            body = text.template.render_text(phase.names) if text else ""
        if body.strip():
            yield reference.skill, body.strip()


def active_references(phase: PhaseRun) -> list[Reference]:
    """Return the references of a phase whose condition holds."""
    return [each for each in phase.phase.references if each.when is None or each.when.render(phase.names)]


def render_skill(run: Run, skill: AgentSkill, *, has_tools: bool = True) -> str:
    """Return an Agent Skill as text for a prompt. It names the skill's folder to a member that has tools."""
    folder = f"{SKILL_PREFIX}{skill.name}/" if skill.folder is not None and has_tools else ABSENT
    return render_template(run, "system/agent-skill", {"body": skill.body, "folder": folder}).strip()


def render_template(run: Run, name: str, names: Mapping[str, Any]) -> str:
    """Render a system template. Raises SkillrunError if the template is missing or invalid."""
    text = run.program.library.text(name)
    if text is None:
        raise SkillrunError(f"`skills/{name}.md` is missing or broken", "run `skillrun validate` for details")
    with render_budget(RENDER_BUDGET_FACTOR):
        return text.template.render_text(names)
