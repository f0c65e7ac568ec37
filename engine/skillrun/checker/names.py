"""The types of the names that templates of phases, protocols and prompts can read.

`runtime/scope` provides their values; both modules must define the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from skillrun.templates.return_types import ANSWER, QUESTION
from skillrun.templates.vocabulary import CONTEXT_FUNCTIONS
from skillrun.types.fields import Field
from skillrun.types.types import (
    ANY,
    BOOLEAN,
    NUMBER,
    TEXT,
    Type,
    label_type,
    list_of,
    map_of,
    one_of,
    record,
)

_MAYBE: Final = TEXT.maybe()
_TEXTS: Final = list_of(TEXT).maybe()
OPEN_QUESTIONS: Final = list_of(
    record(
        {"id": TEXT, "question": TEXT, "text": _MAYBE, "priority": _MAYBE, "candidates": _TEXTS}, "the open question"
    )
)
RECORDS: Final = {
    "key_decisions": list_of(
        record(
            {"id": TEXT, "decision": TEXT, "rationale": _MAYBE, "confidence": _MAYBE, "resolves": _TEXTS},
            "the decision",
        )
    ),
    "open_questions": OPEN_QUESTIONS,
    "risks_identified": list_of(
        record({"id": TEXT, "risk": TEXT, "severity": _MAYBE, "mitigation": _MAYBE}, "the risk")
    ),
}
"""The records in a summary that later phases use."""
_ACCUMULATED: Final = {
    kind: list_of(type_.item._replace(fields={**type_.item.fields, "phase": _MAYBE}))
    for kind, type_ in RECORDS.items()
    if type_.item is not None
}
PHASE_RECORD: Final = record({"summary": TEXT, **RECORDS})
"""The part of a phase's summary that a model writes."""

SUMMARY: Final = record(
    {
        "phase": TEXT,
        "status": TEXT,
        "summary": TEXT.maybe(),
        "artifacts": list_of(TEXT),
        "flags": map_of(ANY),
        "quality_warnings": list_of(TEXT),
        "left_out": _TEXTS,
        **RECORDS,
    },
    "the summary",
)
FLAGS: Final = record(dict.fromkeys(("degraded", "degraded_because", "dropped", "recovered"), ANY.maybe()), "the flags")
"""The flags that the interpreter sets."""

_USAGE: Final = {
    "calls": NUMBER, "input": NUMBER, "output": NUMBER, "cache_read": NUMBER, "cache_write": NUMBER, "price": ANY,
}  # fmt: skip
_SAVED: Final = record({"cache": NUMBER, "sessions": NUMBER}, "run.usage.saved")
_ESTIMATE: Final = {"calls": NUMBER, "turns": NUMBER, "tokens": NUMBER, "price": ANY}
_ITEM_ESTIMATE: Final = {"items": NUMBER, "calls": NUMBER, "tokens": NUMBER, "price": ANY}
_RUN_ESTIMATE: Final = {
    **_ESTIMATE, "steps": NUMBER, "measured": NUMBER, "phases": map_of(record(_ESTIMATE, "the estimate")),
    "each": map_of(record(_ITEM_ESTIMATE, "the estimate")).maybe(),
}  # fmt: skip
_CHOICES: Final = map_of(map_of(record(_RUN_ESTIMATE, "the estimate"))).maybe()
ESTIMATE: Final = record({**_RUN_ESTIMATE, "answers": _CHOICES}, "run.estimate")
"""The type of `run.estimate`. `answers` maps the id of a question to the estimates for each of its choices."""
RUN: Final = record(
    {
        "name": TEXT,
        "workflow": TEXT,
        "round": NUMBER,
        "started_at": TEXT,
        "environment": TEXT._replace(values=("terminal", "ci", "editor")),
        "answers": list_of(record({**QUESTION.fields, **ANSWER, "answer": ANY.maybe()}, "the answer")),
        "window": NUMBER,
        "models": map_of(TEXT),
        "estimate": ESTIMATE.maybe(),
        "usage": record({**_USAGE, "saved": _SAVED, "by_phase": map_of(record(_USAGE, "the usage"))}, "run.usage"),
    },
    "run",
)
_MEMBER: Final = {"id": TEXT, "role": TEXT, "model": TEXT, "lines": NUMBER, "tokens": NUMBER, "skills": list_of(TEXT)}
MEMBER: Final = record({**_MEMBER, "variant": TEXT.maybe(), "lens": TEXT.maybe()}, "member")
VARIANT: Final = record({**_MEMBER, "variant": TEXT, "lens": TEXT}, "member")
REMEMBERS: Final = {"remembers": BOOLEAN}
"""The fields of `member` that exist only in the member's own prompts."""

_ERRORS: Final = list_of(record({"path": TEXT, "message": TEXT}, "the error"))
_FORM: Final = {"form": TEXT, "notes": list_of(record({"field": TEXT, "text": TEXT}, "the note"))}
SYSTEM_TEMPLATES: Final[Mapping[str, Mapping[str, Type]]] = {
    "request": {"request": TEXT, "records": BOOLEAN},
    "material": {
        "title": TEXT,
        "parts": list_of(record({"member": TEXT, "path": TEXT, "reason": TEXT, "text": TEXT}, "the part")),
        "size": NUMBER,
        "left_out": NUMBER,
        "sections": TEXT,
        "more_sections": NUMBER,
    },
    "on-record": _ACCUMULATED,
    "context-pack": {
        "references": list_of(TEXT),
        "references_dropped": list_of(TEXT),
        "on_record": TEXT,
        "dropped": list_of(TEXT),
        "more_dropped": NUMBER,
        "records": BOOLEAN,
    },
    "criteria": {"acceptance_criteria": TEXT.maybe()},
    "points": {"points": TEXT},
    "record": {**_FORM, "first": TEXT, "fields": list_of(TEXT), "points": NUMBER},
    "record-again": {**_FORM, "errors": _ERRORS},
    "repair": {"errors": _ERRORS, "schema": TEXT},
    "schema": {"schema": TEXT},
    "role": {**MEMBER.fields, "body": TEXT, "skills": list_of(record({"name": TEXT, "body": TEXT}, "the skill"))},
    "agent-skill": {"body": TEXT, "folder": TEXT.maybe()},
    "task": {"task": TEXT},
    "probe": {},
    "tools": {},
    "summarise": {
        "phase": TEXT,
        "description": TEXT,
        "artifacts": list_of(record({"path": TEXT, "text": TEXT}, "the artifact")),
        "outputs": map_of(ANY),
        "open_questions": OPEN_QUESTIONS,
    },
}
"""Maps each template in `skills/system/` to the names that it can read."""

UNAVAILABLE_NAMES: Final[Mapping[str, str]] = {
    "member": "`member` exists only in the sections and `material` of `agent` and `panel`, and in `writes`",
    "pass": "`pass` exists only inside a `repeat` with `until` or `at_most`",
    "failure": "`failure` exists only in the `otherwise` of the step that failed",
    "task": "`task` exists only in a protocol: it is the section of the calling step",
    "seats": "`seats` exists only in a protocol",
    "state": "`state` exists only during a run, and not in protocols: pass values to them in `with`",
    "phases": "`phases` exists only in phases and in the workflow's `outputs` and `material`",
    "history": "`history` exists only in phases",
}
"""Hints for built-in names that exist only in some places."""
POINTS: Final = list_of(ANY)
"""The points of a reply: records of any kind with `id` and, once answered, `answer`."""


def fields_type(fields: Iterable[Field], label: str, choices: Mapping[str, Type] = MappingProxyType({})) -> Type:
    """Return the record type of declared inputs or state; optional fields without a literal default may be absent.

    `choices` maps each enum with computed values to the type of the template that computes them.
    """
    types: dict[str, Type] = {}
    for field in fields:
        type_ = label_type(field.item, (label, field.name))
        if (enum := choices.get(field.name)) is not None:
            known = enum.values if enum.kind in ("record", "list") else None
            type_ = one_of((value for values in known for value in values), tunable=True) if known is not None else ANY
        type_ = list_of(type_) if field.is_list else type_
        is_present = field.default is not None and not (field.is_optional and field.default.is_computed)
        types[field.name] = type_ if field.required or is_present else type_.maybe()
    return record(types, label)


def base_types(inputs: Type, state: Type, config: Type, features: Type) -> dict[str, Type]:
    """Return the names that every template of a workflow can read, with their types."""
    names = {"inputs": inputs, "state": state, "config": config, "features": features, "run": RUN}
    return names | dict.fromkeys(CONTEXT_FUNCTIONS, ANY)


def phase_type(name: str, outputs: Mapping[str, Type], artifacts: Mapping[str, Type] | None) -> Type:
    """Return the type of a phase as later phases read it. Pass None for `artifacts` if their names are computed."""
    label = f"phases.{name}"
    declared = outputs["flags"].fields if "flags" in outputs and outputs["flags"].kind == "record" else {}
    flags = record({**FLAGS.fields, **{flag: ANY.maybe() for flag in declared}}, f"{label}.summary.flags")
    return record(
        {
            "summary": SUMMARY._replace(fields={**SUMMARY.fields, "flags": flags}),
            "outputs": record(outputs, f"{label}.outputs"),
            "artifacts": map_of(TEXT) if artifacts is None else record(artifacts, f"{label}.artifacts"),
        },
        label,
    )
