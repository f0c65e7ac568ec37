"""Turns documents into definitions, and reports what is wrong with each of them alone.

Looks at one file at a time; what concerns several files is `check`'s.
"""

from __future__ import annotations

import re
from typing import Any, Final

from skillrun.language.definitions import (
    Phase,
    PhaseUse,
    Prompt,
    Protocol,
    Reference,
    Role,
    Seats,
    Step,
    Workflow,
)
from skillrun.language.diagnostics import Problems, allowed, did_you_mean, suggest
from skillrun.language.document import check_sections
from skillrun.language.expressions import Template
from skillrun.language.kinds import KINDS, PHASE_USE_KEYS, REFERENCE_KEYS, SKILL_KINDS, SUMMARY_KEYS, VERBS
from skillrun.language.reader import ID, Reader, close_to, compiled, spans_of
from skillrun.language.source import Document, Mapping, Node, Scalar, Section, Sequence, Span, plain

ACCEPTANCE: Final = "acceptance criteria"
PREAMBLE: Final = "preamble"
_RANGE: Final = re.compile(r"(\d+)\s*\.\.\s*(\d+)")


def parse_workflow(document: Document, name: str, problems: Problems) -> Workflow:
    """The workflow in `document`; what cannot be read is left out and reported."""
    reader = Reader(problems)
    found = reader.read(document.front, KINDS["workflow"])
    written = found.get("name", name)
    if written != name:
        message = f"the workflow is called `{written}`, its file `{name}.md`"
        problems.report(spans_of(document.front)["name"], "name", message, "give both the same name")
    check_sections(document, problems)
    for section in document.sections:
        close = did_you_mean(section.name.lower(), (PREAMBLE,))
        if close:
            problems.report(section.heading, "unused-section", f"nothing uses the section `{section.name}`", close)
    return Workflow(
        name=name,
        description=found.get("description", ""),
        help=document.preface.value.strip(),
        document=document,
        inputs=found.get("inputs", ()),
        state=found.get("state", ()),
        outputs=_outputs(found),
        config=found.get("config"),
        repository=found["repository"].template if "repository" in found else None,
        hint=found["hint"].template if "hint" in found else None,
        parallel=found.get("parallel"),
        documents=found["documents"].entries if "documents" in found else {},
        phases=_phases(found.get("phases"), name, reader),
        preamble=_section(document, PREAMBLE, problems),
    )


def parse_phase(document: Document, name: str, problems: Problems) -> Phase:
    reader = Reader(problems)
    found = reader.read(document.front, KINDS["phase"])
    outputs = _outputs(found)
    for key in SUMMARY_KEYS:
        if key not in outputs and (slip := close_to(key, outputs)):
            span = found["outputs"].keys[slip]
            problems.report(span, "near-miss", f"`{slip}` is an output of its own", f"did you mean `{key}`?")
    return Phase(
        **_score(document, name, found, problems),
        references=_references(found.get("references"), reader),
        acceptance=_section(document, ACCEPTANCE, problems),
    )


def parse_protocol(document: Document, name: str, problems: Problems) -> Protocol:
    reader = Reader(problems)
    found = reader.read(document.front, KINDS["protocol"])
    seats = _seats(found["seats"], reader) if "seats" in found else Seats()
    return Protocol(**_score(document, name, found, problems), seats=seats, inputs=found.get("inputs", ()))


def parse_role(document: Document, name: str, problems: Problems) -> Role:
    """A role; keys of other tools' subagent files are left alone, and the file's name is what counts."""
    reader = Reader(problems)
    found = reader.read(document.front, KINDS["role"], foreign=True)
    written = found.get("name") or name
    if written != name:
        message = f"the role is called `{written}`, but members name it by its file, `{name}`"
        problems.report(spans_of(document.front)["name"], "name", message, severity="warning")
    variants = found.get("variants")
    if variants is not None and not isinstance(variants, Mapping):
        reader.wrong_type(variants, "a mapping of a variant's name to its lens")
    return Role(
        name=name,
        description=found.get("description", ""),
        model=found.get("model") or "strong",
        tools=tuple(found.get("tools", ())),
        skills=tuple(found.get("skills", ())),
        variants={key: reader.sentence(entry.value) for key, entry in variants.entries.items()}
        if isinstance(variants, Mapping)
        else {},
        body=document.body.value.strip(),
        document=document,
        spans={**found.get("tools", {}), **found.get("skills", {})},
    )


def check_kind(document: Document, kind: str, problems: Problems) -> bool:
    """Whether `kind:` says what is expected, or anything where nobody expects a kind; a problem where it does not."""
    node = document.front.get("kind")
    written = plain(node) if node is not None else None
    if written == kind:
        return True
    if node is None:
        span = document.front.span if document.front.entries else Span(document.source, 0)
        hint = f"`kind: {kind}` is expected here" if kind else allowed(SKILL_KINDS)
        problems.report(span, "kind", "the file does not say its `kind`", hint)
    elif written not in SKILL_KINDS:
        problems.report(node.span, "kind", f"there is no kind `{written}`", suggest(str(written), SKILL_KINDS))
    else:
        problems.report(node.span, "kind", f"this is a {written}; here it stands for a {kind}")
    return False


def _outputs(found: dict[str, Any]) -> Any:
    return found["outputs"].entries if "outputs" in found else {}


def _section(document: Document, name: str, problems: Problems) -> Template | None:
    """The section whose name stands for itself in every phase or workflow."""
    found = next((one for one in document.sections if one.name.lower() == name), None)
    return compiled(found.text, problems) if found is not None else None


def _score(document: Document, name: str, found: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """What phases and protocols share."""
    check_sections(document, problems)
    steps = found.get("steps", ())
    return {
        "name": name,
        "description": found.get("description", ""),
        "document": document,
        "steps": steps,
        "outputs": _outputs(found),
        "prompts": _prompts(document, steps, problems),
    }


def _prompts(document: Document, steps: tuple[Step, ...], problems: Problems) -> dict[str, Prompt]:
    """The sections that steps use; a missing heading, and one that nothing uses, are problems."""
    everything = [(step.id, step) for top in steps for step in top.walk() if step.id]
    wanted = {name: step for name, step in reversed(everything) if _uses_section(step)}
    sections = {one.name: one for one in document.sections if one.name.lower() != ACCEPTANCE}
    broken = {name for name, step in everything if not step.verb}
    for name, section in sections.items():
        if name not in wanted and name not in broken:
            hint = suggest(name, wanted.keys() - sections.keys(), "a heading inside a prompt is written `\\##`")
            problems.report(section.heading, "unused-section", f"no step uses the section `{name}`", hint)
    for name, step in wanted.items():
        if name not in sections:
            problems.report(
                step.spans.get("id", step.span),
                "missing-section",
                f"`{name}` has no section",
                f"add `## {name}` to the body",
            )
    used = (_prompt(section, wanted.get(name), problems) for name, section in sections.items())
    return {prompt.name: prompt for prompt in used if prompt is not None}


def _uses_section(step: Step) -> bool:
    return step.verb in VERBS and VERBS[step.verb].section and "template" not in step.values


def _prompt(section: Section, step: Step | None, problems: Problems) -> Prompt | None:
    template = compiled(section.text, problems)
    if step is not None and step.verb != "write" and not section.text.value.strip():
        problems.report(section.heading, "empty-section", f"the section `{section.name}` is empty")
    return Prompt(section.name, section.heading, template) if template is not None else None


def _phases(node: Node | None, workflow: str, reader: Reader) -> dict[str, PhaseUse]:
    if not isinstance(node, Mapping) or not node.entries:
        if node is not None:
            reader.wrong_type(
                node, "a mapping of phases, in order", "`phases:`, then `  research:` on a line of its own"
            )
        return {}
    uses: dict[str, PhaseUse] = {}
    previous: tuple[str, ...] = ()
    for name, entry in node.entries.items():
        reader.name(entry.key, ID)
        empty = isinstance(entry.value, Scalar) and entry.value.value is None
        found = {} if empty else reader.read(entry.value, PHASE_USE_KEYS)
        span = entry.key.span
        uses[name] = PhaseUse(
            name=name,
            span=span,
            skill=found.get("skill") or f"{workflow}/{name}",
            after=tuple(found.get("after", previous)),
            spans={"skill": span, "after": span, **spans_of(entry.value)},
            when=found.get("when"),
            retry=found.get("retry"),
            otherwise=found.get("otherwise"),
            was=tuple(found.get("was", ())),
        )
        previous = (name,)
    return uses


def _references(node: Node | None, reader: Reader) -> tuple[Reference, ...]:
    if not isinstance(node, Sequence):
        if node is not None:
            reader.wrong_type(node, "a list of references")
        return ()
    found = []
    for item in node.items:
        short = isinstance(item, Scalar)
        entries: dict[str, Any] = {"skill": reader.name(item)} if short else reader.read(item, REFERENCE_KEYS)
        if entries.get("skill"):
            found.append(Reference(entries["skill"], spans_of(item).get("skill", item.span), entries.get("when")))
    return tuple(found)


def _seats(node: Node, reader: Reader) -> Seats:
    hint = "for example `[proposer, challenger]`, or `{members: 1..4}`"
    if isinstance(node, Sequence) and node.items:
        return Seats(names=tuple(name for item in node.items if (name := reader.name(item, ID))))
    if isinstance(node, Mapping):
        for key, entry in node.entries.items():
            if key != "members":
                reader.report(entry.key.span, "unknown-key", f"unknown key `{key}`", allowed(("members",)))
        match = _RANGE.fullmatch(str(plain(node.entries["members"].value))) if "members" in node.entries else None
        if match and 1 <= int(match[1]) <= int(match[2]):
            return Seats(least=int(match[1]), most=int(match[2]))
        reader.report(node.span, "seats", "`members` is a range of at least one", hint)
    else:
        reader.report(node.span, "seats", "`seats` names the seats, or says how many members there are", hint)
    return Seats()
