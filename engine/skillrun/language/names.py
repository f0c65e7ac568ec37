"""The names that templates can read, as types: what the interpreter gives to phases, protocols and prompts.

The checker infers against these; `runtime/scope` gives the values. One name stands in both places or in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from skillrun.language.fields import Field
from skillrun.language.types import (
    ANY,
    BOOLEAN,
    MEMBER,
    NEVER,
    NUMBER,
    TEXT,
    Type,
    list_of,
    map_of,
    of_schema,
    record,
)

DECISION: Final = record(
    {"id": TEXT, "decision": TEXT, "rationale": TEXT, "confidence": TEXT, "resolves": list_of(TEXT)}, "the decision"
)
OPEN_QUESTION: Final = record(
    {"id": TEXT, "question": TEXT, "priority": TEXT, "candidates": list_of(TEXT)}, "the open question"
)
RISK: Final = record({"id": TEXT, "risk": TEXT, "severity": TEXT, "mitigation": TEXT}, "the risk")
SUMMARY: Final = record(
    {
        "phase": TEXT,
        "status": TEXT,
        "summary": TEXT.maybe(),
        "artifacts": list_of(TEXT),
        "flags": map_of(ANY),
        "key_decisions": list_of(DECISION),
        "open_questions": list_of(OPEN_QUESTION),
        "risks_identified": list_of(RISK),
        "quality_warnings": list_of(TEXT),
    },
    "the summary",
)
_USAGE: Final = {
    "calls": NUMBER, "input": NUMBER, "output": NUMBER, "cache_read": NUMBER, "cache_write": NUMBER, "price": ANY,
}  # fmt: skip
RUN: Final = record(
    {
        "name": TEXT,
        "workflow": TEXT,
        "round": NUMBER,
        "started_at": TEXT,
        "environment": TEXT,
        "models": map_of(TEXT),
        "estimate": record({"calls": NUMBER, "tokens": NUMBER, "price": ANY}, "run.estimate").maybe(),
        "usage": record({**_USAGE, "by_phase": map_of(record(_USAGE, "the usage"))}, "run.usage"),
    },
    "run",
)
FUNCTIONS: Final = ("others", "bank", "members")


def of_fields(fields: Iterable[Field], label: str) -> Type:
    """Declared inputs or state: those without a value and without a default may be absent."""
    found = {}
    for one in fields:
        kind = _of_field(one, label)
        found[one.name] = kind if one.required or one.default is not None else kind.maybe()
    return record(found, label)


def _of_field(one: Field, label: str) -> Type:
    if one.shape is not None:
        schema = getattr(one.shape, "schema", None)
        base = of_schema(schema, f"{label}.{one.name}") if isinstance(schema, dict) else ANY
    else:
        kinds = {"integer": NUMBER, "number": NUMBER, "boolean": BOOLEAN, "any": ANY, "object": ANY}
        base = kinds.get(one.type, TEXT)
    return list_of(base) if one.array else base


def phase_type(name: str, outputs: Mapping[str, Type], artifacts: Mapping[str, Type] | None) -> Type:
    """What later phases see of a phase. `artifacts` is None where their names are only known in the run."""
    label = f"phases.{name}"
    return record(
        {
            "summary": SUMMARY,
            "outputs": record(dict(outputs), f"{label}.outputs"),
            "artifacts": map_of(TEXT) if artifacts is None else record(dict(artifacts), f"{label}.artifacts"),
        },
        label,
    )


def base_names(inputs: Type, state: Type, config: Type, features: Iterable[str]) -> dict[str, Type]:
    """What every template of a workflow can read."""
    return {
        "inputs": inputs,
        "state": state,
        "config": config,
        "features": record(dict.fromkeys(features, BOOLEAN), "features"),
        "run": RUN,
        **dict.fromkeys(FUNCTIONS, ANY),
    }


def history_type(phases: Iterable[str]) -> Type:
    past = record({name: SUMMARY.maybe() for name in phases}, "past.phases")
    return list_of(record({"round": NUMBER, "phases": past}, "the round"))


def seats_type(names: tuple[str, ...]) -> Type:
    return record(dict.fromkeys(names, TEXT) if names else {"members": list_of(MEMBER)}, "seats")


def replies_type(data: Type, *, several: bool) -> dict[str, Type]:
    """The fields of an agent step's id."""
    reply = record(
        {"member": TEXT, "status": TEXT, "text": TEXT.maybe(), "data": data.maybe(), "reads": list_of(TEXT)}, "the reply"
    )
    return {
        "text": TEXT,
        "data": list_of(data) if several else data,
        "path": TEXT.maybe(),
        "replies": list_of(reply),
        "degraded": BOOLEAN,
    }


SOMETIMES: Final = NEVER
