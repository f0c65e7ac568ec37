"""Splits files of other tools (subagent files, Agent Skills) into frontmatter and body.

Those tools accept frontmatter that is not valid YAML. A key whose value is invalid YAML becomes a text here, so that it
never makes the file unusable.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.source import Mapping, MappingEntry, Scalar, Source, Span, Text
from skillrun.syntax.yaml import parse_yaml

# fmt: off
METADATA_KEYS: Final = frozenset((
    "argument-hint", "author", "authors", "capabilities", "category", "color", "colour", "compatibility", "created",
    "date", "display_name", "displayName", "domain", "emoji", "examples", "hidden", "icon", "id", "keywords", "kind",
    "label", "lastUpdated", "last_updated", "license", "metadata", "name", "owner", "priority", "status", "summary",
    "tag", "tags", "target", "title", "type", "updated", "updated_at", "user-invocable", "user-invokable",
    "userInvocable", "version", "vibe", "when_to_use", "whenToUse",
))
"""Keys that describe a file to its readers or to the menus of a tool."""
BEHAVIOR_KEYS: Final = frozenset((
    "agent", "agents", "allowed-tools", "allowedTools", "applyTo", "background", "context", "disable",
    "disable-model-invocation", "disallowed-tools", "disallowedTools", "effort", "extensions", "globs", "handoffs",
    "hooks", "infer", "inheritProjectContext", "inheritSkills", "initialPrompt", "instructions", "isolation",
    "maxSteps", "max_turns", "maxTurns", "mcp", "mcp-servers", "mcpServers", "memory", "mode", "options", "output",
    "paths", "permission", "permissionMode", "permissions", "prompt", "prompt_mode", "reasoningEffort", "shell",
    "steps", "system", "systemPrompt", "systemPromptMode", "temperature", "thinking", "timeout_mins", "top_p", "topP",
    "variant",
))
"""Keys with which other tools control how an agent runs."""
# fmt: on
_OWN_KEYS: Final = frozenset(("description", "model", "tools", "skills", "variants"))
KNOWN_KEYS: Final = METADATA_KEYS | BEHAVIOR_KEYS | _OWN_KEYS
_READ_KEYS: Final = _OWN_KEYS | {"name"}
_REQUIRED_KEYS: Final = ("name", "description")  # a frontmatter has one of them
_STRUCTURED_KEYS: Final = ("variants",)  # their errors are reported
MAX_LINES_ABOVE: Final = 5  # a rule further below is part of the text
_PROSE_KEY: Final = "description"
_RULE: Final = re.compile(r"^[ \t\ufeff]*---[^\S\n]*(?:\n|\Z)", re.MULTILINE)
_KEY: Final = re.compile(r"^(?P<key>\w[\w.-]*)[ \t]*:(?=[ \t\n]|\Z)[ \t]*", re.MULTILINE)
_NO_COLON: Final = re.compile(rf"^(?P<key>{'|'.join(sorted(_READ_KEYS))})(?=[ \t]+[^\s:]|[ \t]*$)", re.MULTILINE)
_QUOTED: Final = re.compile(r"(['\"])(.*)\1", re.DOTALL)


class Frontmatter(NamedTuple):
    """The frontmatter of a file, and the ranges of its body."""

    mapping: Mapping
    body: tuple[tuple[int, int], ...]


def split_foreign(source: Source, problems: Problems) -> Frontmatter | None:
    """Return the frontmatter, which text may precede, and the body; None if the file has no frontmatter."""
    rules = [match.span() for match in _RULE.finditer(source.text)][:3]
    for (opening, start), (end, body) in pairwise(rules):
        text = source.text[:opening].strip()
        if text.count("\n") >= MAX_LINES_ABOVE or "```" in text:
            break
        above = (0, opening) if text else (body, body)
        mapping = _parse_frontmatter(source, start, end, problems, required=bool(opening))
        if mapping is not None:
            return Frontmatter(mapping, (above, (body, len(source.text))))
    if len(rules) == 1 and rules[0][0] > 0:  # the first line `---` may be missing
        mapping = _parse_frontmatter(source, 0, rules[0][0], problems, required=True)
        return Frontmatter(mapping, ((rules[0][1], len(source.text)),)) if mapping is not None else None
    return None


def _parse_frontmatter(source: Source, start: int, end: int, problems: Problems, *, required: bool) -> Mapping | None:
    """Return the keys between two offsets; None if this is not frontmatter.

    If `required`, it must start with a key, and have a name or a description.
    """
    strict = Problems.without_limit()
    node = parse_yaml(source, start, end, strict)
    if isinstance(node, Scalar) and node.value is None and not required:
        return Mapping({}, node.span)
    keys = list(_KEY.finditer(source.text, start, end))
    names = {match["key"] for match in keys}
    if not names & (set(_REQUIRED_KEYS) if required else KNOWN_KEYS):
        return None
    if required and source.text[start : keys[0].start()].strip():
        return None
    if isinstance(node, Mapping) and not len(strict) and not any(" " in name for name in node.entries):
        return node
    for match in _NO_COLON.finditer(source.text, start, end):
        if (name := match["key"]) not in names:
            message, hint = f"`{name}` has no colon, so this line is not read as a key", f"write `{name}:`"
            problems.report(Span(source, match.start()), "frontmatter", message, hint, "warning")
    return Mapping(_parse_entries(source, keys, end, problems), Span(source, keys[0].start()))


def _parse_entries(source: Source, keys: list[re.Match[str]], end: int, problems: Problems) -> dict[str, MappingEntry]:
    """Return each key with its value, which is a text if it is not valid YAML. The first of equal keys counts.

    A description that is not valid YAML reaches to the next known key.
    """
    entries: dict[str, MappingEntry] = {}
    stops = [*(match.start() for match in keys[1:]), end]
    place = 0
    while place < len(keys):
        match, stop = keys[place], stops[place]
        place += 1
        name = match["key"]
        if name in entries and name in METADATA_KEYS:
            continue
        if name in entries:
            first = entries[name].key.span
            message, hint = f"the key `{name}` is given twice", f"the first is on line {first.line}, and counts"
            problems.report(Span(source, match.start()), "duplicate-key", message, hint, "warning", first)
            continue
        found = Problems.without_limit()
        entry = _parse_entry(source, match, stop, found) if name in KNOWN_KEYS else None
        if entry is None or (name == _PROSE_KEY and len(found)):
            while name == _PROSE_KEY and place < len(keys) and keys[place]["key"] not in KNOWN_KEYS:
                stop = stops[place]
                place += 1
            entry = _text_entry(source, match, stop)
        if name in _STRUCTURED_KEYS and found.has_errors:
            for problem in found:
                problems.add(problem)
            continue
        entries[name] = entry
    return entries


def _parse_entry(source: Source, match: re.Match[str], stop: int, found: Problems) -> MappingEntry | None:
    """Return a key with its value, or None if its lines are not valid YAML. Tabs count as blanks."""
    text, start = source.text, match.start()
    if "\t" in text[start:stop]:
        source = replace(source, text=text[:start] + text[start:stop].replace("\t", " ") + text[stop:])
    node = parse_yaml(source, start, stop, found)
    if not isinstance(node, Mapping) or len(node.entries) > 1 or found.has_errors:
        return None
    return node.entries.get(match["key"])


def _text_entry(source: Source, match: re.Match[str], stop: int) -> MappingEntry:
    """Return a key whose value is the text up to `stop`, without the quotes around it."""
    start, text = match.end(), source.text[match.end() : stop]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    if quoted := _QUOTED.fullmatch(text):
        start, text = start + 1, quoted[2]
    key = Scalar(match["key"], None, Span(source, match.start()))
    value = Scalar(text, Text(text, source, ((0, start),)), Span(source, start))
    return MappingEntry(key, value)
