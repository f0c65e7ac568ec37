"""`skillrun list`: lists the files on the search path with description and origin.

It reads only frontmatter, which is fast, and does not check the files.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import click

from skillrun.cli.options import as_json, current_project
from skillrun.cli.output import Output
from skillrun.library.roots import SKILL_FILE, build_file_index, search_path
from skillrun.syntax.diagnostics import Problems, escape_line
from skillrun.syntax.reading import open_file, read_source
from skillrun.syntax.source import MAX_PROSE, Scalar, items_of

FOLDERS: Final = {
    "workflows": "workflows/*.md",
    "protocols": "skills/protocols/*.md",
    "roles": "roles/*.md",
    "skills": f"skills/*/{SKILL_FILE}",
}
LINE_WIDTH: Final = 120
MAX_NAME_WIDTH: Final = 40
MIN_DESCRIPTION: Final = 40
HEAD_BYTES: Final = 4_000  # bytes at the start of a file that usually contain its description
# Matches a one-line description that is a plain string in YAML, so that most files need no YAML parser.
_PLAIN: Final = re.compile(
    rb"\A---\r?\n(?:[a-z]+: [A-Za-z0-9_-]+\r?\n)*description: ([A-Za-z]+,? [A-Za-z0-9 ,.;()/+'\"-]*)\r?\n(?=[A-Za-z-])"
)
UNREADABLE: Final = "(cannot be read; `skillrun validate` shows why)"


@dataclass(frozen=True)
class ListedFile:
    """A file of the library, and the root that it comes from. `replaces` is the root whose file it replaces."""

    name: str
    description: str
    origin: str
    replaces: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the fields, without `replaces` if the file replaces none."""
        return {name: value for name, value in asdict(self).items() if value or name != "replaces"}

    def describe(self, room: int) -> str:
        """Return the description and the origin in one line of at most `room` characters."""
        place = f" ({self.origin}{f', replaces that of the {self.replaces}' if self.replaces else ''})"
        text = " ".join(self.description.replace("\\n", " ").split())
        room = max(room - len(place), MIN_DESCRIPTION)
        return (text if len(text) <= room else f"{text[: room - 1].rstrip()}…") + place


@click.command(
    name="list", help="List the workflows, protocols, roles and Agent Skills, and the folder that each comes from."
)
@as_json
def listing(out: Output) -> int:
    folders = {title: list_files(current_project(), title) for title in FOLDERS}
    for title, files in folders.items():
        out.line(f"{title}:")
        width = min(MAX_NAME_WIDTH, max((len(item.name) for item in files), default=0) + 2)
        for item in files:
            name = f"{item.name:{width - 1}} "
            out.line(escape_line(f"  {name}{item.describe(LINE_WIDTH - len(name) - 2)}"))
    out.data({title: [item.to_dict() for item in files] for title, files in folders.items()})
    return 0


def list_files(project: Path, kind: str) -> list[ListedFile]:
    """Return the files of a kind, such as "workflows", in all roots, sorted by name. If several roots have a file with
    the same name, return only the first."""
    listed = []
    pattern = FOLDERS[kind]
    for path, places in build_file_index(search_path(project), (), Problems(), pattern.split("/")[:1]).items():
        if fnmatchcase(path, pattern) and path.count("/") == pattern.count("/"):
            root, file = places[0]
            name = path.removesuffix(f"/{SKILL_FILE}").removesuffix(".md").rpartition("/")[2]
            replaces = places[-1][0].name if len(places) > 1 else ""
            listed.append(ListedFile(name, _read_description(file, root.boundary), root.name, replaces))
    return sorted(listed, key=lambda item: item.name)


def has_workflow(project: Path, name: str) -> bool:
    return any((root.path / "workflows" / f"{name}.md").is_file() for root in search_path(project))


def _read_description(path: Path, inside: Path | None) -> str:
    """Return the description, or UNREADABLE if the file cannot be read."""
    try:
        with open_file(path, inside) as file:
            plain = _PLAIN.search(file.read(HEAD_BYTES))
    except OSError:
        return UNREADABLE
    return plain[1].decode("ascii").strip() if plain else _read_yaml_description(path, inside)


def _read_yaml_description(path: Path, inside: Path | None) -> str:
    """Return the description from frontmatter that needs the YAML parser."""
    from skillrun.syntax.document import parse_foreign, parse_frontmatter

    problems = Problems()
    source = read_source(path, path.name, problems, MAX_PROSE, inside)
    if source is None:
        return UNREADABLE
    if "roles" in path.parts or path.name.upper() == SKILL_FILE.upper():
        document = parse_foreign(source, problems)
        node = document.frontmatter.get("description") if document is not None else None
        items = items_of(node) or (node,)
        texts = [item.as_written for item in items if isinstance(item, Scalar) and item.value is not None]
        return UNREADABLE if document is None else ", ".join(texts)
    front = parse_frontmatter(source, problems)[0]
    node = front.get("description") if front is not None else None
    if problems.has_errors or (node is not None and not isinstance(node, Scalar)):
        return UNREADABLE
    if node is None or node.value is None:
        return ""
    return " ".join((node.text.value if node.text is not None else str(node.value)).split())
