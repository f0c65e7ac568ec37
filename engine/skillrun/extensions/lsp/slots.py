"""Determines which keys, items or value a position in a file takes, from the tables that the parser uses.

The result depends only on the path from the top of the file. Other modules provide the names that fit there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from skillrun.definitions.definitions import (
    CHECK_KEYS,
    KINDS,
    PHASE_USE_KEYS,
    REFERENCE_KEYS,
    ROW_KEYS,
    STEP_KEYS,
    VERB_KEYS,
)
from skillrun.definitions.verbs import BREAKER_KEYS, FEATURE_KEYS, QUESTION_KEYS, VERBS, Key, Keys
from skillrun.extensions.lsp.cursor_position import PlainKeys as Around
from skillrun.extensions.testing.cases import (
    BOUND_KEYS,
    CASE_KEYS,
    EXPECT_KEYS,
    OUTCOME_KEYS,
    PROMPT_KEYS,
    RUN_KEYS,
    TEXT_KEYS,
)
from skillrun.library.models_yaml import RECORDS, TABLES
from skillrun.models import scripted
from skillrun.types import fields

Path = tuple[str | int, ...]
NO_KEYS: Final[Keys] = MappingProxyType({})
BEGINNING: Final[Keys] = {**{name: verb.main for name, verb in VERBS.items()}, **STEP_KEYS}
"""The keys that a step without a verb can get: the verbs, and the keys that every step can have."""
_ANY_STEP: Final[Keys] = {name: key for keys in VERB_KEYS.values() for name, key in keys.items()}


@dataclass(frozen=True)
class CompletionSlot:
    """What a position takes.

    It may take a mapping with these `keys`, a mapping whose keys are names chosen by the author and whose values are
    `named`, a list of `items`, or the value of the `key` called `name`. `verb` is the verb of the enclosing step.
    `within` is the path from the value of the key to the position.
    """

    keys: Keys = field(default_factory=dict)
    named: CompletionSlot | None = None
    items: CompletionSlot | None = None
    key: Key | None = None
    name: str = ""
    verb: str = ""
    within: Path = ()
    is_step: bool = False


def file_kind(relative: str, top: Around) -> str:
    """Return the kind of a file, which depends on its path in the project and its `kind:`.

    Empty if the file is not part of a library or a test case.
    """
    folder, _, rest = relative.partition("/")
    if folder == "skills":
        return "skill" if rest.endswith("/SKILL.md") else top.get("kind", "") or "skill file"
    config = "models" if rest == "models.yaml" else "config"
    return {"workflows": "workflow", "roles": "role", "config": config, "tests": "case"}.get(folder, "")


def slot_at(kind: str, path: Path, keys_by_level: tuple[Around, ...]) -> CompletionSlot:
    """Return the slot at a path in a file of this kind.

    `keys_by_level` are the keys of the enclosing mappings, outermost first.
    """
    slot = _TOPS.get(kind, CompletionSlot())
    mappings = iter(keys_by_level)
    for step in path:
        slot = _item(slot, step) if isinstance(step, int) else _value(_slot_of_mapping(slot, next(mappings, {})), step)
    innermost = next(mappings, None)
    return slot if innermost is None else _slot_of_mapping(slot, innermost)


def _slot_of_mapping(slot: CompletionSlot, keys: Around) -> CompletionSlot:
    """Return the slot of a mapping that has these keys. If it is a step, its possible keys depend on the verb."""
    if not slot.is_step:
        return slot
    verb = next((key for key in keys if key in VERBS), "")
    return replace(slot, keys=VERB_KEYS[verb] if verb else BEGINNING, verb=verb)


def _item(slot: CompletionSlot, place: int) -> CompletionSlot:
    return slot.items if slot.items is not None else replace(slot, keys=NO_KEYS, within=(*slot.within, place))


def _value(slot: CompletionSlot, name: str) -> CompletionSlot:
    """Return the slot of a key's value."""
    key = slot.keys.get(name) or (_ANY_STEP.get(name) if slot.is_step else None)
    if key is not None:
        made = _SLOTS.get(f"{slot.name}.{name}") or _SLOTS.get(key.kind)
        base = made() if made is not None else CompletionSlot()
        return replace(base, key=key, name=name, verb=slot.verb)
    if slot.named is not None:
        return replace(slot.named, name=slot.named.name or slot.name)
    called = "" if slot.keys else slot.name
    return replace(slot, keys=NO_KEYS, named=None, items=None, name=called, within=(*slot.within, name))


def _records(keys: Keys) -> CompletionSlot:
    return CompletionSlot(named=CompletionSlot(keys))


_SLOTS: Final[Mapping[str, Callable[[], CompletionSlot]]] = {
    "step": lambda: CompletionSlot(is_step=True),
    "steps": lambda: CompletionSlot(items=CompletionSlot(is_step=True)),
    "questions": lambda: CompletionSlot(QUESTION_KEYS, items=CompletionSlot(QUESTION_KEYS)),
    "rows": lambda: CompletionSlot(items=CompletionSlot(ROW_KEYS)),
    "phases": lambda: _records(PHASE_USE_KEYS),
    "references": lambda: CompletionSlot(items=CompletionSlot(REFERENCE_KEYS, name="references")),
    "checks": lambda: CompletionSlot(items=CompletionSlot(CHECK_KEYS)),
    "fields": lambda: _records({name: Key("sentence", doc) for name, doc in fields.KEYS.items()}),
    "seats": lambda: CompletionSlot({"members": Key("sentence", "how many equal members it takes, such as `1..4`")}),
    "case.run": lambda: CompletionSlot(RUN_KEYS),
    "case.expect": lambda: CompletionSlot(EXPECT_KEYS, name="expect"),
    "case.replies": lambda: CompletionSlot(items=CompletionSlot(scripted.KEYS)),
    "expect.outcome": lambda: CompletionSlot(OUTCOME_KEYS),
    "expect.artifacts": lambda: _records(TEXT_KEYS),
    "expect.prompts": lambda: _records(PROMPT_KEYS),
    "expect.calls": lambda: CompletionSlot(BOUND_KEYS, named=CompletionSlot(BOUND_KEYS)),
    "config.breakers": lambda: _records(BREAKER_KEYS),
    "config.features": lambda: _records(FEATURE_KEYS),
    **{f"models.{name}": partial(_records, keys) for name, keys in TABLES.items()},
    **{f"models.{name}": partial(CompletionSlot, keys) for name, keys in RECORDS.items()},
}
"""The slots of values, keyed by the kind of the key, or by the parent and the name of the key."""

CONFIG_KEYS: Final[Keys] = {
    "breakers": Key("anything", "counters of failures, and what happens at their limits"),
    "features": Key("anything", "switches, with the modes in which they are on"),
    "modes": Key("anything", "values that replace others in a mode"),
    "was": Key("anything", "the earlier paths of keys, by their current paths"),
}
MODELS_KEYS: Final[Keys] = {
    "tiers": Key("anything", "the tiers that roles ask for, with the model for each"),
    "aliases": Key("anything", "short names, with the model for each"),
    "elsewhere": Key("anything", "tiers whose model comes from a different provider than they name"),
    "prefer": Key(
        "anything", "the providers to use instead of a provider without an API key; the first with a key is used"
    ),
    "intents": Key("anything", "names for the newest model of a provider that matches a pattern"),
    "providers": Key("anything", "the providers, with the address and protocol of each"),
    "models": Key("anything", "context windows and prices, by `provider:name`"),
    **{name: Key("anything", f"`{name}` of the engine") for name in RECORDS},
}
_TOPS: Final[Mapping[str, CompletionSlot]] = {
    **{kind: CompletionSlot(keys, name=kind) for kind, keys in KINDS.items()},
    "skill file": CompletionSlot(
        {"kind": KINDS["phase"]["kind"], "description": KINDS["phase"]["description"]}, name="skill"
    ),
    "case": CompletionSlot(CASE_KEYS, name="case"),
    "config": CompletionSlot(CONFIG_KEYS, name="config"),
    "models": CompletionSlot(MODELS_KEYS, name="models"),
}
