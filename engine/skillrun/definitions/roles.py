"""Parses roles and Agent Skills, in which other tools may have keys of their own.

No key of another tool makes a file invalid. Names of tools and models are kept as written; `library.subagents` resolves
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from skillrun.definitions.definitions import KINDS, AgentSkill, Role
from skillrun.definitions.reader import Reader
from skillrun.syntax.diagnostics import Problems, Suggestion, near_miss
from skillrun.syntax.foreign import KNOWN_KEYS, METADATA_KEYS
from skillrun.syntax.source import Document, Node, Scalar, Span
from skillrun.syntax.source import Mapping as MappingNode

ALL: Final = "*"
_PERSONA_KEYS: Final = ("prompt", "system", "instructions")  # keys with which other tools name the text of a role
_TOOL_KEYS: Final = ("tools", "allowed-tools", "allowedTools")
_DENIED_KEYS: Final = ("disallowedTools", "disallowed-tools")
_PERMISSION_KEYS: Final = ("permission", "permissions")
_OFF: Final = (False, "deny", "false", "off")


def parse_role(document: Document, name: str, problems: Problems) -> Role:
    """Parse a role, which is named after its file."""
    fields = _read(document, "role", problems)
    persona = [key for key in _PERSONA_KEYS if key in document.frontmatter.entries]
    for key in persona:
        message, hint = f"`{key}` is not read: a role's text is below the frontmatter", "move the text there"
        span = document.frontmatter.key_span(key) or document.frontmatter.span
        problems.report(span, "unknown-key", message, hint, "warning")
    if not persona:
        _warn_about_empty_body(document, "role", problems)
    models = tuple(fields.pop("model", ()))
    fields = {key: value for key, value in fields.items() if value}
    used = (*KINDS["role"], *_TOOL_KEYS, *_DENIED_KEYS, *_PERMISSION_KEYS, *_PERSONA_KEYS)
    return Role(
        document=document,
        body=document.body.value.strip(),
        **{**fields, "name": name, "tools": _read_tools(document.frontmatter, problems)},
        models=models,
        model=models[0] if models else "strong",
        denied_tools=_read_denied_tools(document.frontmatter, problems),
        ignored_keys=_ignored_keys(document, used),
    )


def parse_agent_skill(document: Document, name: str, problems: Problems) -> AgentSkill:
    fields = _read(document, "skill", problems)
    _warn_about_empty_body(document, "skill", problems)
    node = next((node for key in _TOOL_KEYS if (node := document.frontmatter.get(key)) is not None), None)
    return AgentSkill(
        document=document,
        body=document.body.value.strip(),
        **{**fields, "name": name},
        tools=Reader(problems).read_words(node, blanks=True) if node is not None else {},
        ignored_keys=_ignored_keys(document, (*KINDS["skill"], *_TOOL_KEYS, "context", "paths", "globs", "version")),
    )


def _read(document: Document, kind: str, problems: Problems) -> dict[str, Any]:
    """Read the keys that the language knows. A file without frontmatter has none."""
    front, keys = document.frontmatter, KINDS[kind]
    if not front.entries:
        message = f"the file has no frontmatter, so its whole text is the {kind}'s"
        hint = "put `name` and `description` at the top, between two `---` lines"
        problems.report(Span(document.source, 0), "frontmatter", message, hint, "warning")
    absent_keys = [name for name in keys if name not in front.entries]
    for name, entry in front.entries.items():
        if name not in KNOWN_KEYS and (close := near_miss(name, absent_keys)):
            hint = Suggestion.of(name, close)
            problems.report(entry.key.span, "unknown-key", f"unknown key `{name}`", hint, "warning")
    known = MappingNode({name: entry for name, entry in front.entries.items() if name in keys}, front.span)
    return Reader(problems).read(known, keys)


def _warn_about_empty_body(document: Document, kind: str, problems: Problems) -> None:
    if not document.body.value.strip():
        message = f"the {kind} has no text, so it adds nothing to prompts"
        hint = "write it below the frontmatter"
        problems.report(document.frontmatter.span, "empty-section", message, hint, "warning")


def _ignored_keys(document: Document, used: tuple[str, ...]) -> Mapping[str, Span]:
    """Return the keys that have no effect here, those that change how another tool runs the file first."""
    entries = document.frontmatter.entries
    slips = {name for name in entries if name not in KNOWN_KEYS and near_miss(name, used)}  # `_read` reports them
    ignored = {name: entry.key.span for name, entry in entries.items() if name not in {*used, *slips, "name"}}
    return dict(sorted(ignored.items(), key=lambda item: item[0] in METADATA_KEYS))


def _read_tools(front: MappingNode, problems: Problems) -> Mapping[str, Span]:
    """Return the tools that a role lists, with their positions. `*` stands for all, also without such a key.

    A mapping of names to switches lists the tools that are on. If none is on, it turns off some of all tools.
    """
    node = next((node for key in _TOOL_KEYS if (node := front.get(key)) is not None), None)
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return {ALL: front.span}
    if isinstance(node, MappingNode):
        on = {name: entry.key.span for name, entry in node.entries.items() if not _is_off(entry.value)}
        return on or ({} if ALL in node.entries else {ALL: node.span})
    return Reader(problems).read_words(node, blanks=True)


def _read_denied_tools(front: MappingNode, problems: Problems) -> Mapping[str, Span]:
    denied: dict[str, Span] = {}
    for key in _DENIED_KEYS:
        if (node := front.get(key)) is not None:
            denied |= Reader(problems).read_words(node, blanks=True)
    for key in ("tools", *_PERMISSION_KEYS):
        node = front.get(key)
        if isinstance(node, MappingNode):
            denied |= {name: entry.key.span for name, entry in node.entries.items() if _is_off(entry.value)}
        elif key in _PERMISSION_KEYS and isinstance(node, Scalar) and node.value in _OFF:
            denied[ALL] = node.span
    return denied


def _is_off(node: Node) -> bool:
    """Whether a switch of a tool is off, or its rule denies everything."""
    if isinstance(node, MappingNode):
        return bool(node.entries) and all(_is_off(entry.value) for entry in node.entries.values())
    return isinstance(node, Scalar) and node.value in _OFF
