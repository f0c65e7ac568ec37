"""`skillrun list`: lists the files on the search path with description and origin.

It reads only frontmatter, which is fast, and does not check the files.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from skillrun.cli.formatting import format_columns
from skillrun.cli.options import as_json, current_project
from skillrun.cli.output import Output
from skillrun.library.roots import search_path
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.reading import is_outside, open_file, read_source
from skillrun.syntax.source import MAX_PROSE, Scalar

FOLDERS: Final = {"workflows": "workflows", "protocols": "skills/protocols", "roles": "roles"}
HEAD_BYTES: Final = 4_000  # bytes at the start of a file that usually contain its description
# Matches a one-line description that is a plain string in YAML, so that most files need no YAML parser.
_PLAIN: Final = re.compile(
    rb"\A---\r?\n(?:[a-z]+: [A-Za-z0-9_-]+\r?\n)*description: ([A-Za-z]+,? [A-Za-z0-9 ,.;()/+-]*)\r?\n(?=[A-Za-z-])"
)
UNREADABLE: Final = "(cannot be read; `skillrun validate` shows why)"


@dataclass(frozen=True)
class ListedFile:
    name: str
    description: str
    origin: str


@click.command(name="list", help="List the workflows, protocols and roles, and the folder that each comes from.")
@as_json
def listing(out: Output) -> int:
    folders = {title: list_files(current_project(), folder) for title, folder in FOLDERS.items()}
    for title, files in folders.items():
        out.line(f"{title}:")
        out.text(format_columns((f"  {item.name}", f"{item.description} ({item.origin})") for item in files))
    out.data({title: [asdict(item) for item in files] for title, files in folders.items()})
    return 0


def list_files(project: Path, folder: str) -> list[ListedFile]:
    """Return the markdown files in `folder` of all roots, sorted by name. If several roots have a file with the same
    name, return only the first."""
    by_name: dict[str, ListedFile] = {}
    for root in search_path(project):
        for path in (root.path / folder).glob("[!.]*.md") if not is_outside(root.path / folder, root.boundary) else ():
            if path.stem not in by_name:
                by_name[path.stem] = ListedFile(path.stem, _read_description(path, root.boundary), root.name)
    return sorted(by_name.values(), key=lambda item: item.name)


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
    from skillrun.syntax.document import parse_frontmatter

    problems = Problems()
    source = read_source(path, path.name, problems, MAX_PROSE, inside)
    is_role = path.parent.name == "roles"
    front = parse_frontmatter(source, problems, foreign=is_role)[0] if source is not None else None
    node = front.get("description") if front is not None else None
    if problems.has_errors or (node is not None and not isinstance(node, Scalar)):
        return UNREADABLE
    if node is None or node.value is None:
        return ""
    return " ".join((node.text.value if node.text is not None else str(node.value)).split())
