"""Parses documents into definitions, and reports the problems of each file.

Reads one file at a time; `checker` checks relations between files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from skillrun.definitions.definitions import (
    KINDS,
    SKILL_KINDS,
    Phase,
    Prompt,
    Protocol,
    Step,
    TextFile,
    Workflow,
)
from skillrun.definitions.reader import Reader
from skillrun.definitions.verbs import SUMMARY_KEYS
from skillrun.syntax.diagnostics import Problems, Suggestion, allowed_hint, did_you_mean, near_miss, suggest
from skillrun.syntax.document import check_sections
from skillrun.syntax.source import Document, Span, to_plain
from skillrun.templates.expressions import Template, compile_string

ACCEPTANCE: Final = "acceptance criteria"
PREAMBLE: Final = "preamble"
_PREAMBLE_HINT: Final = "a workflow has only the section `Preamble`; write a heading inside it as `\\##`"
Bank = dict[str, list[dict[str, Any]]]
"""The questions of a question bank, by group."""


def parse_workflow(document: Document, name: str, problems: Problems) -> Workflow:
    """Parse a workflow; invalid parts are reported and omitted."""
    fields = _read(document, "workflow", problems)
    written = fields.get("name", name)
    if written != name:
        node = document.frontmatter.get("name")
        span = node.span if node is not None else document.frontmatter.span
        message = f"the name `{written}` does not match the name of the file, `{name}.md`"
        problems.report(span, "name", message, "use the same name for both")
    check_sections(document, problems)
    for section in document.sections:
        if section.name.lower() != PREAMBLE:
            close = did_you_mean(section.name.lower(), (PREAMBLE,))
            message, hint = f"the section `{section.name}` is not used", close or _PREAMBLE_HINT
            problems.report(section.heading, "unused-section", message, hint, "error" if close else "warning")
    uses = fields.get("phases", {}).values()
    fields["phases"] = {use.name: replace(use, skill=use.skill or f"{name}/{use.name}") for use in uses}
    help_, preamble = document.preface.value.strip(), _section(document, PREAMBLE, problems)
    return Workflow(document=document, help=help_, preamble=preamble, **{**fields, "name": name})


def parse_phase(document: Document, name: str, problems: Problems) -> Phase:
    fields = _read_procedure(document, name, "phase", problems)
    outputs = fields.get("outputs", {})
    for key in SUMMARY_KEYS:
        if key not in outputs and (slip := near_miss(key, outputs)):
            span = document.frontmatter.key_span("outputs", slip) or document.frontmatter.span
            problems.report(span, "near-miss", f"`{slip}` is not one of the summary keys", Suggestion.of(slip, key))
    return Phase(**fields, acceptance=_section(document, ACCEPTANCE, problems))


def parse_protocol(document: Document, name: str, problems: Problems) -> Protocol:
    return Protocol(**_read_procedure(document, name, "protocol", problems))


def parse_text(document: Document, name: str, problems: Problems) -> TextFile | None:
    """Parse a reference or template, depending on its `kind`."""
    kind = str(to_plain(document.frontmatter.entries["kind"].value))
    fields = _read(document, kind, problems)
    if kind == "reference" and not document.body.value.strip():
        message, hint = "the reference has no text, so it adds nothing to prompts", "write it below the frontmatter"
        problems.report(document.frontmatter.span, "empty-section", message, hint, "warning")
    template = compile_string(document.body, problems)
    if (output := fields.get("output")) is not None and output.name:
        message = "a template cannot use the shape of another template"
        problems.report(output.span, "shape", message, "list the fields")
    return TextFile(name=name, document=document, template=template, **fields) if template is not None else None


def check_kind(document: Document, kind: str, problems: Problems) -> bool:
    """Return whether the file has the expected `kind:`; report any other value."""
    node = document.frontmatter.get("kind")
    written = to_plain(node) if node is not None else None
    if written == kind:
        return True
    if node is None:
        span = document.frontmatter.span if document.frontmatter.entries else Span(document.source, 0)
        hint = f"add `kind: {kind}`" if kind else allowed_hint(SKILL_KINDS)
        problems.report(span, "kind", "the file has no `kind`", hint)
    elif written not in SKILL_KINDS:
        problems.report(node.span, "kind", f"there is no kind `{written}`", suggest(str(written), SKILL_KINDS))
    else:
        problems.report(node.span, "kind", f"this file has the kind {written}, so it cannot be used as a {kind}")
    return False


def _read(document: Document, kind: str, problems: Problems) -> dict[str, Any]:
    fields = Reader(problems).read(document.frontmatter, KINDS[kind])
    return {key: value.entries if key == "outputs" else value for key, value in fields.items()}


def _section(document: Document, name: str, problems: Problems) -> Template | None:
    """Compile a section with a reserved name, such as `preamble`."""
    section = next((section for section in document.sections if section.name.lower() == name), None)
    return compile_string(section.text, problems) if section is not None else None


def _read_procedure(document: Document, name: str, kind: str, problems: Problems) -> dict[str, Any]:
    """Read the common parts of phases and protocols."""
    fields = _read(document, kind, problems)
    check_sections(document, problems)
    first, *others = (preface := document.preface.value).split("<!--")  # comments are for readers of the file
    if any(part.strip() for part in (first, *(part.partition("-->")[2] for part in others))):
        span, hint = document.preface.at(len(preface) - len(preface.lstrip())), "put it below a heading `## <id>`"
        problems.report(span, "unused-section", "the text above the first section is not used", hint, "warning")
    prompts = _read_prompts(document, fields.get("steps", ()), problems)
    return {**fields, "name": name, "document": document, "prompts": prompts}


def _read_prompts(document: Document, steps: tuple[Step, ...], problems: Problems) -> dict[str, Prompt]:
    """Return the sections that steps use; report missing and unused sections."""
    for step in (inner for top in steps for inner in top.walk()):
        if step.has_section and step.id is None and step.verb != "panel":
            hint = "the id is the name of the step's section in the body"
            problems.report(step.span, "missing-id", f"`{step.verb}` needs an `id`", hint)
    steps_by_id = [(step.id, step) for top in steps for step in top.walk() if step.id]
    section_steps = {name: step for name, step in reversed(steps_by_id) if step.has_section}
    sections = {section.name: section for section in document.sections if section.name.lower() != ACCEPTANCE}
    broken = {name for name, step in steps_by_id if not step.verb}
    for name, section in sections.items():
        if name not in section_steps and name not in broken:
            hint = suggest(name, section_steps.keys() - sections.keys(), "write a heading inside a prompt as `\\##`")
            problems.report(section.heading, "unused-section", f"no step uses the section `{name}`", hint)
    for name, step in section_steps.items():
        if name not in sections and step.verb != "panel":  # whether a panel needs one depends on its protocol
            hint = f"add `## {name}` to the body"
            problems.report(step.value_span("id"), "missing-section", f"`{name}` has no section", hint)
    prompts = {}
    for name, section in sections.items():
        template, user = compile_string(section.text, problems), section_steps.get(name)
        if user is not None and user.verb != "write" and not section.text.value.strip():
            problems.report(section.heading, "empty-section", f"the section `{name}` is empty")
        if template is not None:
            prompts[name] = Prompt(name, section.heading, template)
    return prompts


def parse_bank(document: Document, _name: str, problems: Problems) -> Bank:
    """Parse the questions of each group as records: id (`group-1`), text, group, and choices, if any."""
    _read(document, "questions", problems)
    check_sections(document, problems)
    groups: Bank = {}
    for line, place in _lines(document.preface.value) if document.sections else ():
        if _item(line) is not None:
            span = document.preface.at(place)
            problems.report(span, "bank", "this question is not in a group", "start a group with `## name`")
    for section in document.sections:
        questions: list[tuple[list[str], list[str]]] = []  # the lines and choices of each question
        for line, place in _lines(section.text.value):
            text = _item(line)
            if text is not None and line[0] not in " \t":
                questions.append(([text], []))
            elif text is not None and questions:
                questions[-1][1].append(text)
            elif line.strip() and questions and not questions[-1][1]:
                questions[-1][0].append(line.strip())
            elif line.strip():
                span = section.text.at(place)
                problems.report(span, "bank", "this line is not part of a question", "start a question with `- `")
        if not questions:
            problems.report(section.heading, "bank", f"the group `{section.name}` has no questions", "add a list item")
        groups[section.name] = [
            {"id": f"{section.name}-{number}", "text": " ".join(lines), "group": section.name}
            | ({"choices": choices} if choices else {})
            for number, (lines, choices) in enumerate(questions, 1)
        ]
    return groups


def _lines(text: str) -> Iterator[tuple[str, int]]:
    place = 0
    for line in text.split("\n"):
        yield line, place
        place += len(line) + 1


def _item(line: str) -> str | None:
    """Return the text of a list item, indented or not; None for any other line."""
    sign, text = line.lstrip(" \t")[:1], line.lstrip(" \t")[1:]
    return text.strip() if sign in ("-", "*", "+") and text[:1].isspace() and text.strip() else None
