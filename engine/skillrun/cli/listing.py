"""`skillrun list`: what there is on the search path, by name, description and origin.

Reads the frontmatter alone, so that it is quick; whether a file is right is for the checker to say.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from skillrun.cli.options import as_json
from skillrun.cli.printing import Output
from skillrun.cli.words import listed
from skillrun.language.roots import leads_out, open_file, search_path

FOLDERS: Final = {"workflows": "workflows", "protocols": "skills/protocols", "roles": "roles"}
LARGEST: Final = 1_000_000
BROKEN: Final = "(cannot be read: `skillrun validate` says why)"


@dataclass(frozen=True)
class Item:
    name: str
    description: str
    origin: str


@click.command(name="list", help="Show the workflows, protocols and roles that are found, and where each comes from.")
@as_json
def listing(json: bool) -> int:
    out = Output(json)
    found = {title: items(Path.cwd(), folder) for title, folder in FOLDERS.items()}
    for title, all_of_it in found.items():
        out.line(f"{title}:")
        out.line(listed((f"  {item.name}", f"{item.description} ({item.origin})") for item in all_of_it))
    out.data({title: [asdict(item) for item in all_of_it] for title, all_of_it in found.items()})
    return 0


def items(project: Path, folder: str) -> list[Item]:
    """The markdown files of a folder by name, each from the first root that has it."""
    found: dict[str, Item] = {}
    for root in search_path(project):
        for path in (root.path / folder).glob("[!.]*.md") if not leads_out(root.path / folder, root.inside) else ():
            if path.stem not in found:
                found[path.stem] = Item(path.stem, _description(path, root.inside), root.name)
    return sorted(found.values(), key=lambda item: item.name)


def has_workflow(project: Path, name: str) -> bool:
    return any((root.path / "workflows" / f"{name}.md").is_file() for root in search_path(project))


def _description(path: Path, inside: Path | None) -> str:
    """The description with every scalar as text; BROKEN where there is no reading it."""
    import yaml

    try:
        with open_file(path, inside) as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            return BROKEN
        text = content.decode("utf-8-sig")
        front = {}
        if text.startswith("---"):
            front = yaml.load(text.split("\n---", 1)[0][3:], Loader=yaml.CBaseLoader)  # noqa: S506 (makes only texts, lists and mappings)
        return " ".join(front.get("description", "").split())
    except (OSError, ValueError, AttributeError, yaml.YAMLError, RecursionError):
        return BROKEN
