"""Frontmatter as the interpreter writes and reads it: any plain data comes back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from skillrun.language.diagnostics import Problems, SkillrunError, render
from skillrun.language.document import parse_document
from skillrun.language.scalars import plain_value
from skillrun.language.source import Source, plain, read_source


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    """Quote whatever YAML 1.2 would take for something else than text, and print long texts as blocks."""
    style = None
    if not value or plain_value(value) is None or not isinstance(plain_value(value), str):
        style = '"'
    elif "\n" in value and value.isprintable() is False and all(line == line.rstrip() for line in value.split("\n")):
        style = "|" if value.replace("\n", "").isprintable() and not value.startswith((" ", "\n")) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_frontmatter(data: Mapping[str, Any], body: str = "") -> str:
    """A markdown file of frontmatter and body."""
    front = yaml.dump(plain_data(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{front}---\n{body}"


def from_frontmatter(path: Path) -> tuple[dict[str, Any], str]:
    """What `to_frontmatter` wrote. Raises SkillrunError when the file cannot be read."""
    problems = Problems()
    return _parsed(read_source(path, str(path), problems), str(path), problems)


def frontmatter_of(text: str, path: str) -> tuple[dict[str, Any], str]:
    """The same of a text that was read from `path`."""
    return _parsed(Source.of(text, path), path, Problems())


def _parsed(source: Source | None, path: str, problems: Problems) -> tuple[dict[str, Any], str]:
    document = parse_document(source, problems) if source is not None else None
    if document is None or problems.errors:
        found = "\n".join(render(problem) for problem in problems)
        raise SkillrunError(f"{path} cannot be read:\n{found}", "mend or restore the file; nothing was changed")
    return plain(document.front), document.body.value


def plain_data(value: Any) -> Any:
    """The same with plain dicts and lists, so that it can be stored."""
    if isinstance(value, Mapping):
        return {str(key): plain_data(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_data(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None.__class__) else str(value)
