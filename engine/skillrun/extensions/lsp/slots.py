"""Determines which keys, items or value a position in a file takes, from the tables that the parser uses.

The result depends only on the path from the top of the file. Other modules list the names that are valid there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from skillrun.extensions.lsp.cursor_position import PlainKeys
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
"""The keys that are valid in a step without a verb: the verbs, and the keys that every step can have."""
_ANY_STEP: Final[Keys] = {name: key for keys in VERB_KEYS.values() for name, key in keys.items()}


@dataclass(frozen=True)
class CompletionSlot:
    """The syntax that is valid at a position.

    `keys` are the possible keys of a mapping. `named` is the slot of its values if the author chooses the keys. `items`
    is the slot of list items. `key` and its `name` describe the value of a key. `verb` is the verb of the enclosing
    step. `within` is the path from the value of the key to the position.
    """

    keys: Keys = field(default_factory=dict)
    named: CompletionSlot | None = None
    items: CompletionSlot | None = None
    key: Key | None = None
    name: str = ""
    verb: str = ""
    within: Path = ()
    is_step: bool = False


def slot_at(kind: str, path: Path, keys_by_level: tuple[PlainKeys, ...]) -> CompletionSlot:
    """Return the slot at a path in a file of the given kind.

    `keys_by_level` are the keys of the enclosing mappings, outermost first.
    """
    slot = _TOPS.get(kind, CompletionSlot())
    mappings = iter(keys_by_level)
    for step in path:
        if isinstance(step, str):
            slot = _value(_slot_of_mapping(slot, next(mappings, {})), step)
        else:
            slot = slot.items or replace(slot, keys=NO_KEYS, within=(*slot.within, step))
    innermost = next(mappings, None)
    return slot if innermost is None else _slot_of_mapping(slot, innermost)


def _slot_of_mapping(slot: CompletionSlot, keys: PlainKeys) -> CompletionSlot:
    """Return the slot of a mapping with the given keys. The possible keys of a step depend on its verb."""
    if not slot.is_step:
        return slot
    verb = next((key for key in keys if key in VERBS), "")
    return replace(slot, keys=VERB_KEYS[verb] if verb else BEGINNING, verb=verb)


def _value(slot: CompletionSlot, name: str) -> CompletionSlot:
    """Return the slot of a key's value."""
    key = slot.keys.get(name) or (_ANY_STEP.get(name) if slot.is_step else None)
    if key is not None:
        base = _SLOTS.get(f"{slot.name}.{name}") or _SLOTS.get(key.kind) or CompletionSlot()
        return replace(base, key=key, name=name, verb=slot.verb)
    if slot.named is not None:
        return replace(slot.named, name=slot.named.name or slot.name)
    own_name = "" if slot.keys else slot.name
    return replace(slot, keys=NO_KEYS, named=None, items=None, name=own_name, within=(*slot.within, name))


def _records(keys: Keys) -> CompletionSlot:
    return CompletionSlot(named=CompletionSlot(keys))


_SLOTS: Final[Mapping[str, CompletionSlot]] = {
    "step": CompletionSlot(is_step=True),
    "steps": CompletionSlot(items=CompletionSlot(is_step=True)),
    "questions": CompletionSlot(QUESTION_KEYS, items=CompletionSlot(QUESTION_KEYS)),
    "rows": CompletionSlot(items=CompletionSlot(ROW_KEYS)),
    "phases": _records(PHASE_USE_KEYS),
    "references": CompletionSlot(items=CompletionSlot(REFERENCE_KEYS, name="references")),
    "checks": CompletionSlot(items=CompletionSlot(CHECK_KEYS)),
    "fields": _records({name: Key("sentence", doc) for name, doc in fields.KEYS.items()}),
    "seats": CompletionSlot({"members": Key("sentence", "how many equal members the seat takes, such as `1..4`")}),
    "case.run": CompletionSlot(RUN_KEYS),
    "case.expect": CompletionSlot(EXPECT_KEYS, name="expect"),
    "case.replies": CompletionSlot(items=CompletionSlot(scripted.KEYS)),
    "expect.outcome": CompletionSlot(OUTCOME_KEYS),
    "expect.artifacts": _records(TEXT_KEYS),
    "expect.prompts": _records(PROMPT_KEYS),
    "expect.calls": CompletionSlot(BOUND_KEYS, named=CompletionSlot(BOUND_KEYS)),
    "config.breakers": _records(BREAKER_KEYS),
    "config.features": _records(FEATURE_KEYS),
    **{f"models.{name}": _records(keys) for name, keys in TABLES.items()},
    **{f"models.{name}": CompletionSlot(keys) for name, keys in RECORDS.items()},
}
"""The slots of values, keyed by the kind of the key, or by the parent and the name of the key."""

CONFIG_KEYS: Final[Keys] = {
    "breakers": Key("anything", "counters of failures, and what happens at their limits"),
    "features": Key("anything", "switches, with the modes in which they are on"),
    "modes": Key("anything", "values that replace other values of the config in a mode"),
    "was": Key("anything", "earlier paths of renamed keys, by current path"),
}
MODELS_KEYS: Final[Keys] = {
    "tiers": Key("anything", "the tiers that roles ask for, with the model for each"),
    "aliases": Key("anything", "short names, with the model for each"),
    "elsewhere": Key("anything", "tiers whose model comes from a different provider than they name"),
    "prefer": Key(
        "anything", "the providers to use instead of a provider without an API key; the first with a key is used"
    ),
    "intents": Key("anything", "names for the newest model that matches a pattern"),
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
