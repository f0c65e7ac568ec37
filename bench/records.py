"""Measures the cost of checking the records that a resumed run reads, by field types or by pydantic models.

Run `python -m bench.records fields` or `… pydantic`. Everything else that a run imports is loaded before.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

import skillrun.runtime.session  # noqa: F401 (a run imports it anyway)
from skillrun.store.journal_bodies import BODIES
from skillrun.store.state import State
from skillrun.store.summaries import Summary
from skillrun.types import records
from skillrun.types.records import Bounds

RECORDS = (State, Summary, *BODIES.values())
REPLY = {
    "text": "A reply of some length. " * 40,
    "calls": [{"id": "1", "name": "Read", "arguments": {"path": "a.py"}}],
    "usage": {"input": 1200, "output": 300, "cache_read": 900, "cache_write": 0},
    "stop": "tool",
    "model": "claude",
    "seconds": 1.5,
    "price": 0.01,
}
TIMES = 5_000


def by_fields() -> Callable[[Mapping[str, object]], object]:
    for record in RECORDS:
        records.field_checks(record)
    return lambda body: records.matches_record(BODIES["reply"], body)


def by_pydantic() -> Callable[[Mapping[str, object]], object]:
    model = pydantic_models()
    models = [model(record) for record in RECORDS]
    reply = models[2 + list(BODIES).index("reply")]
    check: Callable[[Mapping[str, object]], object] = reply.model_validate
    return check


def pydantic_models() -> Callable[[Any], Any]:
    """A function that replaces each record in an annotation by a pydantic model."""
    from pydantic import ConfigDict, Field, create_model

    def model_of(kind: Any) -> Any:
        if is_dataclass(kind) or is_typeddict(kind):
            hints: dict[str, Any] = get_type_hints(kind, include_extras=True)
            needed = records.required_fields(cast(type, kind))
            fields: dict[str, Any] = {name: _field(hint, name in needed) for name, hint in hints.items()}
            extra: Literal["forbid", "ignore"] = "forbid" if records.forbids_extra_keys(cast(type, kind)) else "ignore"
            config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra=extra)
            return create_model(kind.__name__, __config__=config, **fields)
        if kind in (int, float):
            return Annotated[kind, Field(ge=-records.MAX_NUMBER, le=records.MAX_NUMBER)]
        origin, parts = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            return reduce(or_, map(model_of, parts))
        if origin is Annotated:
            bounds: Bounds = parts[1]
            return Annotated[parts[0], Field(ge=bounds.least, le=bounds.most)]
        return origin[*map(model_of, parts)] if origin not in (None, Literal) else kind

    def _field(hint: Any, needed: bool) -> tuple[Any, Any]:
        value = model_of(get_args(hint)[0] if get_origin(hint) is NotRequired else hint)
        return value, ... if needed else None

    return model_of


def main() -> None:
    started = time.process_time()
    check = {"fields": by_fields, "pydantic": by_pydantic}[sys.argv[1]]()
    loaded = time.process_time()
    for _ in range(TIMES):
        check(REPLY)
    ended = time.process_time()
    print(json.dumps({"loading": (loaded - started) * 1e3, "a reply": (ended - loaded) / TIMES * 1e6}))


if __name__ == "__main__":
    main()
