"""The reference files of the Agent Skill `skillrun-author`: the program's own tables, and sections of the manual.

An assistant reads one of them at a time, so that each stands alone, without links. Writes no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from docsite.reference import files
from docsite.tables import NOTE, table
from skillrun.definitions.definitions import Step
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library
from skillrun.syntax.source import Mapping, to_plain
from skillrun.templates.tests import TESTS
from skillrun.templates.vocabulary import BUILTINS

DOCS: Final = Path(__file__).parents[1] / "docs"
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\((?:#|[\w./-]+\.(?:md|yaml)|decisions/)[^)\s]*\)")
_DESCRIPTION: Final = re.compile(r",[^()]*(?=\))")  # of a key such as `findings(array, the worst first)`
_REPLIES: Final = (
    "What is asked in them, in the notation of shapes, for the replies of a test case: `*/LOOK/STEP/ROLE:VARIANT/*`, "
    "where LOOK is the panel's id; a step in a loop has its pass before it, as in `*/LOOK/debate#1/scores/*`."
)
_ANCHOR: Final = re.compile(r'<a id="[^"]*"></a>')
_MORE: Final = re.compile(r" ?\(\[?(?:more|how|why)\]?(?:\([^)]*\))?\)")


def keys() -> str:
    """Every key of every kind of file, and how inputs, variables and outputs are declared."""
    return _page("Keys of files", [*_manual("Inputs, state and outputs"), _made(files())])


def verbs() -> str:
    """The verbs at length, with the material that they hand over."""
    return _page("Steps", _manual("Material", "Steps", "Records with documents", "Points", "Summaries"))


def expressions() -> str:
    """What templates may read and call."""
    own = [builtin.manual_row.strip("| ").split(" | ") for builtin in BUILTINS.values() if not builtin.group]
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
        *_manual("Patterns"),
    ]
    return _page("Expressions", parts)


def texts() -> str:
    """What finds ids, numbers and paths in documents."""
    return _page("Checks of texts", _manual("Checks of texts"))


def panels() -> str:
    """Who speaks and how they are seated: the protocols that ship, with what they take and give."""
    library = Library([Root(package_library(), "skillrun:", "library")])
    rows, replies = [], []
    for skill in library.skills():
        protocol = library.protocol(skill.removeprefix("protocols/")) if skill.startswith("protocols/") else None
        if protocol is not None:
            seats = ", ".join(protocol.seats.names) or f"{protocol.seats.least} to {protocol.seats.most} members"
            takes = ", ".join(f"`{field.name}`" for field in protocol.inputs)
            gives = ", ".join(f"`{name}`" for name in protocol.outputs)
            name = f"`{skill.partition('/')[2]}`"
            rows.append([name, protocol.description, seats, takes, gives])
            asked = [step for step in protocol.walk() if step.verb == "agent"]
            replies += [[name, f"`{step.id}`", _seated(step), _reply(step)] for step in asked]
    roles = []
    for name in library.names("roles"):
        role = library.role(name)
        if role is not None:
            roles.append([f"`{name}`", role.description, role.model, ", ".join(f"`{each}`" for each in role.variants)])
    parts = [
        "## Protocols that ship",
        table(["protocol", "what happens", "seats", "`with` takes", "the panel's id gives"], rows),
        "`quick`, `perspectives` and `red-team` want `config: planning` in the workflow.",
        _REPLIES,
        table(["protocol", "step", "who is asked", "replies"], replies),
        "## Roles that ship",
        table(["role", "is", "model", "variants"], roles),
        *_manual("Protocols", "Shapes", "Roles and members", "Question banks"),
    ]
    return _page("Panels, shapes, roles and questions", parts)


def _seated(step: Step) -> str:
    """Who a protocol's step asks."""
    assert isinstance(step.node, Mapping)
    written = str(to_plain(step.node.entries["agent"].value))
    seat = re.fullmatch(r"\{\{ seats\.(\w+) \}\}", written)
    if seat is not None:
        return "each member" if seat[1] == "members" else seat[1]
    return "some members" if "{{" in written else f"`{written}`"


def _reply(step: Step) -> str:
    """What is replied to a protocol's step, in the notation of shapes without its descriptions."""
    if step.output is None:
        return "a text"
    if step.output.is_task:
        return "as `output:` of the panel says, or a text"
    assert isinstance(step.node, Mapping)
    return f"`{_notation(to_plain(step.node.entries['output'].value))}`"


def _notation(shape: Any) -> str:
    if isinstance(shape, dict):
        fields = (f"{_DESCRIPTION.sub('', name)}: {_notation(value)}" for name, value in shape.items())
        return f"{{{', '.join(fields)}}}"
    return f"[{', '.join(map(str, shape))}]" if isinstance(shape, list) else str(shape).partition(",")[0]


def config() -> str:
    """What stands in config files, and what is checked beside names and types."""
    return _page("Config", _manual("Config", "Breakers", "Features", "What else is checked"))


def test_cases() -> str:
    """How a case is written."""
    page = DOCS / "testing.md"
    return _page("Test cases", _sections(page, "What is given", "What is expected"))


REFERENCES: Final[dict[str, Callable[[], str]]] = {
    "cases.md": test_cases,
    "config.md": config,
    "expressions.md": expressions,
    "keys.md": keys,
    "panels.md": panels,
    "steps.md": verbs,
    "texts.md": texts,
}


def _page(title: str, parts: Iterable[str]) -> str:
    return _unlinked("\n\n".join([f"# {title}", *parts]).rstrip() + "\n")


def _made(page: str) -> str:
    """A page of the reference as a part: a level further down, without its note."""
    body = page.replace(f"{NOTE}\n\n", "").replace(" What they mean together is in the manual.", "")
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
