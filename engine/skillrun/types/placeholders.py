"""Finds texts in a reply that repeat the requested form, such as `string`, instead of filling it in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillrun.types.skeletons import scalar_form

Path = tuple[str | int, ...]
Resolve = Callable[[Any], Mapping[str, Any]]

MIN_DESCRIPTION_WORDS: Final = 3
"""The number of words of its description that a text must repeat to be a placeholder. Fewer may be a real value."""
ABOUT_TYPES: Final = re.compile(r"type|kind|format|schema|class", re.IGNORECASE)
"""Matches the name or description of a field about types, which may have the real value `string`."""
PUNCTUATION: Final = " .,;:!?…'\"‘’“”`"


@dataclass(frozen=True)
class _Field:
    """A text field or an item of a list of texts. `descriptions` holds its own description and that of its list."""

    name: str
    rules: Mapping[str, Any]
    descriptions: tuple[str, ...]

    def repeats_description(self, value: str) -> bool:
        """Whether the value repeats the description, or the form `string, a description`. Both may be truncated."""
        text, kind = _normal(value), _normal(str(self.rules.get("type", "any")))
        if text.startswith(f"{kind}, ") and _normal(scalar_form(self.rules)).startswith(text):
            return True
        count = len(text.split())
        return count >= MIN_DESCRIPTION_WORDS and any(
            text == known or (known.startswith(text) and count > len(known.split()) / 2)
            for known in map(_normal, self.descriptions)
        )

    def repeats_name_or_type(self, value: str) -> bool:
        text = _normal(value)
        if text == _normal(str(self.rules.get("type", "any"))):
            return not any(map(ABOUT_TYPES.search, (self.name, *self.descriptions)))
        return bool(self.name) and text == _normal(self.name)


def find_placeholders(value: Any, schema: Mapping[str, Any], resolve: Resolve) -> Iterator[Path]:
    """Yield the path of each text that repeats the description, type or name of its field.

    A text that is only the name or type may be a real value. In a record, it counts as a placeholder if all other texts
    of the record are placeholders. In a list, it does if all other items of one word are. `resolve` returns a part of
    the schema with references resolved.
    """
    yield from _find_in_value(value, resolve(schema), resolve, (), "")


def _find_in_value(value: Any, rules: Mapping[str, Any], resolve: Resolve, path: Path, name: str) -> Iterator[Path]:
    if isinstance(value, Mapping):
        properties = rules.get("properties") or {}
        inner = {key: resolve(properties.get(key)) for key in value}
        fields = {key: _field(str(key), inner[key]) for key, each in value.items() if _is_text(each, inner[key])}
        yield from ((*path, key) for key in _repeating(fields, value))
        for key, each in value.items():
            yield from _find_in_value(each, inner[key], resolve, (*path, key), str(key))
    elif isinstance(value, list):
        items = resolve(rules.get("items"))
        field = _field(name, items, str(rules.get("description", "")))
        fields_of_list = {at: field for at, each in enumerate(value) if _is_text(each, items)}
        yield from ((*path, at) for at in _repeating(fields_of_list, value, single_words=True))
        for at, each in enumerate(value):
            yield from _find_in_value(each, items, resolve, (*path, at), name)
    elif not path and _is_text(value, rules):
        yield from [path] if _field("", rules).repeats_description(value) else ()


def _repeating(fields: Mapping[Any, _Field], values: Any, *, single_words: bool = False) -> Iterator[Any]:
    """Yield the keys of the placeholders among the texts of one record or list.

    Any other text rules out that a name or type is a placeholder. With `single_words`, only another text of one word
    does, because a type may be a real value among words, but not among sentences.
    """
    certain = {key for key, field in fields.items() if field.repeats_description(values[key])}
    possible = {key for key, field in fields.items() if field.repeats_name_or_type(values[key])}
    others = [values[key] for key in fields if key not in certain | possible]
    if single_words:
        others = [text for text in others if len(text.split()) == 1]
    yield from (key for key in fields if key in certain or (key in possible and not others))


def _field(name: str, rules: Mapping[str, Any], of_list: str = "") -> _Field:
    known = (str(rules.get("description", "")), of_list)
    return _Field(name, rules, tuple(filter(None, known)))


def _is_text(value: Any, rules: Mapping[str, Any]) -> bool:
    """Whether a value is a text that the schema does not restrict to fixed values."""
    return isinstance(value, str) and "enum" not in rules and "const" not in rules


def _normal(text: str) -> str:
    return " ".join(text.casefold().split()).strip(PUNCTUATION)
