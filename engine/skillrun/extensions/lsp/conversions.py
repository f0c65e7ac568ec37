"""Converts positions, problems, completions and outlines to the types of the Language Server Protocol.

Offsets count characters of a text with `\\n` line ends. The editor counts columns in the units of its position
encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from lsprotocol import types
from pygls.workspace import PositionCodec

from skillrun.definitions.verbs import VERBS
from skillrun.extensions.lsp.candidates import Completion
from skillrun.syntax.diagnostics import ParsingStopped, Problem, Problems
from skillrun.syntax.document import find_headings, parse_frontmatter
from skillrun.syntax.source import Mapping, Node, Scalar, Source
from skillrun.syntax.source import Sequence as List
from skillrun.syntax.yaml import parse_yaml

MAX_OUTLINE_DEPTH: Final = 3  # levels of nested keys
MAX_DETAIL: Final = 60  # characters of the text shown for a step without an id
_WORD: Final = re.compile(r"##[ \t].*|[\w./:@-]*\w|\S")  # a heading, a name as authors write it, or a single character
_SEVERITIES: Final = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning}
_COMPLETION_KINDS: Final = {
    "key": types.CompletionItemKind.Property,
    "verb": types.CompletionItemKind.Keyword,
    "role": types.CompletionItemKind.Class,
    "variant": types.CompletionItemKind.Class,
    "protocol": types.CompletionItemKind.Module,
    "workflow": types.CompletionItemKind.Module,
    "phase": types.CompletionItemKind.Event,
    "step": types.CompletionItemKind.Method,
    "name": types.CompletionItemKind.Variable,
    "variable": types.CompletionItemKind.Variable,
    "language": types.CompletionItemKind.Keyword,
    "tag": types.CompletionItemKind.Keyword,
    "field": types.CompletionItemKind.Field,
    "input": types.CompletionItemKind.Field,
    "output": types.CompletionItemKind.Field,
    "seat": types.CompletionItemKind.Field,
    "filter": types.CompletionItemKind.Function,
    "function": types.CompletionItemKind.Function,
    "test": types.CompletionItemKind.Function,
    "file": types.CompletionItemKind.File,
    "skill": types.CompletionItemKind.File,
    "config": types.CompletionItemKind.File,
    "model": types.CompletionItemKind.Constant,
    "breaker": types.CompletionItemKind.Constant,
    "value": types.CompletionItemKind.EnumMember,
}


def offset_at(text: str, position: types.Position, codec: PositionCodec) -> int:
    """Return the offset of a position of the editor. A position behind the end of its line is moved to that end."""
    start = 0
    for _ in range(position.line):
        start = text.find("\n", start) + 1
        if not start:
            return len(text)
    units = 0
    for offset in range(start, len(text)):
        if units >= position.character or text[offset] == "\n":
            return offset
        units += codec.client_num_units(text[offset])
    return len(text)


def to_client_range(text: str, start: int, end: int, codec: PositionCodec) -> types.Range:
    """Return the editor's range between two offsets."""
    first, last = (
        types.Position(
            text.count("\n", 0, offset), codec.client_num_units(text[text.rfind("\n", 0, offset) + 1 : offset])
        )
        for offset in (start, end)
    )
    return types.Range(first, last)


def word_range(
    lines: Sequence[str], number: int, column: int, codec: PositionCodec, written: str | None = None
) -> types.Range:
    """Return the range of `written` at a line and a column, both counted from 1.

    If `written` is None, return the range of the name or character there.
    """
    line = lines[number - 1] if number <= len(lines) else ""
    word = _WORD.match(line, column - 1)
    length = len(written if written is not None else word[0] if word else "")
    return types.Range(
        types.Position(number - 1, codec.client_num_units(line[: column - 1])),
        types.Position(number - 1, codec.client_num_units(line[: column - 1 + length])),
    )


def build_diagnostic(
    problem: Problem, lines: Sequence[str], codec: PositionCodec, related: types.Location | None
) -> types.Diagnostic:
    """Return the diagnostic for a problem in a file with the given lines.

    If the problem has a suggested fix, the range covers the text to replace, and `data` is for `build_quick_fix`.
    """
    mending = problem.mending
    line, column = (mending.line, mending.column) if mending is not None else (problem.line, problem.column)
    return types.Diagnostic(
        range=word_range(lines, line, column, codec, mending.written if mending is not None else None),
        message="\n".join(filter(None, (problem.message, problem.hint))),
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        source="skillrun",
        related_information=[types.DiagnosticRelatedInformation(related, "related location")] if related else None,
        data={"written": mending.written, "text": mending.text} if mending is not None else None,
    )


def build_quick_fix(diagnostic: types.Diagnostic, uri: str, text: str, codec: PositionCodec) -> types.CodeAction | None:
    """Return the fix that inserts the suggested name; None without a suggestion, or if the text has changed."""
    data = diagnostic.data
    current = text[offset_at(text, diagnostic.range.start, codec) : offset_at(text, diagnostic.range.end, codec)]
    if not isinstance(data, dict) or data.get("written") != current or not isinstance(data.get("text"), str):
        return None
    return types.CodeAction(
        title=f"Replace with `{data['text']}`",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        is_preferred=True,
        edit=types.WorkspaceEdit(changes={uri: [types.TextEdit(diagnostic.range, data["text"])]}),
    )


def build_completion_item(completion: Completion, number: int, replaced: types.Range) -> types.CompletionItem:
    """Return the item for a completion. Editors sort the items by their `number`."""
    doc = completion.documentation
    return types.CompletionItem(
        completion.name,
        kind=_COMPLETION_KINDS.get(completion.kind, types.CompletionItemKind.Text),
        detail=completion.detail or None,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, doc) if doc else None,
        sort_text=f"{number:05}",
        text_edit=types.TextEdit(replaced, completion.name + completion.suffix),
    )


def parse_outline(text: str, codec: PositionCodec, *, markdown: bool) -> list[types.DocumentSymbol]:
    """Return the outline of the part of a file that can be parsed."""
    source, problems, outline = Source.of(text), Problems.without_limit(), _Outline(text, codec)
    try:
        if not markdown:
            node = parse_yaml(source, 0, len(text), problems)
            return list(outline.keys(node, len(text))) if isinstance(node, Mapping) else []
        front, start = parse_frontmatter(source, problems)
    except ParsingStopped:
        return []
    keys = list(outline.keys(front, start)) if front is not None and front.entries else []
    return [*keys, *outline.sections(start)]


@dataclass(frozen=True)
class _Outline:
    """Builds the symbols for the parts of a text."""

    text: str
    codec: PositionCodec

    def keys(self, mapping: Mapping, end: int, depth: int = 1) -> Iterator[types.DocumentSymbol]:
        starts = [*(entry.key.span.offset for entry in mapping.entries.values()), end]
        for (name, entry), (start, after) in zip(mapping.entries.items(), pairwise(starts), strict=True):
            until = self.trimmed_end(start, after)
            children = self.children(entry.value, until, depth)
            yield self.symbol(name, types.SymbolKind.Property, (start, until), start, "", children)

    def children(self, node: Node | None, end: int, depth: int) -> Iterator[types.DocumentSymbol]:
        """Yield the symbols of the keys in a mapping, or of the steps in a list."""
        if depth >= MAX_OUTLINE_DEPTH:
            return
        if isinstance(node, Mapping):
            yield from self.keys(node, end, depth + 1)
        elif isinstance(node, List):
            starts = [*(item.span.offset for item in node.items), end]
            for item, (start, after) in zip(node.items, pairwise(starts), strict=True):
                if isinstance(item, Mapping) and (verb := next((name for name in item.entries if name in VERBS), "")):
                    yield self.step(item, verb, start, self.trimmed_end(start, after), depth)

    def step(self, node: Mapping, verb: str, start: int, end: int, depth: int) -> types.DocumentSymbol:
        """Return the symbol for a step, named by its id or verb."""
        id_, value = node.get("id"), node.entries[verb].value
        name, detail, at = verb, "", node.entries[verb].key.span.offset
        if isinstance(id_, Scalar) and id_.value:
            name, detail, at = str(id_.value), verb, id_.span.offset
        elif isinstance(value, Scalar):
            detail = str(value.value or "")[:MAX_DETAIL]
        children = [*self.children(value, end, depth + 1)] if isinstance(value, List) else []
        children += self.children(node.get("steps"), end, depth + 1)
        return self.symbol(name, types.SymbolKind.Function, (min(start, at), max(end, at)), at, detail, children)

    def sections(self, start: int) -> Iterator[types.DocumentSymbol]:
        headings, _ = find_headings(self.text, start if start < len(self.text) else 0)
        ends = [*(heading.start for heading in headings[1:]), len(self.text)]
        for heading, end in zip(headings, ends, strict=False):
            until = self.trimmed_end(heading.start, end)
            yield self.symbol(heading.name or "##", types.SymbolKind.String, (heading.start, until), heading.start)

    def symbol(
        self,
        name: str,
        kind: types.SymbolKind,
        bounds: tuple[int, int],
        name_start: int,
        detail: str = "",
        children: Any = (),
    ) -> types.DocumentSymbol:
        """Return the symbol of a part.

        The name of a heading ends at the end of the line. Other names also end at `:`, `,`, `}` or `]`.
        """
        _, end = bounds
        signs = "\n" if kind == types.SymbolKind.String else ":\n,}]"
        stops = [place for sign in signs if (place := self.text.find(sign, name_start, end)) >= 0]
        whole, own = (
            to_client_range(self.text, *span, self.codec) for span in (bounds, (name_start, min([*stops, end])))
        )
        return types.DocumentSymbol(name, kind, whole, own, detail or None, children=list(children))

    def trimmed_end(self, start: int, end: int) -> int:
        """Return `end` moved back past trailing spaces, brackets and commas, and past the dash of the next item."""
        return start + len(self.text[start:end].rstrip(" \t\n-{,}]["))
