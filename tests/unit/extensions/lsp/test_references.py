"""Definitions, references and renames of symbols, across files and test cases."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from skillrun.checker.rechecking import recheck
from skillrun.extensions.lsp.declarations import list_declarations
from skillrun.extensions.lsp.references import file_symbol, find_definitions, find_references, symbols_at
from skillrun.extensions.lsp.renames import RenameEdit, RenameRefused, rename
from skillrun.extensions.lsp.symbol_index import TextRange
from skillrun.library.library import NO_UNSAVED_FILES, Library
from skillrun.library.roots import search_path
from tests.unit.extensions.lsp.conftest import Desk, known

pytestmark = pytest.mark.row("A5")
JUDGING, INTAKE, NOTIFY = (f"skills/triage/{name}.md" for name in ("judging", "intake", "notify"))
TRIAGE, PROTOCOL, CONFIG = "workflows/triage.md", "skills/protocols/second-look.md", "config/triage.yaml"
CASE = "tests/triage/broken.md"


def told(desk: Desk, place: TextRange) -> str:
    """Return a range as `file:line text`."""
    text = place.path.read_text(encoding="utf-8")
    line = text.count("\n", 0, place.start) + 1
    return f"{place.path.relative_to(desk.folder).as_posix()}:{line} {text[place.start : place.end]}".strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "where"),
    [
        (JUDGING, "agent: clerk", "agent: cl¦erk", "roles/clerk.md:1"),
        (JUDGING, "protocol: second-look", "protocol: sec¦ond-look", f"{PROTOCOL}:1"),
        (JUDGING, "with: {rounds", "with: {ro¦unds", f"{PROTOCOL}:6 rounds"),
        (JUDGING, "panel: {author", "panel: {au¦thor", f"{PROTOCOL}:4 author"),
        (JUDGING, "retry: judges", "retry: ju¦dges", f"{CONFIG}:2 judges"),
        (JUDGING, "goto: intake", "goto: in¦take", f"{TRIAGE}:28 intake"),
        (JUDGING, "template: triage/letter", "template: triage/le¦tter", "skills/triage/letter.md:1"),
        (JUDGING, "until: pass.index > 1 and draft", "until: pass.index > 1 and dra¦ft", f"{JUDGING}:24 draft"),
        (JUDGING, "previous.draft.text", "previous.dra¦ft.text", f"{JUDGING}:24 draft"),
        (JUDGING, "attribute='weight'", "attribute='wei¦ght'", f"{JUDGING}:10 weight"),
        (JUDGING, "look.worth", "look.wo¦rth", f"{PROTOCOL}:20 worth"),
        (JUDGING, "config.benches", "config.ben¦ches", f"{CONFIG}:9 benches"),
        (JUDGING, "inputs.preset", "inputs.pre¦set", f"{TRIAGE}:8 preset"),
        (JUDGING, "## draft", "## dr¦aft", f"{JUDGING}:24 draft"),
        (INTAKE, "{{ state.seen", "{{ state.se¦en", f"{TRIAGE}:14 seen"),
        (INTAKE, "bank('triage/questions'", "bank('triage/que¦stions'", "skills/triage/questions.md:1"),
        (INTAKE, "[triage/rules", "[triage/ru¦les", "skills/triage/rules.md:1"),
        (NOTIFY, "run: notice", "run: no¦tice", "workflows/notice.md:1"),
        (NOTIFY, "notice.letter", "notice.let¦ter", "workflows/notice.md:8 letter"),
        (NOTIFY, "outputs.verdict", "outputs.ver¦dict", f"{JUDGING}:31 verdict"),
        (TRIAGE, "  judging:", "  jud¦ging:", f"{JUDGING}:1"),
        (TRIAGE, "after: judging", "after: jud¦ging", f"{TRIAGE}:29 judging"),
        (TRIAGE, "config: triage", "config: tri¦age", f"{CONFIG}:1"),
        (TRIAGE, "features.side_by_side", "features.side_by¦_side", f"{CONFIG}:5 side_by_side"),
        (TRIAGE, "artifacts['intake.md']", "artifacts['int¦ake.md']", f"{INTAKE}:33 intake.md"),
        (PROTOCOL, "seats.doubter", "seats.dou¦bter", f"{PROTOCOL}:4 doubter"),
        ("roles/clerk.md", "house-style", "house-¦style", "skills/house-style/SKILL.md:1"),
        (CASE, "depth: long", "de¦pth: long", f"{TRIAGE}:7 depth"),
        (CASE, "[intake, judging]", "[intake, jud¦ging]", f"{TRIAGE}:29 judging"),
        (CASE, "urgency: high", "ur¦gency: high", f"{INTAKE}:36 urgency"),
    ],
)
def test_a_name_leads_to_its_declaration(desk: Desk, name: str, old: str, new: str, where: str) -> None:
    assert [told(desk, place) for place in find_definitions(desk.knowledge, *desk.edited(name, old, new))] == [where]


@pytest.mark.parametrize(
    ("name", "old", "new", "places"),
    [
        (TRIAGE, "  judging:", "  jud¦ging:", {CASE, TRIAGE, "skills/triage/filing.md", NOTIFY}),
        (TRIAGE, "  depth:", "  de¦pth:", {CASE, TRIAGE, INTAKE, JUDGING}),
        (JUDGING, "id: draft", "id: dr¦aft", {JUDGING, "skills/triage/letter.md"}),
        (CONFIG, "judges:", "jud¦ges:", {CONFIG, JUDGING}),
        (PROTOCOL, "[author, doubter]", "[aut¦hor, doubter]", {PROTOCOL, JUDGING}),
        (INTAKE, '  urgency: "{{ alarmed', '  urg¦ency: "{{ alarmed', {INTAKE, CASE}),
    ],
)
def test_a_declaration_leads_to_every_file_that_names_it(
    desk: Desk, name: str, old: str, new: str, places: set[str]
) -> None:
    [thing] = {mention.symbol for mention in symbols_at(desk.knowledge, *desk.edited(name, old, new))}
    found = find_references(desk.knowledge, thing)
    assert {place.path.relative_to(desk.folder).as_posix() for place in found} == places


def test_a_file_is_named_by_others(desk: Desk) -> None:
    thing = file_symbol("roles/clerk.md")
    assert thing is not None
    found = {told(desk, place) for place in find_references(desk.knowledge, thing)}
    assert {f"{INTAKE}:8 clerk", f"{JUDGING}:15 clerk", "skills/notice/letter.md:4 clerk"} <= found


def test_an_edit_above_moves_nothing_away(desk: Desk) -> None:
    path, name, text, offset = desk.edited(JUDGING, "goto: intake", "goto: in¦take")
    text, offset = text.replace("steps:\n", "steps:\n  # one line more\n", 1), offset + len("  # one line more\n")
    assert [told(desk, place) for place in find_definitions(desk.knowledge, path, name, text, offset)] == [
        f"{TRIAGE}:28 intake"
    ]


# renames


def problems_after(renaming: RenameEdit, desk: Desk, to: Path) -> list[str]:
    """Return the problems of the project after a rename."""
    folder = desk.folder
    texts = {path: path.read_text(encoding="utf-8") for path in renaming.edits}
    for path, edits in renaming.edits.items():
        for (start, end), name in sorted(edits.items(), reverse=True):
            texts[path] = texts[path][:start] + name + texts[path][end:]
    if not renaming.files:
        return checked_in(folder, desk, texts)
    shutil.copytree(folder, to)
    for path, text in texts.items():
        (to / path.relative_to(folder)).write_text(text, encoding="utf-8")
    for old, new in renaming.files:
        (to / old.relative_to(folder)).rename(to / new.relative_to(folder))
    return checked_in(to, desk)


def checked_in(folder: Path, desk: Desk, texts: Mapping[Path, str] = NO_UNSAVED_FILES) -> list[str]:
    """Return the problems of a project that is similar to the one on the desk."""
    library = Library(search_path(folder), desk.knowledge.library, texts)
    return [str(problem) for problem in recheck(library, (), desk.checked).problems]


@pytest.mark.slow
def test_whatever_can_be_renamed_leaves_a_project_without_problems(desk: Desk, tmp_path: Path) -> None:
    """Renames every declaration of every file to a name with a `-`, which expressions write as `_`."""
    renamed: list[str] = []
    files = [path for path in sorted(desk.folder.rglob("*.*")) if path.suffix in (".md", ".yaml")]
    for path in files:
        name = path.relative_to(desk.folder).as_posix()
        for mention in list_declarations(desk.knowledge, name):
            place, text = mention.span.offset, desk.text(name)
            try:
                old = text[place : place + mention.length]
                renaming = rename(desk.knowledge, path, name, text, place, f"{old}-too")
            except RenameRefused:
                continue
            assert problems_after(renaming, desk, tmp_path / str(len(renamed))) == [], mention.symbol
            renamed.append(mention.symbol.kind)
    assert len(renamed) > 50
    assert {"local", "input", "state", "output", "phase", "variant", "seat", "key"} <= {*renamed}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "files"),
    [
        (JUDGING, "agent: clerk", "agent: cl¦erk", [("roles/clerk.md", "roles/writer.md")]),
        (JUDGING, "protocol: second-look", "protocol: sec¦ond-look", [(PROTOCOL, "skills/protocols/writer.md")]),
        (TRIAGE, "  filing:", "  fil¦ing:", [("skills/triage/filing.md", "skills/triage/writer.md")]),
        (TRIAGE, "  notice:", "  not¦ice:", []),  # its file is named under `skill`
    ],
)
def test_what_is_called_like_its_file_takes_the_file_along(
    desk: Desk, tmp_path: Path, name: str, old: str, new: str, files: list[tuple[str, str]]
) -> None:
    renaming = rename(desk.knowledge, *desk.edited(name, old, new), "writer")
    paths = [tuple(path.relative_to(desk.folder).as_posix() for path in pair) for pair in renaming.files]
    assert paths == files
    assert problems_after(renaming, desk, tmp_path / "copy") == []


ADDRESSED = """\
---
replies:
  - {address: "triage/judging/draft/*", text: Dear all.}
  - {address: "*/draft/*", text: Dear.}
  - {address: "triage/*/clerk/*", text: Left.}
expect:
  prompts: {"triage/judging/draft#2/clerk/1.1": {lacks: x}}
  calls: {"*/judging/*": 1}
---
"""


@pytest.mark.slow
def test_addresses_in_cases_take_another_name_too(desk: Desk, tmp_path: Path) -> None:
    folder = shutil.copytree(desk.folder, tmp_path / "desk")
    case = folder / "tests/triage/addressed.md"
    case.write_text(ADDRESSED)
    mine = Desk(folder, known(folder))

    def renamed(name: str, old: str, new: str, to: str) -> str:
        text = ADDRESSED
        edits = rename(mine.knowledge, *mine.edited(name, old, new), to).edits[case]
        for (start, end), word in sorted(edits.items(), reverse=True):
            text = text[:start] + word + text[end:]
        return text

    expected = ADDRESSED.replace("draft", "sketch")
    assert renamed(JUDGING, "id: draft", "id: dr¦aft", "sketch") == expected
    assert renamed(TRIAGE, "  judging:", "  jud¦ging:", "scoring") == ADDRESSED.replace("judging", "scoring")


@pytest.mark.parametrize(
    ("name", "old", "new", "to", "reason"),
    [
        (JUDGING, "id: draft", "id: dr¦aft", "kept", "the name `kept` already exists"),
        (JUDGING, "id: draft", "id: dr¦aft", "state", "a reserved name"),
        (JUDGING, "id: draft", "id: dr¦aft", "two words", "not a valid name"),
        (JUDGING, "id: draft", "id: dr¦aft", "draft", "already `draft`"),
        (JUDGING, "agent: clerk", "agent: cl¦erk", "judge", "the file `roles/judge.md` already exists"),
        (JUDGING, "retry: judges", "re¦try: judges", "x", "only names that the project defines"),
        (JUDGING, "found | sort", "found | so¦rt", "x", "only names that the project defines"),
        (JUDGING, "weight: integer", "wei¦ght: integer", "x", "also named in prompts"),
        (TRIAGE, "artifacts['intake.md']", "artifacts['int¦ake.md']", "x", "also named in prompts"),
        (CONFIG, "usual:", "us¦ual:", "x", "known only during a run"),
        (CONFIG, "limit: 2", "li¦mit: 2", "x", "a key of the language"),
        ("roles/clerk.md", "model: fast", "model: fa¦st", "x", "not declared in this project"),
        (NOTIFY, "run: notice", "run: no¦tice", "x", "a workflow is named after its file"),
    ],
)
def test_a_rename_that_would_leave_something_behind_is_refused(
    desk: Desk, name: str, old: str, new: str, to: str, reason: str
) -> None:
    with pytest.raises(RenameRefused, match=reason.replace("`", ".")):
        rename(desk.knowledge, *desk.edited(name, old, new), to)


def test_nothing_is_renamed_in_a_text_that_was_not_checked(desk: Desk) -> None:
    path, name, text, offset = desk.edited(JUDGING, "id: draft", "id: dr¦aft")
    with pytest.raises(RenameRefused, match="errors or unchecked changes"):
        rename(desk.knowledge, path, name, text + "\n", offset, "x")
