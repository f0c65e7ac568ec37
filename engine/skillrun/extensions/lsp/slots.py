"""What may stand at a place of a file, by the tables that the checker reads files with: keys, items, or a value.

Looks at the way from the top of the file alone; which names there are is for others.
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
"""What a step may begin with: the verbs, and what every step may have."""
_ANY_STEP: Final[Keys] = {name: key for keys in VERB_KEYS.values() for name, key in keys.items()}


@dataclass(frozen=True)
class CompletionSlot:
    """What may stand at a place: a mapping with these `keys`, one from names of the author's to what is `named`, a list
    of `items`, or what the `key` takes that is called `name`.

    `verb` is that of the step around; `within` is what follows the name, in what the author writes as its value.
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
    """The kind of a file, by its place in the project and what it says of itself; nothing for a file of no kind."""
    folder, _, rest = relative.partition("/")
    if folder == "skills":
        return "skill" if rest.endswith("/SKILL.md") else top.get("kind", "") or "skill file"
    config = "models" if rest == "models.yaml" else "config"
    return {"workflows": "workflow", "roles": "role", "config": config, "tests": "case"}.get(folder, "")


def slot_at(kind: str, path: Path, keys_by_level: tuple[Around, ...]) -> CompletionSlot:
    """What may stand where the path leads in a file of the kind; `around` are the mappings on the way."""
    slot = _TOPS.get(kind, CompletionSlot())
    mappings = iter(keys_by_level)
    for step in path:
        slot = _item(slot, step) if isinstance(step, int) else _value(_slot_of_mapping(slot, next(mappings, {})), step)
    innermost = next(mappings, None)
    return slot if innermost is None else _slot_of_mapping(slot, innermost)


def _slot_of_mapping(slot: CompletionSlot, keys: Around) -> CompletionSlot:
    """The slot of a mapping that has these keys: of a step, its verb says which it may have."""
    if not slot.is_step:
        return slot
    verb = next((key for key in keys if key in VERBS), "")
    return replace(slot, keys=VERB_KEYS[verb] if verb else BEGINNING, verb=verb)


def _item(slot: CompletionSlot, place: int) -> CompletionSlot:
    return slot.items if slot.items is not None else replace(slot, keys=NO_KEYS, within=(*slot.within, place))


def _value(slot: CompletionSlot, name: str) -> CompletionSlot:
    """What stands behind a key of a mapping."""
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
    "seats": lambda: CompletionSlot({"members": Key("sentence", "how many equals sit there, such as `1..4`")}),
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
"""What stands behind a key, by what it takes, or by the key above it and itself."""

CONFIG_KEYS: Final[Keys] = {
    "breakers": Key("anything", "what counts failures, and what happens at its limit"),
    "features": Key("anything", "switches, with the modes that they are on in"),
    "modes": Key("anything", "what holds instead while a mode does"),
    "was": Key("anything", "where keys were before, by where they are now"),
}
MODELS_KEYS: Final[Keys] = {
    "tiers": Key("anything", "what roles ask for, and the model that it is"),
    "aliases": Key("anything", "short names, and the models that they mean"),
    "elsewhere": Key("anything", "tiers whose model comes from another provider than they say"),
    "prefer": Key("anything", "the providers that stand in for one without a key, the first that has one"),
    "intents": Key("anything", "names for the newest model of a provider that fits a pattern"),
    "providers": Key("anything", "who is asked, and how each is reached"),
    "models": Key("anything", "windows and prices, by `provider:name`"),
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
