"""Generates the reference files of the Agent Skill `skillrun-author` from the program's tables and the manual.

An assistant reads one file at a time, so each is complete and has no links. Writes no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from docsite.reference import MANUAL_LINK, files
from docsite.tables import NOTE, table
from skillrun.definitions.definitions import Step
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library
from skillrun.syntax.source import Mapping, to_plain
from skillrun.templates.filters import TESTS
from skillrun.templates.vocabulary import BUILTINS, manual_row

DOCS: Final = Path(__file__).parents[1] / "docs"
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\((?:#|[\w./-]+\.(?:md|yaml)|decisions/)[^)\s]*\)")
_DESCRIPTION: Final = re.compile(r",[^()]*(?=\))")  # of a key such as `findings(array, the worst first)`
_REPLIES: Final = (
    "The replies of each step, as shapes, for the `replies` of a test case. Their addresses are "
    "`*/LOOK/STEP/ROLE:VARIANT/*`, where LOOK is the panel's id; in a loop the pass comes first: "
    "`*/LOOK/debate#1/scores/*`."
)
_ANCHOR: Final = re.compile(r'<a id="[^"]*"></a>')
_MORE: Final = re.compile(r" ?\(\[?(?:more|how|why)\]?(?:\([^)]*\))?\)")


def keys() -> str:
    """Every key of every kind of file, and how inputs, variables and outputs are declared."""
    return _page("Keys of files", [*_manual("Inputs, state and outputs"), _as_section(files())])


def verbs() -> str:
    """The verbs in detail, and the material in prompts."""
    return _page("Steps", _manual("Material", "Steps", "Records with documents", "Points", "Summaries"))


def expressions() -> str:
    """The names, filters, functions and tests of templates."""
    own = [manual_row(name).strip("| ").split(" | ") for name, builtin in BUILTINS.items() if not builtin.group]
    groups: dict[str, list[str]] = {}
    for name, builtin in BUILTINS.items():
        if builtin.group:
            groups.setdefault(builtin.group, []).append(f"`{name}`")
    rows = "\n".join(f"| {' | '.join(row)} |" for row in own)
    parts = [
        *_manual("Strings", "Absent values", "Names"),
        '## Filters and functions\n\nWhere the table says "both", `x | clip(80)` and `clip(x, 80)` mean the same.',
        f"| name | as | gives |\n| --- | --- | --- |\n{rows}",
        "From Jinja, evaluated eagerly: they take and return lists.",
        table(["for", "filters"], [[group, " ".join(names)] for group, names in groups.items()]),
        f"Tests, after `is` and in `selectattr('field', 'test', …)`: {', '.join(f'`{name}`' for name in TESTS)}.",
        "In `selectattr`, `select` and their opposites also the signs `==`, `!=`, `<`, `<=`, `>` and `>=`.",
        *_manual("Patterns"),
    ]
    return _page("Expressions", parts)


def texts() -> str:
    """The functions that find ids, numbers and paths in documents."""
    return _page("Checks of texts", _manual("Checks of texts"))


def panels() -> str:
    """Panels: the shipped protocols, with their inputs, outputs and replies, and the shipped roles."""
    library = Library([Root(package_library(), "skillrun:", "library")])
    rows, replies = [], []
    for skill in library.skills():
        protocol = library.protocol(skill.removeprefix("protocols/")) if skill.startswith("protocols/") else None
        if protocol is not None:
            seats = ", ".join(protocol.seats.names) or f"{protocol.seats.least} to {protocol.seats.most} members"
            inputs = ", ".join(f"`{field.name}`" for field in protocol.inputs)
            outputs = ", ".join(f"`{name}`" for name in protocol.outputs)
            name = f"`{skill.partition('/')[2]}`"
            rows.append([name, protocol.description, seats, inputs, outputs])
            agent_steps = [step for step in protocol.walk() if step.verb == "agent"]
            replies += [[name, f"`{step.id}`", _seat(step), _reply(step)] for step in agent_steps]
    roles = []
    for name in library.names("roles"):
        role = library.role(name)
        if role is not None:
            roles.append([f"`{name}`", role.description, role.model, ", ".join(f"`{each}`" for each in role.variants)])
    parts = [
        "## Shipped protocols",
        table(["protocol", "what happens", "seats", "`with` takes", "the panel's id gives"], rows),
        "`quick`, `perspectives` and `red-team` need `config: planning` in the workflow.",
        _REPLIES,
        table(["protocol", "step", "member", "reply"], replies),
        "## Shipped roles",
        table(["role", "is", "model", "variants"], roles),
        *_manual("Protocols", "Shapes", "Roles and members", "Question banks"),
    ]
    return _page("Panels, shapes, roles and questions", parts)


def _seat(step: Step) -> str:
    """The seats or members that a protocol's step calls."""
    assert isinstance(step.node, Mapping)
    written = str(to_plain(step.node.entries["agent"].value))
    seat = re.fullmatch(r"\{\{ seats\.(\w+) \}\}", written)
    if seat is not None:
        return "each member" if seat[1] == "members" else seat[1]
    return "some members" if "{{" in written else f"`{written}`"


def _reply(step: Step) -> str:
    """The reply to a protocol's step, as a shape without descriptions."""
    if step.output is None:
        return "a text"
    if step.output.is_task:
        return "as declared by the panel's `output:`, or a text"
    assert isinstance(step.node, Mapping)
    return f"`{_notation(to_plain(step.node.entries['output'].value))}`"


def _notation(shape: Any) -> str:
    if isinstance(shape, dict):
        fields = (f"{_DESCRIPTION.sub('', name)}: {_notation(value)}" for name, value in shape.items())
        return f"{{{', '.join(fields)}}}"
    return f"[{', '.join(map(str, shape))}]" if isinstance(shape, list) else str(shape).partition(",")[0]


def config() -> str:
    """The config files, and the checks that go beyond names and types."""
    return _page("Config", _manual("Config", "Breakers", "Features", "What else is checked"))


def test_cases() -> str:
    """How to write a test case."""
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
    return _remove_links("\n\n".join([f"# {title}", *parts]).rstrip() + "\n")


def _as_section(page: str) -> str:
    """A page of the reference as a section: headings one level lower, without the note."""
    body = page.replace(f"{NOTE}\n\n", "").replace(f" {MANUAL_LINK}", "")
    return re.sub(r"^(#+ )", r"#\1", body, flags=re.MULTILINE).strip()


def _remove_links(text: str) -> str:
    return _ANCHOR.sub("", _LINK.sub(r"\1", _MORE.sub("", text)))


def _manual(*titles: str) -> list[str]:
    return _sections(DOCS / "language.md", *titles)


def _sections(page: Path, *titles: str) -> list[str]:
    """Sections of a page by their level 2 headings; headings in code blocks do not count."""
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
