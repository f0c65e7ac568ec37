"""Typical typing errors, applied to a library file one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillrun.definitions.definitions import KINDS, PHASE_USE_KEYS, REFERENCE_KEYS, ROW_KEYS, STEP_KEYS
from skillrun.definitions.verbs import VERBS
from skillrun.syntax import source as nodes
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.document import parse_config, parse_document
from skillrun.syntax.source import Source, to_plain


@dataclass(frozen=True)
class Slip:
    """A file's text with one typing error, to be reported on one of `lines`, or on any line if `lines` is empty."""

    kind: str
    path: str
    text: str
    what: str
    lines: frozenset[int]

    def __str__(self) -> str:
        return f"{self.path}:{','.join(map(str, sorted(self.lines))) or '*'}: {self.kind}: {self.what}"


@dataclass(frozen=True)
class File:
    """A library file with its parsed frontmatter."""

    path: str
    source: Source
    front: nodes.Mapping
    end: int  # of the frontmatter

    @property
    def text(self) -> str:
        return self.source.text

    @property
    def is_config(self) -> bool:
        return self.path.startswith("config/")

    @property
    def is_rendered(self) -> bool:
        """Whether the texts of the file are templates."""
        return not self.is_config and not self.path.startswith("roles/") and not self.path.endswith("/SKILL.md")

    def slip(self, kind: str, start: int, end: int, new: str, *more: int, anywhere: bool = False) -> Slip:
        """Replace the text from start to end; a report on the line of a position in `more` is also accepted."""
        lines = () if anywhere else {self.source.position(place)[0] for place in (start, *more)}
        what = f"`{self.text[start:end]}` → `{new}`"
        return Slip(kind, self.path, self.text[:start] + new + self.text[end:], what, frozenset(lines))


def read(root: Path, path: str) -> File:
    source = Source.of((root / path).read_text(encoding="utf-8"), path)
    problems = Problems()
    if path.startswith("config/"):
        front = parse_config(source, problems)
        end = len(source.text)
    else:
        document = parse_document(source, problems)
        front = document.frontmatter if document is not None else None
        end = document.body.at(0).offset if document is not None else 0
    assert front is not None
    assert not len(problems)
    return File(path, source, front, end)


# positions in a file

TAG: Final = re.compile(r"\{\{-?(?P<value>.*?)-?\}\}|\{%-?(?P<statement>.*?)-?%\}", re.DOTALL)
TOKEN: Final = re.compile(
    r"(?P<text>'[^']*'|\"[^\"]*\")|(?P<number>\d+)|(?P<operator>[=!]=)|(?P<name>[A-Za-z_]\w*)|(?P<sign>\S)"
)
KEYWORDS: Final = frozenset({
    "if", "elif", "else", "endif", "for", "in", "endfor", "loop", "set", "endset", "not", "and", "or", "is",
    "true", "false", "none", "True", "False", "None",
})  # fmt: skip
ARGUMENTS: Final = frozenset({"attribute", "by", "start", "default"})


@dataclass(frozen=True)
class Word:
    """A name or text in an expression: its kind, and whether the template declares it."""

    start: int
    end: int
    text: str
    kind: str  # name, field, filter, test, text
    is_declared: bool = False
    is_reference: bool = False


def expressions(file: File) -> Iterator[tuple[int, str]]:
    """Yield each expression of a rendered file with its offset: the contents of tags, and conditions."""
    if not file.is_rendered:
        return
    for tag in TAG.finditer(file.text):
        group = "value" if tag["value"] is not None else "statement"
        yield tag.start(group), tag[group]
    for path, _, node in walk(file.front):
        if path and path[-1] in ("when", "until") and isinstance(node, nodes.Scalar) and node.text is not None:
            yield node.text.at(0).offset, file.text[node.text.at(0).offset : node.text.at(len(node.text.value)).offset]


def words(file: File) -> Iterator[Word]:
    for offset, expression in expressions(file):
        declared_offsets = _declared_offsets(expression)
        before = owner = ""
        for token in TOKEN.finditer(expression):
            start, end, text = offset + token.start(), offset + token.end(), token[0]
            if token["name"] and text not in KEYWORDS and text not in ARGUMENTS:
                kind = {".": "field", "|": "filter", "is": "test", "is not": "test"}.get(before, "name")
                yield Word(start, end, text, kind, token.start() in declared_offsets)
            elif token["text"]:
                looked_up = before == "[" and owner not in KEYWORDS and bool(re.fullmatch(r"\w+|[\])]", owner))
                is_reference = looked_up or before in ("==", "!=", "=")
                yield Word(start + 1, end - 1, text[1:-1], "text", is_reference=is_reference)
            owner = before
            before = f"{before} {text}" if (before, text) == ("is", "not") else text


def _declared_offsets(expression: str) -> frozenset[int]:
    """The offsets of the names that a `for` or `set` declares."""
    found = re.match(r"\s*(?:for\s+(?P<loop>.+?)\s+in\b|set\s+(?P<set>\w+))", expression, re.DOTALL)
    group = None if found is None else "loop" if found["loop"] else "set"
    if found is None or group is None:
        return frozenset()
    return frozenset(found.start(group) + one.start() for one in re.finditer(r"\w+", found[group]))


def walk(
    node: nodes.Node, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], nodes.Scalar | None, nodes.Node]]:
    """Yield each value below a node with its path and key; list items have the path of their list."""
    if isinstance(node, nodes.Mapping):
        for name, entry in node.entries.items():
            yield (*path, name), entry.key, entry.value
            yield from walk(entry.value, (*path, name))
    elif isinstance(node, nodes.Sequence):
        for item in node.items:
            yield path, None, item
            yield from walk(item, path)


def scalar_range(file: File, node: nodes.Node) -> tuple[int, int] | None:
    """The range of a plain scalar in its file; None if it is quoted or spans several lines."""
    if not isinstance(node, nodes.Scalar):
        return None
    start = node.span.offset
    text = node.value if isinstance(node.value, str) else re.match(r"[^\s,}\]]*", file.text[start:])[0]  # type: ignore[index]
    return (start, start + len(text)) if text and file.text.startswith(text, start) else None


def misspell(name: str) -> str:
    """The name with two letters swapped, or with one letter more or less."""
    for place in range(1, len(name) - 1):
        if name[place] != name[place + 1] and name[place].isalpha() and name[place + 1].isalpha():
            return name[:place] + name[place + 1] + name[place] + name[place + 2 :]
    return name[:-1] if len(name) > 2 else name + name[-1]


def shorten(name: str) -> str:
    """The name without its last letter (`proposal` for `proposals`); short names get an `s`."""
    return name[:-1] if len(name) > 3 else name + "s"


# keys of the language, and keys that authors choose

LANGUAGE_KEYS: Final = frozenset(
    {key for keys in (*KINDS.values(), STEP_KEYS, ROW_KEYS, PHASE_USE_KEYS, REFERENCE_KEYS) for key in keys}
    | {key for name, verb in VERBS.items() for key in (name, *verb.keys)}
    | {"members"}
)
FIELD_KEYS: Final = frozenset({"type", "shape", "values", "default", "description", "fallback"})
AUTHOR_KEYS: Final = frozenset({"outputs", "set", "with", "frontmatter", "variants", "output", "shape", "panel"})


def is_language_key(path: tuple[str, ...]) -> bool:
    """Whether the key at the path belongs to the language."""
    *above, name = path
    if any(one in AUTHOR_KEYS for one in above):
        return False
    if above and above[0] in ("inputs", "state"):
        return len(above) > 1 and name in FIELD_KEYS
    return name in LANGUAGE_KEYS and above != ["phases"]


# the slips


def lost_brace(file: File) -> Iterator[Slip]:
    if file.is_rendered:
        for tag in TAG.finditer(file.text):
            yield file.slip("lost closing brace", tag.end() - 1, tag.end(), "", tag.start())


def lost_opening_brace(file: File) -> Iterator[Slip]:
    if file.is_rendered:
        for tag in TAG.finditer(file.text):
            yield file.slip("lost opening brace", tag.start(), tag.start() + 1, "", tag.end())


def lost_end(file: File) -> Iterator[Slip]:
    """`{% endif %}` or `{% endfor %}`: reported at a tag of the block or of an enclosing block."""
    open_blocks: list[list[re.Match[str]]] = []
    blocks: list[list[re.Match[str]]] = []
    for tag in TAG.finditer(file.text) if file.is_rendered else ():
        word = (tag["statement"] or " ").split()[:1]
        if word in (["if"], ["for"]) or (word == ["set"] and "=" not in tag[0]):
            open_blocks.append([tag])
        elif word in (["elif"], ["else"]):
            open_blocks[-1].append(tag)
        elif word and word[0].startswith("end"):
            open_blocks[-1].append(tag)
            blocks.append(open_blocks.pop())
    for block in blocks:
        start, end = block[-1].span()
        enclosing = [one for other in blocks if other[0].start() <= start <= other[-1].start() for one in other]
        yield file.slip("lost end of a block", start, end, "", *(one.start() for one in enclosing))


def unquoted(file: File) -> Iterator[Slip]:
    for _, _, node in walk(file.front):
        if isinstance(node, nodes.Scalar) and file.text[node.span.offset] in "\"'" and node.text is not None:
            start = node.span.offset
            end = node.text.at(len(node.text.value)).offset
            if file.text.startswith("{{", start + 1):
                inside = file.text[start + 1 : end]
                yield file.slip("unquoted template", start, end + 1, inside)


def lost_quote(file: File) -> Iterator[Slip]:
    for _, _, node in walk(file.front):
        if isinstance(node, nodes.Scalar) and file.text[node.span.offset] in "\"'" and node.value:
            start, end = node.span.offset, node.text.at(len(node.text.value)).offset  # type: ignore[union-attr]
            yield file.slip("lost opening quote", start, start + 1, "")
            yield file.slip("lost closing quote", end, end + 1, "", start)


def comma(file: File) -> Iterator[Slip]:
    """A comma or a colon in a plain value of a flow mapping; a colon in any plain value."""
    for path, key, node in walk(file.front):
        place = scalar_range(file, node)
        if key is None or place is None or " " not in file.text[place[0] : place[1]]:
            continue
        space = file.text.index(" ", place[0])
        yield file.slip("colon in a value", space, space, ":")
        line = file.text[file.text.rfind("\n", 0, place[0]) + 1 : place[0]]
        if "{" in line and path[-1] not in ("when", "until"):
            yield file.slip("comma in a flow mapping", space, space, ",")


def misspelt_keys(file: File) -> Iterator[Slip]:
    if file.is_config:
        return
    for path, key, _ in walk(file.front):
        if key is not None and is_language_key(path):
            start = key.span.offset
            yield file.slip("misspelt key", start, start + len(path[-1]), misspell(path[-1]))


def declarations(file: File) -> Iterator[Slip]:
    """Misspelt declarations of names that authors choose; their uses are reported."""
    for path, key, node in walk(file.front) if file.is_rendered else ():
        if path[-1] == "id" and is_language_key(path) and (place := scalar_range(file, node)) is not None:
            yield file.slip("misspelt id", *place, misspell(str(to_plain(node))), anywhere=True)
        elif "material" in path[:-1]:
            continue  # only models read a title
        elif key is not None and not is_language_key(path) and file.text.startswith(path[-1], key.span.offset):
            name = re.match(r"[\w-]+", path[-1])
            assert name is not None
            start = key.span.offset
            yield file.slip("misspelt declaration", start, start + name.end(), misspell(name[0]), anywhere=True)


def config_keys(file: File) -> Iterator[Slip]:
    if file.is_config:
        for path, key, _ in walk(file.front):
            if key is not None and file.text.startswith(path[-1], key.span.offset):
                start = key.span.offset
                yield file.slip("misspelt config key", start, start + len(path[-1]), misspell(path[-1]))


def lost_colon(file: File) -> Iterator[Slip]:
    for path, key, _ in walk(file.front):
        if key is not None and (file.is_config or is_language_key(path)):
            end = key.span.offset + len(path[-1])
            if file.text[end : end + 1] == ":":
                yield file.slip("lost colon", end, end + 1, "", file.text.find("\n", end) + 1)


def headings(file: File) -> Iterator[Slip]:
    if file.is_rendered and file.path not in ("skills/system/context-pack.md", "skills/plan/principles.md"):
        for found in re.finditer(r"^## (?P<name>.+)$", file.text[file.end :], re.MULTILINE):
            start, end = file.end + found.start("name"), file.end + found.end("name")
            is_bank = file.path.endswith("/questions.md")  # other files name its groups
            yield file.slip("renamed section", start, end, misspell(found["name"]), anywhere=is_bank)


def names(file: File) -> Iterator[Slip]:
    """Each name in an expression, misspelt in two ways."""
    for word in words(file):
        if word.kind in ("name", "field", "filter", "test"):
            kind = f"misspelt {word.kind} in an expression"
            if word.is_declared:
                kind = "misspelt loop or set name"
            for change in (misspell, shorten):
                new = change(word.text)
                yield file.slip(kind, word.start, word.end, new, anywhere=word.is_declared)


def texts(file: File) -> Iterator[Slip]:
    """Texts in expressions that name a field or are compared with a value."""
    for word in words(file):
        if word.kind == "text" and word.is_reference and re.fullmatch(r"[\w./-]+", word.text):
            yield file.slip("misspelt text in an expression", word.start, word.end, misspell(word.text))


def hyphens(file: File) -> Iterator[Slip]:
    for word in words(file):
        if "_" in word.text.strip("_") and word.kind in ("name", "field"):
            new = word.text.replace("_", "-", 1)
            yield file.slip("hyphen in an expression", word.start, word.end, new, anywhere=word.is_declared)


REFERRING: Final = frozenset(
    {
        "agent",
        "protocol",
        "retry",
        "goto",
        "after",
        "config",
        "kind",
        "references",
        "skill",
        "level",
        "invalid",
        "order",
    }
    | {"type", "fallback", "model", "skills"}
)


def references(file: File) -> Iterator[Slip]:
    """Plain values that refer to a definition."""
    if file.is_config:
        return
    for path, _, node in walk(file.front):
        place = scalar_range(file, node)
        if place is None or not isinstance(node, nodes.Scalar) or not isinstance(node.value, str):
            continue
        is_panel_member = "panel" in path
        is_order = path[-1] == "then" and "\n    order: [" in file.text
        if (
            path[-1] in REFERRING
            or is_panel_member
            or ((path[-1] == "at_most" or is_order) and re.fullmatch("[a-z-]+", node.value))
        ):
            name = re.match(r"[\w/-]+", node.value)
            if name is not None:
                start, new = place[0], misspell(name[0])
                yield file.slip("misspelt reference", start, start + name.end(), new, anywhere=path[-1] == "order")


CONFIG_NAMES: Final = ("team_presets", "red_team", "strategy_per_phase", "breakers", "features", "modes")


def config_names(file: File) -> Iterator[Slip]:
    """Config values that refer to a definition."""
    if file.path != "config/planning.yaml":
        return
    for path, _, node in walk(file.front):
        place = scalar_range(file, node)
        referring = path[0] in CONFIG_NAMES and path[-1] not in ("description", "rollback", "enabled", "limit")
        if place is not None and referring and isinstance(node, nodes.Scalar):
            yield file.slip("misspelt name in config", *place, misspell(str(node.value)))


WRONG: Final[Mapping[str, tuple[str, ...]]] = {
    "at_most": ("[2]", '"two words"', "true", "0", "-1", "{}"),
    "at_least": ("many", "[1]"),
    "retry": ("[x]", "3", "{}"),
    "when": ("[a]", "3", "{}"),
    "until": ("[a]", "3"),
    "goto": ("[a]", "3", "{}"),
    "protocol": ("[a]", "3", "{}"),
    "agent": ("3", "{}", "true"),
    "level": ("3", "[warn]"),
    "kind": ("[phase]", "3"),
    "description": ("[a]", "{a: b}"),
    "say": ("[a]", "3"),
    "write": ("[a]", "3"),
    "writes": ("[a]", "3"),
    "config": ("[a]", "3"),
    "type": ("[a]", "3", "{}"),
    "default": ("[[[]]]",),
    "stop": ("[a]", "3"),
    "reason": ("[a]", "3"),
    "because": ("[a]", "3"),
    "invalid": ("[a]", "true"),
    "model": ("[a]", "{}"),
    "name": ("[a]", "{}"),
}


def wrong_types(file: File) -> Iterator[Slip]:
    if file.is_config:
        return
    for path, key, node in walk(file.front):
        place = scalar_range(file, node)
        if key is not None and place is not None and is_language_key(path):
            for new in WRONG.get(path[-1], ()):
                yield file.slip("wrong type", *place, new)


def config_types(file: File) -> Iterator[Slip]:
    if not file.is_config:
        return
    for _, key, node in walk(file.front):
        place = scalar_range(file, node)
        if key is not None and place is not None and isinstance(node, nodes.Scalar):
            yield file.slip("wrong type in config", *place, "[[a]]")
            if not isinstance(node.value, str):
                yield file.slip("wrong type in config", *place, "word")


def indentation(file: File) -> Iterator[Slip]:
    """A key with one space less or more, or with a tab."""
    for path, key, _ in walk(file.front):
        if key is None or not (file.is_config or is_language_key(path)):
            continue
        start = file.text.rfind("\n", 0, key.span.offset) + 1
        indent = file.text[start : key.span.offset]
        if indent and not indent.strip():
            sibling = re.compile(rf"^ {{0,{len(indent)}}}\S", re.MULTILINE).search(file.text, key.span.offset)
            following = file.text.find("\n", key.span.offset) + 1
            previous = file.text.rfind("\n", 0, start - 1) + 1
            neighbours = (following, previous, sibling.start() if sibling is not None else previous)
            yield file.slip("indented too little", start, start + 1, "", *neighbours)
            yield file.slip("indented too far", start, start, " ", *neighbours)
            yield file.slip("tab", start, start + len(indent), "\t", previous)


def lost_dash(file: File) -> Iterator[Slip]:
    for found in re.finditer(r"^( *)- (?=\w+: )", file.text[: file.end], re.MULTILINE):
        start = found.end() - 2
        following = re.compile(rf"^{found[1]}- |^(?! )|\Z", re.MULTILINE).search(file.text, found.end())
        assert following is not None
        inside = range(start, following.start() + 1)
        yield file.slip("lost dash", start, start + 2, "  ", *inside)


def duplicate_key(file: File) -> Iterator[Slip]:
    for path, key, node in walk(file.front):
        if key is not None and (file.is_config or is_language_key(path)) and scalar_range(file, node) is not None:
            start = file.text.rfind("\n", 0, key.span.offset) + 1
            end = file.text.find("\n", start) + 1
            line = file.text[start:end]
            if not file.text[start : key.span.offset].strip():
                yield file.slip("key twice", end, end, line)


def lost_fence(file: File) -> Iterator[Slip]:
    if file.end and not file.is_config:
        yield file.slip("lost opening fence", 0, 4, "")
        closing = file.text.rfind("---", 0, file.end)
        yield file.slip("lost closing fence", closing, closing + 4, "", 0)


SLIPS: Final[tuple[Callable[[File], Iterator[Slip]], ...]] = (
    lost_brace,
    lost_opening_brace,
    lost_end,
    unquoted,
    lost_quote,
    comma,
    misspelt_keys,
    declarations,
    config_keys,
    lost_colon,
    headings,
    names,
    texts,
    hyphens,
    references,
    config_names,
    wrong_types,
    config_types,
    indentation,
    lost_dash,
    duplicate_key,
    lost_fence,
)


def slips(file: File) -> Iterator[Slip]:
    """Yield every possible slip in the file."""
    for make in SLIPS:
        for slip in make(file):
            if slip.text != file.text:
                yield slip


def changes_only_layout(file: File, slip: Slip) -> bool:
    """Whether the slip changes only the layout."""
    source, problems = Source.of(slip.text, file.path), Problems()
    if file.is_config:
        front, body = parse_config(source, problems), True
    else:
        document = parse_document(source, problems)
        front = document.frontmatter if document is not None else None
        body = document is not None and document.body.value == file.text[file.end :]
    return front is not None and body and to_plain(front) == to_plain(file.front)
