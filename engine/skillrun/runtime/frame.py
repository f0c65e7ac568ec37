"""The frame in which steps are evaluated: names, prompt sections, and address. Resolves members to their roles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skillrun.definitions.definitions import Prompt, Role, Step, enclosing_items, strip_markers
from skillrun.library.lookups import member_models
from skillrun.models.messages import Message
from skillrun.repository.paths import fold_path
from skillrun.runtime.errors import FileConflict, StepFailed
from skillrun.runtime.run import PhaseRun, Run
from skillrun.scoring.compaction import estimate_tokens
from skillrun.store.outcome import NextStep, Outcome
from skillrun.templates.values import ABSENT, Absent
from skillrun.types.fields import Member, MemberError, parse_member
from skillrun.types.json_schema import parse_json_schema
from skillrun.types.schemas import Shape, quote_value
from skillrun.types.types import identifier


class Evaluator(NamedTuple):
    """The functions that evaluate nested steps and inline workflows. Steps get them from their frame."""

    run_step: Callable[[Step, Frame], Awaitable[None]]
    run_phases: Callable[[Any], Awaitable[Outcome]]
    """Evaluates the phases of a `Schedule`."""


@dataclass(frozen=True)
class Task:
    """The task of a panel step. The steps of the protocol render the task for each member that reads it.

    `frame` is the frame of the panel step.
    """

    step: Step
    frame: Frame
    shape: Shape | None


@dataclass(frozen=True)
class StepResult:
    """The result of an attempt of a step: the value to which its id is bound, and the reason for each missing part.

    If parts are missing, the breaker decides whether the step is attempted again or continues with this value.
    """

    value: Mapping[str, Any] | None = None
    missing: Sequence[str] = ()


@dataclass
class Frame:
    """What steps are evaluated with: the names that templates see, the prompt sections, and the current address."""

    phase: PhaseRun
    address: str
    names: dict[str, Any]
    prompts: Mapping[str, Prompt]
    evaluator: Evaluator
    task: Task | None = None
    fresh: bool = False
    criteria: str = ""
    sequential: bool = False
    sessions: dict[str, dict[str, tuple[Message, ...]]] = field(default_factory=dict)  # keyed by member, then by step
    degraded_steps: list[str] = field(default_factory=list)

    @property
    def run(self) -> Run:
        return self.phase.run

    def evaluate(self, step: Step) -> Awaitable[None]:
        """Evaluate a step and bind its id to the result. Raises StepFailed if the step fails and has no fallback."""
        return self.evaluator.run_step(step, self)

    @contextmanager
    def address_scope(self, part: str) -> Iterator[None]:
        """Append `part` to the address until the context ends."""
        outer = self.address
        self.address = f"{outer}/{part}"
        try:
            yield
        finally:
            self.address = outer

    @contextmanager
    def name_scope(self, name: str) -> Iterator[None]:
        """Restore the earlier value of a name when the context ends."""
        missing = object()
        outer = self.names.get(name, missing)
        try:
            yield
        finally:
            if outer is missing:
                self.names.pop(name, None)
            else:
                self.names[name] = outer

    def mark_absent(self, names: Iterable[str]) -> None:
        """Mark these names as absent until a step binds them."""
        self.names.update(dict.fromkeys(names, ABSENT))

    def bind(self, name: str | None, value: Any) -> None:
        if name is not None:
            self.names[identifier(name)] = value

    def at(self, step: Step) -> str:
        """Return the address of a step. It ends with the step's id, or with the verb of a step without an id."""
        return f"{self.address}/{step.id or step.verb}"

    def value(self, step: Step, name: str, fallback: Any = ABSENT) -> Any:
        """Return the rendered value of a step's key; `fallback` if the step does not have the key."""
        value = step.values.get(name)
        return fallback if value is None else value.evaluate(self.names)

    def main(self, step: Step) -> Any:
        assert step.main is not None
        return step.main.evaluate(self.names)

    def claim_file(self, address: str, path: str, member: str = "") -> None:
        """Record that the step at an address writes a file, for a member of its list if it writes one for each.

        Raises FileConflict if another item of the same `each`, or a phase in no order with this one, has written it, or
        if such a phase has read it.
        """
        writer = address, self.phase.record.branch_label or address.partition("/")[2]
        file = fold_path(path)
        self.run.evaluation.owners[self.phase.round_path, file, strip_markers(address)] = (*writer, member)
        phase: PhaseRun | None = self.phase
        while phase is not None:  # in an inline workflow, the phases that contain it follow
            other, label = self.run.evaluation.writers.setdefault((phase.round_path, file), writer)
            self.run.evaluation.writers[phase.round_path, file] = writer
            if not _is_ordered(phase, other, address):
                raise file_conflict(label, writer[1], path, address)
            for reader in self.run.evaluation.readers.get((phase.round_path, file), ()):
                if not _is_ordered(phase, reader, address, items=False):
                    raise _read_conflict(reader, address, path, address)
            phase = phase.run.parent_phase

    def find_other_owner(self, address: str, path: str, member: str = "") -> str:
        """Return the other item or member for which the step wrote a file in another pass of a loop; "" if none."""
        key = self.phase.round_path, fold_path(path), strip_markers(address)
        owner, label, other_member = self.run.evaluation.owners.get(key, (address, "", ""))
        if owner == address or not _is_ordered(self.phase, owner, address):  # `claim_file` refuses an unordered step
            return ""
        other_item = label if enclosing_items(owner) != enclosing_items(address) else ""
        return other_item or (other_member if member != other_member else "")

    def claim_read(self, address: str, path: str) -> None:
        """Record that the step at an address reads a file of the run.

        Raises FileConflict if a phase in no order with this one has written it.
        """
        phase: PhaseRun | None = self.phase
        file = fold_path(path)
        while phase is not None:
            self.run.evaluation.readers.setdefault((phase.round_path, file), set()).add(address)
            writer, _ = self.run.evaluation.writers.get((phase.round_path, file), (address, ""))
            if not _is_ordered(phase, writer, address, items=False):
                raise _read_conflict(address, writer, path, address)
            phase = phase.run.parent_phase

    def text(self, step: Step, name: str = "", fallback: str = "") -> str:
        """Return the value of the verb, or of the key `name`, as text. Raises RenderError if the value is absent."""
        value = step.values.get(name) if name else step.main
        return fallback if value is None else value.text(self.names)

    def shape(self, step: Step) -> Shape | None:
        """Return the shape of the replies to a step, with all templates in it rendered; None for free text."""
        if step.schema is not None:
            return parse_json_schema(step.schema)
        spec = step.output
        if spec is not None and spec.name:
            text = self.run.program.library.text(spec.name)
            spec = text.output if text is not None else None
        if spec is None:
            return None
        if spec.is_task:
            return self.task.shape if self.task is not None else None
        return spec.resolve(self.names)

    def breaker_name(self, step: Step) -> str | None:
        """Return the name of the breaker that limits a `repeat` or `goto`: the value of `at_most`, or else of `retry`.

        None if the value is a number.
        """
        value = self.value(step, "at_most", step.retry)
        return value if isinstance(value, str) and not value.isdigit() else None

    def whole(self, step: Step, name: str, fallback: int, expected: str = "a whole number") -> int:
        """Return the value of a key, a whole number or digits, as an integer. Raises StepFailed for other values."""
        value = self.value(step, name, fallback)
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value
        if isinstance(number, bool | Absent) or not isinstance(number, int | float) or number != int(number):
            raise StepFailed(f"`{name}` is {quote_value(value)}; expected {expected}", self.at(step))
        return int(number)

    def cap(self, step: Step) -> int:
        """Return the number that `at_most` gives, or the limit of the breaker that it names. Raises StepFailed."""
        name = self.breaker_name(step)
        if name is not None:
            if not self.phase.breakers.is_defined(name):
                raise StepFailed(f"`at_most` is `{name}`, which is neither a number nor a breaker", self.at(step))
            return self.phase.breakers.settings_for(name).limit
        return self.whole(step, "at_most", 1, "a whole number, or the name of a breaker")


def _is_ordered(phase: PhaseRun, first: str, second: str, *, items: bool = True) -> bool:
    """Return whether one of two steps follows the other. `phase` or a phase of the same workflow contains each step.

    Without `items`, the items of an `each` count as ordered.
    """
    parts = zip(first.split("/"), second.split("/"), strict=False)
    at, (one, two) = next(((at, pair) for at, pair in enumerate(parts) if pair[0] != pair[1]), (-1, ("", "")))
    workflow = phase.run.program.workflow
    if at == phase.address().count("/") and {one, two} <= workflow.phases.keys():
        return one in workflow.ancestors(two) or two in workflow.ancestors(one)
    return not (items and "~" in one and "~" in two and one.partition("~")[0] == two.partition("~")[0])


def _read_conflict(reader: str, writer: str, path: str, address: str) -> FileConflict:
    """Return the error for a file that one phase reads and another writes, if neither follows the other."""
    labels = f"`{reader.partition('/')[2]}` reads {quote_value(path)}, which `{writer.partition('/')[2]}` writes"
    phases = [one.split("/")[1] for one in (writer, reader)]
    way = NextStep.of(f"add `after: [{phases[0]}]` to `{phases[1]}`")
    return FileConflict(f"{labels}, and neither follows the other", address, way)


def file_conflict(first: str, second: str, path: str, address: str) -> FileConflict:
    """Return the error for two writers of a file. The label of each is an address, or an `each` and an item."""
    (each, _, one), (other, _, two) = first.partition(" "), second.partition(" ")
    writers = f"`{each}`: {one} and {two}" if each == other and one and two else f"`{first}` and `{second}`"
    way = NextStep.of("include the item's id, or the phase, in the name of the file")
    return FileConflict(f"{writers} both write {quote_value(path)}", address, way)


@dataclass(frozen=True)
class SeatedMember:
    """A member with its role and the name of its model. `names` are the member's values in templates."""

    member: Member
    role: Role
    model: str
    names: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.member.id


async def resolve_members(frame: Frame, several: list[Any]) -> list[SeatedMember]:
    """Pin the models of the members, and return the members in the given order. Raises StepFailed.

    Each entry is the written form of a member, or a record whose `id` is that form.
    """
    run, library, seated = frame.run, frame.run.program.library, []
    ids = [str(member.get("id") if isinstance(member, Mapping) else member) for member in several]
    await run.pin_models(name for written in ids for name in member_models(library, written, run.override))
    for written in ids:
        try:
            member = parse_member(written)
        except MemberError as error:
            raise StepFailed(str(error)) from None
        role = library.role(member.role)
        if role is None:
            raise StepFailed(f"the role `{member.role}` does not exist")
        lens = role.variants.get(member.variant) if member.variant else None
        if member.variant and lens is None:
            raise StepFailed(f"the role `{member.role}` has no variant `{member.variant}`")
        model = member.model or role.model_under(run.override)
        names: dict[str, object] = {"id": member.id, "role": member.role, "model": run.resolve_model(model).short_name}
        if member.variant:
            names |= {"variant": member.variant, "lens": lens}
        skills = map(library.agent_skill, role.skills)
        texts = (role.body, lens or "", *(skill.body for skill in skills if skill is not None))
        names["lines"], names["tokens"] = len(role.body.splitlines()), estimate_tokens("\n".join(texts))
        names["skills"] = list(role.skills)
        seated.append(SeatedMember(member, role, model, names))
    return seated
