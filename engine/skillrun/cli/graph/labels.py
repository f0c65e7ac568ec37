"""Describes phases and steps in plain words, for every output format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from skillrun.cli.formatting import count_noun
from skillrun.cli.graph.model import PhaseNode, StepNode, WorkflowGraph
from skillrun.syntax.diagnostics import make_printable

SegmentKind = Literal["words", "name", "role", "file", "code"]

VERBS_WITHOUT_ID: Final = ("read", "write", "find")  # the path or expression is more useful than the id
MAX_TEXT: Final = 160  # characters of one text in a drawing
MAX_MEMBERS: Final = 8  # members listed in one step; the others are only counted
FAMILIES: Final = {
    "agent": "model", "panel": "model", "ask": "user", "read": "file", "find": "file", "write": "file",
    "repeat": "loop", "each": "loop", "decide": "choice", "goto": "jump", "stop": "jump", "run": "run",
}  # fmt: skip
"""The group of each verb. A picture shows a group in one colour; `set` and `say` have no group."""


@dataclass(frozen=True)
class LabelPart:
    """A part of a line, with a kind that determines its style in a picture."""

    kind: SegmentKind
    text: str


def clean(text: str, longest: int = MAX_TEXT) -> str:
    """Return a text on one line, without control characters, and cut with an ellipsis after `longest` characters."""
    line = " ".join(make_printable(text).split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def graph_summary(graph: WorkflowGraph) -> list[str]:
    """Return lines about the whole workflow: its size, questions to the user, jumps back, and outputs."""
    asking = [phase.name for phase in graph.phases if any(step.verb == "ask" for step in phase.walk())]
    back = [f"from {phase.name} to {target}" for phase in graph.phases for target in phase.back_to]
    lines = [count_noun(len(graph.phases) + graph.undrawn, "phase")]
    lines += [f"can ask you in {join_names(asking)}"] if asking else []
    lines += [f"can go back {join_names(back)}"] if back else []
    lines += [f"returns {join_names(graph.outputs)}"] if graph.outputs else []
    return [clean(line, 2 * MAX_TEXT) for line in lines]


def phase_notes(phase: PhaseNode) -> list[str]:
    """Return notes about a phase: when it runs, what it reads, and what happens if it fails."""
    notes = [f"runs after {join_names(phase.after)}"] if phase.after else []
    notes += [f"only if {phase.when}"] if phase.when else []
    notes += [f"reads the results of {join_names(phase.reads)}"] if phase.reads else []
    notes += _failure_notes(phase.retry_limit, phase.retry_then, phase.otherwise)
    notes += ["its file cannot be read"] if phase.is_missing else []
    return [clean(note, 2 * MAX_TEXT) for note in notes]


def omissions(graph: WorkflowGraph) -> list[str]:
    """Return notes about the omitted steps and phases."""
    what = "only sets values or prints a message" if graph.minor == 1 else "only set values or print messages"
    lines = [f"{count_noun(graph.minor, 'step')} that {what} (use `--all` to show)"] if graph.minor else []
    lines += [f"{count_noun(graph.undrawn, 'phase')} beyond the size of a picture"] if graph.undrawn else []
    return [f"not shown: {line}" for line in lines]


def cut_note(phase: PhaseNode) -> str:
    """Return a note about the omitted steps of a phase; empty if all are shown."""
    return f"{count_noun(phase.cut, 'step')} more, not shown" if phase.cut else ""


def step_line(step: StepNode, *, with_id: bool = True) -> list[LabelPart]:
    """Return the parts of a step's line, without the verb and the notes."""
    has_id = with_id and step.id and step.verb not in VERBS_WITHOUT_ID
    parts = [*([LabelPart("name", step.id)] if has_id else []), *_line_parts(step)]
    return [LabelPart(part.kind, clean(part.text)) for part in parts if part.text]


def step_notes(step: StepNode) -> list[str]:
    """Return the notes below a step's line: its condition, its choices, and what happens if it fails."""
    notes = [f"if {step.when}"] if step.when else []
    notes += [f"choices: {', '.join(step.choices)}"] if step.choices else []
    if step.verb != "goto":
        notes += _failure_notes(step.retry_limit, step.retry_then, step.otherwise)
    elif step.otherwise is not None:
        notes.append(f"after that: {step_phrase(step.otherwise)}")
    return list(map(clean, notes))


def step_phrase(step: StepNode) -> str:
    """Return a step as part of a sentence, for example about a fallback."""
    words = join_parts(step_line(step, with_id=False))
    verb = {"agent": "agent", "panel": "panel of"}.get(step.verb, "")
    condition = f" (if {step.when})" if step.when else ""
    if step.verb in ("repeat", "each"):
        words = f"{words}: {count_noun(len(step.steps), 'step')}"
    return clean(" ".join(filter(None, (verb, words))) + condition)


def join_parts(pieces: Iterable[LabelPart]) -> str:
    """Return the parts as one line of text, with code in backticks and a colon after each name."""
    text = last = ""
    for piece in pieces:
        joint = {"": "", "name": ": "}.get(last, ", " if last == piece.kind == "role" else " ")
        text += joint + (f"`{piece.text}`" if piece.kind == "code" else piece.text)
        last = piece.kind
    return text


def join_names(names: Iterable[str], last: str = "and") -> str:
    """Return names as text: `a`, `a and b`, or `a, b and c`."""
    *front, end = names
    return f"{', '.join(front)} {last} {end}" if front else end


def describe_limit(at_most: str) -> str:
    """Return a limit as text: `at most once` or `at most 3 times`."""
    return "at most once" if at_most == "1" else f"at most {at_most} times"


def _failure_notes(limit: str, then: str, otherwise: StepNode | None) -> Iterator[str]:
    """Yield a note about what happens if a step or phase fails. The fallback `otherwise` has priority over the
    breaker's action `then`, unless that is `skip`."""
    when = f"after {count_noun(int(limit), 'failure')}" if limit.isdecimal() else "if it fails"
    if otherwise is not None and then != "skip":
        yield f"{when}: {step_phrase(otherwise)}"
    elif then:
        ends = {"ask": "asks you what to do", "skip": "continues without it", "sequential": "runs one phase at a time"}
        yield f"{when}: {ends.get(then, then)}"


def _line_parts(step: StepNode) -> Iterator[LabelPart]:
    """Yield the parts of a step's line, without its name and condition."""
    match step.verb:
        case "agent" | "panel":
            yield from _members(step)
        case "ask":
            yield from _question(step)
        case "read" | "write":
            yield LabelPart("file", step.path)
        case "find":
            yield from (LabelPart("words", "looks in the code base for"), LabelPart("code", step.expression))
        case "say":
            yield LabelPart("words", f"{'warns' if step.level == 'warn' else 'says'}: {step.text}")
        case "set":
            yield LabelPart("words", f"sets {join_names(step.names)}" if step.names else "")
        case "decide":
            outcomes = (*step.outcomes, *(() if step.is_fixed else ("another value",)))
            yield LabelPart("words", f"chooses {join_names(outcomes, 'or')}" if step.outcomes else "chooses a value")
        case "repeat" | "each":
            yield from _loop(step)
        case "run":
            yield LabelPart("words", f"runs the workflow {step.target}")
        case "goto":
            often = f", {describe_limit(step.at_most)}" if step.at_most else ""
            yield LabelPart("words", f"goes back to {step.target}{often}")
        case "stop":
            yield LabelPart("words", f"ends the run as {step.target}{f': {step.text}' if step.text else ''}")
        case _:
            yield LabelPart("words", "this step has an error")


def _members(step: StepNode) -> Iterator[LabelPart]:
    if step.members:
        yield from (LabelPart("role", member) for member in step.members[:MAX_MEMBERS])
        more = len(step.members) - MAX_MEMBERS
        notes = [f"and {more} more"] if more > 0 else []
        notes += [] if step.is_fixed else ["(chosen during the run)"]
        yield LabelPart("words", " ".join(notes))
    else:
        yield from (LabelPart("words", "members from"), LabelPart("code", step.expression))
    if step.verb == "panel" and step.protocols:
        yield LabelPart("words", f"by protocol {join_names(step.protocols, 'or')}")
    elif step.verb == "agent" and step.path:
        yield from (LabelPart("words", "writes"), LabelPart("file", step.path))


def _question(step: StepNode) -> Iterator[LabelPart]:
    if step.questions:
        yield LabelPart("words", f'asks you: "{clean(step.questions[0], MAX_TEXT - 12)}"')
        more = len(step.questions) - 1
        yield LabelPart("words", f"and {count_noun(more, 'more question')}" if more else "")
    else:
        yield from (LabelPart("words", "asks you the questions in"), LabelPart("code", step.expression))
    if step.path:
        yield from (LabelPart("words", "in the file"), LabelPart("file", step.path))


def _loop(step: StepNode) -> Iterator[LabelPart]:
    if step.verb == "each":
        yield from (LabelPart("words", f"for each {step.item} of"), LabelPart("code", step.expression))
        yield LabelPart("words", f"({step.at_once} at a time)" if step.at_once else "")
        return
    if not step.until and not step.at_most:
        yield LabelPart("words", "these steps together")
    if step.at_most:
        yield LabelPart("words", describe_limit(step.at_most))
    if step.until:
        yield from (LabelPart("words", "until"), LabelPart("code", step.until))
