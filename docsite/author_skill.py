"""The reference files of the Agent Skill `skillrun-author`: the program's own tables, and sections of the manual.

An assistant reads one of them at a time, so that each stands alone, without links. Writes no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from docsite.reference import cases, files, steps
from docsite.tables import NOTE, table
from skillrun.language.library.library import Library
from skillrun.language.library.roots import Root, package_library
from skillrun.language.templates.tests import TESTS
from skillrun.language.templates.vocabulary import BUILTINS

DOCS: Final = Path(__file__).parents[1] / "docs"
OWN_NOTE: Final = (
    "<!-- Made of the tables and the manual: `SKILLRUN_UPDATE_DOCS=1 pytest tests/unit/test_author_skill.py`. -->"
)
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\((?:#|[\w./-]+\.(?:md|yaml)|decisions/)[^)\s]*\)")
_ANCHOR: Final = re.compile(r'<a id="[^"]*"></a>')
_MORE: Final = re.compile(r" ?\(\[?(?:more|how|why)\]?(?:\([^)]*\))?\)")


def keys() -> str:
    """Every key of every kind of file, and of every step."""
    return _page("Keys of files and steps", [_made(files()), _made(steps())])


def verbs() -> str:
    """The verbs at length, with the material that they hand over."""
    return _page("Steps", _manual("Material", "Steps", "Records with documents", "Points"))


def expressions() -> str:
    """What templates may read and call."""
    own = [builtin.row.strip("| ").split(" | ") for builtin in BUILTINS.values() if not builtin.group]
    groups: dict[str, list[str]] = {}
    for name, builtin in BUILTINS.items():
        if builtin.group:
            groups.setdefault(builtin.group, []).append(f"`{name}`")
    rows = "\n".join(f"| {' | '.join(row)} |" for row in own)
    parts = [
        *_manual("Strings", "Absent values", "Names"),
        '## Filters and functions\n\n`x | clip(80)` may as well be written `clip(x, 80)` where it says "both".',
        f"| name | as | gives |\n| --- | --- | --- |\n{rows}",
        "Jinja's, eager: a list in, a list out.",
        table(["for", "filters"], [[group, " ".join(names)] for group, names in groups.items()]),
        f"Tests, after `is` and in `selectattr('field', 'test', …)`: {', '.join(f'`{name}`' for name in TESTS)}.",
        *_manual("Patterns", "Checks of texts"),
    ]
    return _page("Expressions", parts)


def panels() -> str:
    """Who speaks and how they are seated: the protocols that ship, with what they take and give."""
    library = Library([Root(package_library(), "skillrun:", "library")])
    rows = []
    for skill in library.skills():
        protocol = library.protocol(skill.removeprefix("protocols/")) if skill.startswith("protocols/") else None
        if protocol is not None:
            seats = ", ".join(protocol.seats.names) or f"{protocol.seats.least} to {protocol.seats.most} members"
            takes = ", ".join(f"`{field.name}`" for field in protocol.inputs)
            gives = ", ".join(f"`{name}`" for name in protocol.outputs)
            rows.append([f"`{skill.partition('/')[2]}`", protocol.description, seats, takes, gives])
    roles = []
    for name in library.names("roles"):
        role = library.role(name)
        if role is not None:
            roles.append([f"`{name}`", role.description, role.model, ", ".join(f"`{each}`" for each in role.variants)])
    parts = [
        "## Protocols that ship",
        table(["protocol", "what happens", "seats", "`with` takes", "the panel's id gives"], rows),
        "`quick`, `perspectives` and `red-team` want `config: planning` in the workflow.",
        "## Roles that ship",
        table(["role", "is", "model", "variants"], roles),
        *_manual("Protocols", "Shapes", "Roles and members", "Question banks"),
    ]
    return _page("Panels, shapes, roles and questions", parts)


def config() -> str:
    """What stands in config files, and what is checked beside names and types."""
    return _page("Config", _manual("Config", "Breakers", "Features", "Modes", "What else is checked"))


def test_cases() -> str:
    """How a case is written."""
    page = DOCS / "testing.md"
    return _page("Test cases", [*_sections(page, "What is given", "What is expected"), _made(cases())])


REFERENCES: Final[dict[str, Callable[[], str]]] = {
    "cases.md": test_cases,
    "config.md": config,
    "expressions.md": expressions,
    "keys.md": keys,
    "panels.md": panels,
    "steps.md": verbs,
}


def _page(title: str, parts: Iterable[str]) -> str:
    return _unlinked("\n\n".join([f"# {title}", OWN_NOTE, *parts]).rstrip() + "\n")


def _made(page: str) -> str:
    """A page of the reference as a part: a level further down, without its note."""
    body = page.replace(f"{NOTE}\n\n", "")
    return re.sub(r"^(#+ )", r"#\1", body, flags=re.MULTILINE).strip()


def _unlinked(text: str) -> str:
    return _ANCHOR.sub("", _LINK.sub(r"\1", _MORE.sub("", text)))


def _manual(*titles: str) -> list[str]:
    return _sections(DOCS / "language.md", *titles)


def _sections(page: Path, *titles: str) -> list[str]:
    """Sections of a page by their headings of level 2; headings in fences are text."""
    sections: dict[str, list[str]] = {}
    title, fence = "", ""
    for line in page.read_text(encoding="utf-8").splitlines():
        mark = re.match(r"`{3,}", line)
        if mark is not None:
            fence = "" if fence and line.rstrip() == fence else fence or mark[0]
        if not fence and line.startswith("## "):
            title = line[3:]
        sections.setdefault(title, []).append(line)
    return ["\n".join(sections[each]).strip() for each in titles]
