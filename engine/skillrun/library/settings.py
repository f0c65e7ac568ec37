"""Reads the engine's settings from config files: the store, budget limits, patterns of secret file names, and the reply
sizes of steps.

A project can come from somebody else, so it cannot set the store, raise a limit, or remove a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from skillrun.definitions.definitions import strip_markers
from skillrun.definitions.reader import Reader
from skillrun.definitions.verbs import Key, Keys
from skillrun.library.library import Library
from skillrun.library.roots import FOLDERS, PROJECT, USER, Root
from skillrun.syntax import source
from skillrun.syntax.diagnostics import Problems, UsageError, suggest
from skillrun.syntax.source import Scalar, to_plain
from skillrun.types.records import MAX_NUMBER, is_number
from skillrun.types.schemas import quote_value

CONFIG: Final = "skillrun"
STORE: Final = "store"
LIMIT_NAMES: Final = ("calls", "tokens", "price", "minutes")
WORDS: Final = {"calls": "calls", "tokens": "tokens", "price": "dollars", "minutes": "minutes"}
SIZES: Final = "sizes"  # the config with the sizes that were measured in finished runs
MAX_TOKENS: Final = 10**7
KEYS: Final[Keys] = {
    "reply": Key("integer", "tokens of a reply", required=True, least=0, most=MAX_TOKENS),
    "turns": Key("integer", "turns with tool calls before the reply", least=0, most=1000),
    "found": Key("integer", "tokens that the tools return per turn", least=0, most=MAX_TOKENS),
}
_LEAST: Final = {"token_lint": 1, "limits": 1, "context": 0, "estimate": 0, "budgets": 0}
"""The smallest number in each section of the engine's config."""
_AGAIN: Final = re.compile(r"@[\d.]+$")


def check_engine_settings(library: Library, problems: Problems) -> None:
    """Report numbers out of range, settings that a project cannot set, and errors in the reply sizes."""
    for root, layer in library.layers(CONFIG):
        if root in (PROJECT, USER):
            _check_numbers(layer, library, problems)
    for layer in (layer for root, layer in library.layers(CONFIG) if root == PROJECT):
        entry = layer.entries.get(STORE)
        if entry is not None and not (isinstance(entry.value, Scalar) and not entry.value.value):
            # a cloned project could redirect runs
            message = f"a project cannot set `{STORE}`: only your user config can set where runs are stored"
            hint = f"move it to `config/{CONFIG}.yaml` in your config folder, or set SKILLRUN_STORE"
            problems.report(entry.key.span, "users-only", message, hint)
        for item in filter(_is_negation, _secret_patterns(layer) or ()):
            message = f"`{item.value}` would allow a withheld name; a project can only add names to withhold"
            hint = "put a list in your config folder to replace the shipped one"
            problems.report(item.span, "withheld", message, hint)
    reader, seen = Reader(problems), set[str]()
    for _, layer in reversed(library.layers(SIZES)):
        for name, entry in source.entries_of(layer.get("steps")).items():
            optional = {key: replace(rule, required=False) for key, rule in KEYS.items()}  # a weaker layer sets them
            reader.read(entry.value, optional if name in seen else KEYS)
            seen.add(name)


def _check_numbers(layer: source.Mapping, library: Library, problems: Problems) -> None:
    """Report numbers that are too small or too large, and limits of `token_lint` that have no effect."""
    for section, least in _LEAST.items():
        for node in source.walk(layer.entries[section].value) if section in layer.entries else ():
            number = to_plain(node)
            if isinstance(number, int | float) and not isinstance(number, bool):
                if number < least:
                    problems.report(node.span, "type", f"`{number}` is too small", f"expected at least {least}")
                elif number > MAX_NUMBER:
                    message = f"{quote_value(number)} is too large"
                    problems.report(node.span, "type", message, f"expected at most {MAX_NUMBER:,}")
    share = source.entries_of(layer.get("context")).get("accumulated_share")
    if share is not None and isinstance(number := to_plain(share.value), int | float) and number > 1:
        problems.report(share.value.span, "type", f"`{number}` is too large", "expected a share from 0 to 1")
    config = library.config(CONFIG)
    merged = config.data.get("token_lint") if config is not None else None
    for folder, entry in source.entries_of(layer.get("token_lint")).items():
        limits = merged.get(folder) if isinstance(merged, dict) else None
        values = [limits.get(name) if isinstance(limits, dict) else None for name in ("warn", "error")]
        numbers = [value for value in values if isinstance(value, int)]
        if folder not in FOLDERS:
            message = f"`{folder}` is not a folder of prompt files, so the limit has no effect"
            problems.report(entry.key.span, "unknown-key", message, suggest(folder, FOLDERS))
        elif "warn" in source.entries_of(entry.value) and len(numbers) > 1 and numbers[0] > numbers[1]:
            message = f"`warn` is {numbers[0]}, above `error`, {numbers[1]}, so there is never a warning"
            problems.report(entry.key.span, "check", message, "use a smaller `warn` or a larger `error`")


def user_store_url(roots: Iterable[Root]) -> str:
    """Return the URL of the store in the user's config; "" if not set.

    Raises UsageError if the config is invalid.
    """
    user_roots = [root for root in roots if root.name == USER and (root.path / "config" / f"{CONFIG}.yaml").exists()]
    if not user_roots:
        return ""
    library = Library(user_roots)
    config = library.config(CONFIG)
    for problem in library.problems:
        raise UsageError(f"{problem.path}:{problem.line}: {problem.message}", problem.hint)
    url = config.data.get(STORE) if config is not None else None
    if url is not None and not isinstance(url, str):
        raise UsageError(
            f"`{STORE}` of {user_roots[0].label}config/{CONFIG}.yaml must be text", "write it as postgresql://…"
        )
    return url or ""


def load_budget(library: Library) -> dict[str, float]:
    """Return the budget limits in the config, keyed by name.

    A project can only lower the limits that the user's config and the shipped library set.
    """
    projects = next((_limits(layer) for root, layer in library.layers(CONFIG) if root == PROJECT), {})
    return limit_budget(library, {**_own_budget(library), **projects})


def limit_budget(library: Library, budget: Mapping[str, float]) -> dict[str, float]:
    """Return a budget of another party, reduced to the limits that the user's config and the shipped library set."""
    own = _own_budget(library)
    return {**own, **{name: min(limit, own.get(name, limit)) for name, limit in budget.items()}}


def _own_budget(library: Library) -> dict[str, float]:
    own: dict[str, float] = {}
    for root, layer in library.layers(CONFIG):  # strongest first
        own = {**_limits(layer), **own} if root != PROJECT else own
    return own


def _limits(layer: source.Mapping) -> dict[str, float]:
    written = to_plain(layer).get("budgets") or {}
    return {name: limit for name, limit in written.items() if is_number(limit)}


def chosen_price_limit(library: Library, limits: Mapping[str, float], flags: Mapping[str, float]) -> float | None:
    """Return the price limit among `limits`; None if it is only the default, which is in the shipped config. `flags`
    has the limits that the command line gives."""
    limit = limits.get("price")
    others = (to_plain(layer) for root, layer in library.layers(CONFIG) if root not in (PROJECT, USER))
    shipped = (layer.get("budgets") or {} for layer in others)
    return None if "price" not in flags and any(budget.get("price") == limit for budget in shipped) else limit


# -- secret names --------------------------------------------------------------------------------------------------


def secret_names(library: Library) -> tuple[str, ...]:
    """Return the patterns in the order in which they apply.

    The user's patterns (or the shipped ones, if the user has none) come first, then the project's.
    """
    names: list[str] = []
    for root, layer in reversed(library.layers(CONFIG)):
        items = _secret_patterns(layer)
        if root == PROJECT:
            names += [str(item.value) for item in items or () if not _is_negation(item)]
        elif items is not None:
            names = [str(item.value) for item in items]
    return tuple(names)


def _secret_patterns(layer: source.Mapping) -> list[Scalar] | None:
    """Return the patterns in one config file; None if the file does not list any."""
    part = layer.get("repository")
    withheld = part.get("withheld") if isinstance(part, source.Mapping) else None
    if not isinstance(withheld, source.Sequence):
        return None
    return [item for item in withheld.items if isinstance(item, Scalar)]


def _is_negation(item: Scalar) -> bool:
    return str(item.value).startswith("!")


# -- reply sizes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplySize:
    """Tokens of a reply, turns with tool calls before it, and tokens that the tools return per turn."""

    reply: int
    turns: int = 0
    found: int = 0


def step_address(address: str) -> str:
    """Return the address of a call's step.

    For example, `plan/clarify/gate#2/score/coordinator/1.1` becomes `plan/clarify/gate/score`.
    """
    return "/".join(strip_markers(_AGAIN.sub("", part)) for part in address.split("/")[:-2])


def load_reply_sizes(library: Library) -> Mapping[str, ReplySize]:
    """Return the sizes in `config/sizes.yaml`, keyed by the address of the step.

    For a step without an entry, an estimate uses `estimate` in `config/skillrun.yaml`.
    """
    config = library.config(SIZES)
    steps = config.data.get("steps") if config is not None else None
    entries = steps.items() if isinstance(steps, dict) else ()
    return {
        name: ReplySize(**{key: size.get(key, 0) for key in KEYS}) for name, size in entries if isinstance(size, dict)
    }
