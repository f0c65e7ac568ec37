"""Writes and reads frontmatter. Plain data is read back unchanged."""

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

from skillrun.syntax.diagnostics import Problems, SkillrunError, render_problem, sanitize
from skillrun.syntax.document import as_mapping, report_missing_end, report_missing_start
from skillrun.syntax.reading import decode_source, read_source
from skillrun.syntax.source import MAX_BYTES, Node, Sequence, Source, Span, to_plain
from skillrun.syntax.source import Mapping as Nodes
from skillrun.syntax.yaml import is_numeral, parse_yaml, plain_value
from skillrun.types.records import describe_field, invalid_keys, required_fields
from skillrun.types.schemas import quote_value

SHORT: Final = 200  # characters
MAX_DATA: Final = MAX_BYTES - 100_000
"""The most bytes of data in a summary, and of inputs and variables in `state.md`. The rest is for other fields."""
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_ENDS: Final = re.compile(r"(?<![ \t])[ \t]++$", re.MULTILINE)  # in linear time


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


# Escaped in double quotes: characters that the reader refuses, a terminal interprets or a user cannot see.
_ESCAPED: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]"
    r"|[\U000e0000-\U000e007f]"
)


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    """Represent a text: quoted if YAML 1.2 would read another type, and as a block if it has several lines."""
    value = replace_surrogates(value)
    style = _short_style(value) if len(value) <= SHORT else _style(value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _style(value: str) -> str | None:
    has_other_type = not isinstance(plain_value(value), str) or is_numeral(value)  # numbers may be too large
    if not value or has_other_type or value[-1] in "\"'" or _ESCAPED.search(value):
        return '"'
    if "\n" in value and value.isprintable() is False and all(line == line.rstrip() for line in value.split("\n")):
        return "|" if value.replace("\n", "").isprintable() and not value.startswith((" ", "\n")) else None
    return None


_short_style = lru_cache(maxsize=4096)(_style)  # the state is written often, and most of it stays the same


_Dumper.add_representer(str, _text)


class FrontmatterHandler(BaseHandler):
    """A python-frontmatter handler that uses skillrun's YAML and preserves every byte.

    `load` requires the `source` of the file, and stores the positions of the values in `front`.
    """

    FM_BOUNDARY = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
    START_DELIMITER = END_DELIMITER = "---"

    def __init__(self, source: Source | None = None, problems: Problems | None = None) -> None:
        super().__init__()
        self.source = source
        self.problems = Problems() if problems is None else problems
        self.front: Nodes | None = None

    def load(self, fm: str) -> dict[str, Any]:
        """Load the frontmatter that `split` returned. Errors are added to `problems`."""
        assert self.source is not None
        opening = self.FM_BOUNDARY.match(self.source.text)
        start = opening.end() if opening is not None else 0
        node = parse_yaml(self.source, start, start + len(fm), self.problems)
        self.front = as_mapping(node, self.problems)
        return {} if self.front is None else cast(dict[str, Any], to_plain(self.front))

    def export(self, metadata: dict[str, object], **_: object) -> str:
        return "".join(_entry(marshal.dumps(entry, 2)) for entry in plain_data(metadata).items()) or "{}\n"

    def format(self, post: Post, **_: object) -> str:
        """Format the file without a blank line before the body. Whitespace at the ends of the body is preserved."""
        return f"{self.START_DELIMITER}\n{self.export(post.metadata)}{self.END_DELIMITER}\n{post.content}"


def to_frontmatter(data: Mapping[str, Any], body: str = "") -> str:
    """Return a markdown file with frontmatter and body. Every byte of the body is preserved."""
    post = Post(body)
    post.metadata = dict(data)  # not by keyword, because a key may be called `content`
    return dumps(post, FrontmatterHandler())


@lru_cache(maxsize=64)  # most of a state stays the same
def _entry(marshalled: bytes) -> str:
    """Return the lines of one frontmatter entry. The lines do not depend on other entries."""
    entry = marshal.loads(marshalled)  # noqa: S302 (it was dumped above)
    front = yaml.dump(dict([entry]), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    if front.endswith("\n...\n"):  # PyYAML ends the document after a text with empty lines at its end
        front = front[:-4]
    return _ESCAPED.sub(lambda match: f"\\U{ord(match[0]):08x}", front)


def as_yaml(data: Any) -> str:
    """Format plain data as a YAML document, for display only."""
    return yaml.dump(plain_data(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20).rstrip()


def format_json_text(text: str) -> str:
    """Format a text that is a JSON object or list as YAML; return any other text unchanged.

    Spaces at line ends are removed, because YAML cannot format a text as a block if a line ends with spaces.
    """
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return as_yaml(_strip_line_ends(json.loads(text, object_pairs_hook=_unique_fields)))
    except (ValueError, RecursionError):
        return text


def _unique_fields(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object as a dict. Raises ValueError for a duplicate field, which a dict would lose."""
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
    """Return the data and the body of a file that `to_frontmatter` wrote.

    If `content` is given, it is parsed and the file is not read. Raises SkillrunError if the file is invalid.
    """
    file = RunFile.read(path, content)
    return file.data, file.body


@dataclass(frozen=True)
class RunFile:
    """A file with frontmatter and a body, and the positions of the frontmatter's values."""

    front: Nodes
    data: dict[str, Any]
    body: str

    @classmethod
    def read(cls, path: Path, content: bytes | None = None, problems: Problems | None = None) -> RunFile:
        """Read the file, or parse its `content` if given. Raises SkillrunError if the file is invalid."""
        problems, name = Problems() if problems is None else problems, str(path)
        source = read_source(path, name, problems) if content is None else decode_source(content, path, name, problems)
        file = cls._parse(source, problems) if source is not None else None
        if file is None or problems.has_errors:
            raise SkillrunError(
                f"{path} cannot be read:\n{render_problems(problems)}", "fix or restore the file; nothing was changed"
            )
        return file

    @classmethod
    def _parse(cls, source: Source, problems: Problems) -> RunFile | None:
        handler = FrontmatterHandler(source, problems)
        if not handler.detect(source.text):
            if report_missing_start(source, problems):
                return None
            return cls(Nodes({}, Span(source, 0)), {}, source.text)
        try:
            front, body = handler.split(source.text)
        except ValueError:
            report_missing_end(source, problems)
            return None
        data = handler.load(front)
        return None if handler.front is None else cls(handler.front, data, body)

    def check(self, record: type, problems: Problems) -> None:
        """Report required keys of `record` that are missing, and invalid values."""
        for key in sorted(required_fields(record) - self.data.keys()):
            problems.report(
                self.front.span, "missing-key", f"`{key}` is missing", f"it is {describe_field(record, key)}"
            )
        for key in invalid_keys(record, self.data):
            hint = f"it is {describe_field(record, key)}"
            problems.report(self.span_of(key), "type", f"`{key}` is {quote_value(self.data[key])}", hint)

    def span_of(self, *path: str | int) -> Span:
        """Return the position of the value at a path of keys and item numbers."""
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
    """Replace lone surrogates with U+FFFD, as `to_frontmatter` does."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def plain_data(value: Any) -> Any:
    """Convert a value to plain dicts, lists and scalars, so that it can be stored."""
    if isinstance(value, Mapping):
        return {str(key): plain_data(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_data(entry) for entry in value]
    return value if isinstance(value, str | int | float | bool | None.__class__) else str(value)
