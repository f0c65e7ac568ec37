"""Frontmatter as the interpreter writes and reads it: any plain data comes back as it was."""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

import yaml
from frontmatter import Post, dumps
from frontmatter.default_handlers import BaseHandler

from skillrun.syntax.diagnostics import Problems, SkillrunError, render_problem
from skillrun.syntax.document import as_mapping, report_missing_end
from skillrun.syntax.reading import decode_source, read_source
from skillrun.syntax.sanitizing import sanitize
from skillrun.syntax.scalars import is_numeral, plain_value
from skillrun.syntax.source import Mapping as Nodes
from skillrun.syntax.source import Node, Sequence, Source, Span, to_plain
from skillrun.syntax.yaml import parse_yaml
from skillrun.types.records import describe_field, invalid_keys, required_fields
from skillrun.types.schemas import quote_value

SHORT: Final = 200  # characters
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_ENDS: Final = re.compile(r"(?<![ \t])[ \t]++$", re.MULTILINE)  # in time that is in line with the text's length


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


# What the reader refuses, a terminal obeys or nobody sees: it stands as an escape between double quotes.
_ESCAPED: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]"
    r"|[\U000e0000-\U000e007f]"
)


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    """Quote whatever YAML 1.2 would take for something else than text, and print long texts as blocks."""
    value = replace_surrogates(value)
    style = _short_style(value) if len(value) <= SHORT else _style(value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _style(value: str) -> str | None:
    if not value or _needs_quotes(value) or value[-1] in "\"'" or _ESCAPED.search(value):
        return '"'
    if "\n" in value and value.isprintable() is False and all(line == line.rstrip() for line in value.split("\n")):
        return "|" if value.replace("\n", "").isprintable() and not value.startswith((" ", "\n")) else None
    return None


_short_style = lru_cache(maxsize=4096)(_style)  # the state is written many times, and most of it stays


def _needs_quotes(value: str) -> bool:
    """Whether YAML 1.2 takes it for something else than text, be it a number that is too large."""
    return not isinstance(plain_value(value), str) or is_numeral(value)


_Dumper.add_representer(str, _text)


class FrontmatterHandler(BaseHandler):
    """Frontmatter as python-frontmatter has it taken apart and put together, by our own YAML and byte for byte.

    One that loads has the `source` of the file, and keeps the places of what it has loaded.
    """

    FM_BOUNDARY = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
    START_DELIMITER = END_DELIMITER = "---"

    def __init__(self, source: Source | None = None, problems: Problems | None = None) -> None:
        super().__init__()
        self.source = source
        self.problems = Problems() if problems is None else problems
        self.front: Nodes | None = None

    def load(self, fm: str) -> dict[str, Any]:
        """The frontmatter that `split` has given. What is wrong with it is among the problems."""
        assert self.source is not None
        opening = self.FM_BOUNDARY.match(self.source.text)
        start = opening.end() if opening is not None else 0
        node = parse_yaml(self.source, start, start + len(fm), self.problems)
        self.front = as_mapping(node, self.problems)
        return {} if self.front is None else cast(dict[str, Any], to_plain(self.front))

    def export(self, metadata: dict[str, object], **_: object) -> str:
        return "".join(_entry(marshal.dumps(entry, 2)) for entry in plain_data(metadata).items()) or "{}\n"

    def format(self, post: Post, **_: object) -> str:
        """Without a blank line between frontmatter and body, and with the blanks at the ends of both."""
        return f"{self.START_DELIMITER}\n{self.export(post.metadata)}{self.END_DELIMITER}\n{post.content}"


def to_frontmatter(data: Mapping[str, Any], body: str = "") -> str:
    """A markdown file of frontmatter and body."""
    post = Post(body)
    post.metadata = dict(data)  # not by keyword: a key may be called `content`
    return dumps(post, FrontmatterHandler())


@lru_cache(maxsize=64)  # most of a state is what it was when it was last written
def _entry(marshalled: bytes) -> str:
    """The lines of one entry of a frontmatter, which stand for themselves."""
    entry = marshal.loads(marshalled)  # noqa: S302 (it was dumped above)
    front = yaml.dump(dict([entry]), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return _ESCAPED.sub(lambda match: f"\\U{ord(match[0]):08x}", front)


def as_yaml(data: Any) -> str:
    """Plain data as the text of a YAML document, which nobody reads back."""
    return yaml.dump(plain_data(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20).rstrip()


def format_json_text(text: str) -> str:
    """A text that is a JSON object or list, laid out as YAML; any other as it is.

    Blanks at the ends of lines are left out: with them no text of several lines could stand as it is.
    """
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return as_yaml(_strip_line_ends(json.loads(text, object_pairs_hook=_unique_fields)))
    except (ValueError, RecursionError):
        return text


def _unique_fields(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object. Raises ValueError where one stands twice: nothing of a text is left out."""
    entries = dict(fields)
    if len(entries) < len(fields):
        raise ValueError
    return entries


def _strip_line_ends(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strip_line_ends(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_strip_line_ends(entry) for entry in value]
    return _ENDS.sub("", sanitize(value)).strip("\n") if isinstance(value, str) else value


def from_frontmatter(path: Path, content: bytes | None = None) -> tuple[dict[str, Any], str]:
    """What `to_frontmatter` wrote; `content` where it has been read. Raises SkillrunError when it cannot be read."""
    file = RunFile.read(path, content)
    return file.data, file.body


@dataclass(frozen=True)
class RunFile:
    """A file of frontmatter and body, with the places of its values."""

    front: Nodes
    data: dict[str, Any]
    body: str

    @classmethod
    def read(cls, path: Path, content: bytes | None = None, problems: Problems | None = None) -> RunFile:
        """The file; `content` where it has been read. Raises SkillrunError when it cannot be."""
        problems, name = Problems() if problems is None else problems, str(path)
        source = read_source(path, name, problems) if content is None else decode_source(content, path, name, problems)
        file = cls._parse(source, problems) if source is not None else None
        if file is None or problems.has_errors:
            raise SkillrunError(
                f"{path} cannot be read:\n{render_problems(problems)}", "mend or restore the file; nothing was changed"
            )
        return file

    @classmethod
    def _parse(cls, source: Source, problems: Problems) -> RunFile | None:
        handler = FrontmatterHandler(source, problems)
        if not handler.detect(source.text):
            return cls(Nodes({}, Span(source, 0)), {}, source.text)
        try:
            front, body = handler.split(source.text)
        except ValueError:
            report_missing_end(source, problems)
            return None
        data = handler.load(front)
        return None if handler.front is None else cls(handler.front, data, body)

    def check(self, record: type, problems: Problems) -> None:
        """Report what the record needs and the frontmatter lacks, and the values that its fields do not allow."""
        for key in sorted(required_fields(record) - self.data.keys()):
            problems.report(
                self.front.span, "missing-key", f"`{key}` is missing", f"it is {describe_field(record, key)}"
            )
        for key in invalid_keys(record, self.data):
            hint = f"it is {describe_field(record, key)}"
            problems.report(self.span_of(key), "type", f"`{key}` is {quote_value(self.data[key])}", hint)

    def span_of(self, *path: str | int) -> Span:
        """Where the value stands to which keys, and the numbers of items, lead."""
        node: Node = self.front
        for step in path:
            if isinstance(step, str) and isinstance(node, Nodes):
                node = node.entries[step].value
            elif isinstance(step, int) and isinstance(node, Sequence):
                node = node.items[step]
        return node.span


def render_problems(problems: Problems) -> str:
    return "\n".join(map(render_problem, problems))


def replace_surrogates(text: str) -> str:
    """The text as it is read back once it is written: halves of characters become U+FFFD."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def plain_data(value: Any) -> Any:
    """The same with plain dicts and lists, so that it can be stored."""
    if isinstance(value, Mapping):
        return {str(key): plain_data(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_data(entry) for entry in value]
    return value if isinstance(value, str | int | float | bool | None.__class__) else str(value)
