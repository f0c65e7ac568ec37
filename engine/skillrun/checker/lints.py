"""Warns of two probable mistakes: placeholders of other tools, and loops or rounds that repeat the same requests.

A placeholder is reported only if it matches a name in the file, or includes a file in another tool. A repeated request
has no effect, because an unchanged prompt gets its recorded reply. Loops and rounds in which a request might change get
no warning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from jinja2 import nodes

from skillrun.checker.inference import HISTORY
from skillrun.checker.program import CheckedProtocol, NestedCall, QuestionStep
from skillrun.definitions.definitions import Step, Workflow
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Span
from skillrun.templates.expressions import Template
from skillrun.types.fields import Field
from skillrun.types.types import Type, identifier

_PLACEHOLDER: Final = re.compile(
    r"(?<![\w{<$\\])(?:\{(?P<brace>[a-zA-Z][\w-]{0,60})\}(?!\})|<(?P<angle>[a-zA-Z][\w-]{0,60})>"
    r"|\$\{?(?P<dollar>[a-zA-Z]\w{0,60})\}?)"
)
_INCLUDE: Final = re.compile(
    r"^(?:@(?:import|include) \S{1,200}|@[\w.-]{0,60}/[\w./-]{1,140}|@[\w.-]{1,60}\.(?:md|txt|ya?ml|json)"
    r"|!\[\[[^\]\n]{1,200}\]\]|\[\[[^\]\n]{1,200}\.\w{1,9}\]\]|<<[^<>\s]{1,200}\.\w{1,9}>>|\{file:[^}\n]{1,200}\}"
    r"|!`[^`\n]{1,200}`)(?=[ \t]*$)",
    re.MULTILINE,
)
_CODE: Final = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})[\s\S]*?(?:^ {0,3}(?P=fence)|\Z)|`[^`\n]*`", re.MULTILINE)
DECLARED: Final = ("inputs", "state")
MODEL_VERBS: Final = ("agent", "panel")
_HINT: Final = "read `history` or a variable set in the round; or use `fresh: true` to call the models again"


def warn_about_placeholders(
    template: Template, names: Mapping[str, Type], steps: Collection[str], problems: Problems
) -> None:
    """Warn of `{change}`, `<change>` and `$change` in a prompt if `change` is a step, an input or a variable.

    Also warns of `$ARGUMENTS`, and of a line with which another tool would include a file or run a command.
    """
    text = template.text.value
    known = {name: f"{owner}.{name}" for owner in reversed(DECLARED) if owner in names for name in names[owner].fields}
    bound = {identifier(step) for step in steps} & names.keys()
    known |= {name: f"{name}.text" for name in bound if "text" in names[name].fields}
    found = [(match.start(), match[0], "use `references:` or a `read` step") for match in _INCLUDE.finditer(text)]
    parts = template.tree.find_all(nodes.TemplateData) if any(sign in text for sign in "{<$") else ()
    for start, part in ((data.lineno, data.data) for data in parts) if not template.is_constant else [(0, text)]:
        for match in _PLACEHOLDER.finditer(part):
            name = next(group for group in match.groups() if group)
            replacement = known.get(identifier(name), "inputs.…" if name == "ARGUMENTS" else "")
            if replacement and not (match["angle"] and f"</{name}>" in text):
                found.append((start + match.start(), match[0], f"write `{{{{ {replacement} }}}}`"))
    code = [block.span() for block in _CODE.finditer(text)] if found else []
    for at, written, use in found:
        if not any(begin <= at < end for begin, end in code):
            hint = f"{use}, or put it in backticks if it is meant as text"
            problems.report(template.text.at(at), "placeholder", f"`{written}` is sent as plain text", hint, "warning")


def find_printed_replies(template: Template) -> Iterator[Span]:
    """Yield the location of each call of `others(…)` that a section prints."""
    for output in template.tree.find_all(nodes.Output) if template.mentions_any("others") else ():
        pending: list[nodes.Node] = list(output.nodes)
        while pending:
            match pending.pop():
                case nodes.Call(node=nodes.Name(name="others")) as call:
                    yield template.span(call)
                case nodes.Or(left=left, right=right):
                    pending += [left, right]
                case nodes.CondExpr(expr1=left, expr2=right):
                    pending += [side for side in (left, right) if side is not None]


def find_unread_inputs(inputs: Iterable[Field], reads: Collection[str]) -> list[Field]:
    """Return the inputs that are not in `reads`. The entry `inputs.*` means that all inputs are read."""
    return [field for field in inputs if not {"inputs.*", f"inputs.{identifier(field.name)}"} & {*reads}]


def only_calls_models(steps: Collection[Step]) -> bool:
    """Whether the steps call models without a `session`, and no other step reads new information."""
    asking = [step for step in steps if step.verb in MODEL_VERBS]
    if not asking or any("session" in step.values for step in asking):
        return False
    return not any(step.verb in ("run", "ask", "read", "find", "") for step in steps)


def is_unchanging_loop(steps: Iterable[Step], texts: Iterable[Template]) -> bool:
    """Whether a loop calls models and sends the same requests in every pass.

    `texts` are the sections of the loop's steps, and all shared texts in their prompts.
    """
    inner_steps = [inner for step in steps for inner in step.walk()]
    if not only_calls_models(inner_steps):
        return False
    bound = {"pass", "run", "others", "bank", "history"} | {identifier(step.id) for step in inner_steps if step.id}
    bound |= {identifier(step.item) for step in inner_steps if step.verb == "each"}
    if assigned := {name for step in inner_steps for name in step.assignments}:
        bound |= assigned | {"state", "features", *(["config"] if "mode" in assigned else [])}
    conditions = [step.when for step in inner_steps if step.when is not None]
    asking = (step for step in inner_steps if step.verb in MODEL_VERBS)
    values = (value for step in asking for value in (step.main, *step.values.values()) if value is not None)
    templates = [*texts, *conditions, *(template for value in values for template in value.templates())]
    return not any(template.mentions_any(*bound) for template in templates)


@dataclass(frozen=True)
class RoundPart:
    """A phase in a round.

    `own_steps` are the steps of the phase. `steps` also includes the steps of callees. `reads` has the names that
    `steps` read.
    """

    own_steps: tuple[Step, ...]
    steps: tuple[Step, ...]
    reads: frozenset[str]


def warn_about_unchanging_rounds(workflow: Workflow, parts: Mapping[str, RoundPart], problems: Problems) -> None:
    """Warn of each `goto` that starts a round with the same requests as the previous round."""
    for name, part in parts.items():
        for step in _goto_steps(part.own_steps):
            if step.text not in workflow.phases:
                continue
            later_phases = {*workflow.followers(name)} - {name}
            repeated_parts = [parts[other] for other in workflow.followers(step.text) if other not in later_phases]
            if not _may_change(repeated_parts):
                message = f"going back to `{step.text}` sends the same requests again and gets the same replies"
                problems.report(step.span, "same-again", message, _HINT, "warning")


def nested_steps(question_steps: Iterable[QuestionStep | NestedCall]) -> Iterator[Step]:
    """Yield the steps of all protocols and workflows that are called directly or by another one."""
    for nested in question_steps:
        for callee in nested.callees if isinstance(nested, NestedCall) else ():
            files = [callee.protocol] if isinstance(callee, CheckedProtocol) else callee.phases.values()
            for file in files:
                yield from file.walk()
            if isinstance(callee, CheckedProtocol):
                yield from nested_steps(callee.question_steps)
            else:
                for steps in callee.question_steps.values():
                    yield from nested_steps(steps)


def _goto_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the `goto` steps. Those in an `otherwise` are left out, because the failed step may succeed in the next
    round."""
    for step in steps:
        if step.verb == "goto":
            yield step
        yield from _goto_steps(step.steps)


def _may_change(parts: Collection[RoundPart]) -> bool:
    steps = [step for part in parts for step in part.steps]
    if not only_calls_models(steps) or any("fresh" in step.values for step in steps):
        return True
    reads = frozenset[str]().union(*(part.reads for part in parts))
    names = {name for step in steps for name in step.assignments}
    changing = {HISTORY, *(f"state.{name}" for name in names), *(["state.*"] if names else [])}
    owners = {"run", *(("config", "features") if "mode" in names else ())}
    return any(read in changing or read.split(".")[0] in owners for read in reads)
