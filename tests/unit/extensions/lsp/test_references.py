"""Definitions, references and renames of symbols, across files and test cases."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from skillrun.extensions.lsp.references import (
    file_symbol,
    find_definitions,
    find_references,
    list_declarations,
    symbols_at,
)
from skillrun.extensions.lsp.renames import RenameEdit, RenameRefused, rename
from skillrun.extensions.lsp.symbol_index import TextRange
from skillrun.extensions.lsp.workspace import recheck
from skillrun.library.library import NO_UNSAVED_FILES, Library
from skillrun.library.roots import search_path
from tests.unit.extensions.lsp.conftest import Project, build_index

pytestmark = pytest.mark.row("A5")
JUDGING, INTAKE, NOTIFY = (f"skills/triage/{name}.md" for name in ("judging", "intake", "notify"))
TRIAGE, PROTOCOL, CONFIG = "workflows/triage.md", "skills/protocols/second-look.md", "config/triage.yaml"
CASE = "tests/triage/broken.md"


def describe_range(project: Project, span: TextRange) -> str:
    """Return a range as `file:line text`."""
    text = span.path.read_text(encoding="utf-8")
    line = text.count("\n", 0, span.start) + 1
    return f"{span.path.relative_to(project.folder).as_posix()}:{line} {text[span.start : span.end]}".strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
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
def test_a_name_is_resolved_to_its_declaration(project: Project, name: str, old: str, new: str, expected: str) -> None:
    assert [
        describe_range(project, definition)
        for definition in find_definitions(project.index, *project.edit(name, old, new))
    ] == [expected]


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        (TRIAGE, "  judging:", "  jud¦ging:", {CASE, TRIAGE, "skills/triage/filing.md", NOTIFY}),
        (TRIAGE, "  depth:", "  de¦pth:", {CASE, TRIAGE, INTAKE, JUDGING}),
        (JUDGING, "id: draft", "id: dr¦aft", {JUDGING, "skills/triage/letter.md"}),
        (CONFIG, "judges:", "jud¦ges:", {CONFIG, JUDGING}),
        (PROTOCOL, "[author, doubter]", "[aut¦hor, doubter]", {PROTOCOL, JUDGING}),
        (INTAKE, '  urgency: "{{ alarmed', '  urg¦ency: "{{ alarmed', {INTAKE, CASE}),
    ],
)
def test_references_of_a_declaration_are_found_in_every_file(
    project: Project, name: str, old: str, new: str, expected: set[str]
) -> None:
    [symbol] = {mention.symbol for mention in symbols_at(project.index, *project.edit(name, old, new))}
    references = find_references(project.index, symbol)
    assert {reference.path.relative_to(project.folder).as_posix() for reference in references} == expected


def test_references_to_a_file_are_found(project: Project) -> None:
    symbol = file_symbol("roles/clerk.md")
    assert symbol is not None
    references = {describe_range(project, reference) for reference in find_references(project.index, symbol)}
    assert {f"{INTAKE}:8 clerk", f"{JUDGING}:15 clerk", "skills/notice/letter.md:4 clerk"} <= references


def test_an_edit_above_the_cursor_does_not_affect_the_result(project: Project) -> None:
    path, name, text, offset = project.edit(JUDGING, "goto: intake", "goto: in¦take")
    text, offset = text.replace("steps:\n", "steps:\n  # one line more\n", 1), offset + len("  # one line more\n")
    assert [
        describe_range(project, definition) for definition in find_definitions(project.index, path, name, text, offset)
    ] == [f"{TRIAGE}:28 intake"]


# renames


def problems_after(renaming: RenameEdit, project: Project, target: Path) -> list[str]:
    """Return the problems of the project after a rename."""
    folder = project.folder
    texts = {path: path.read_text(encoding="utf-8") for path in renaming.edits}
    for path, edits in renaming.edits.items():
        for (start, end), name in sorted(edits.items(), reverse=True):
            texts[path] = texts[path][:start] + name + texts[path][end:]
    if not renaming.files:
        return recheck_problems(folder, project, texts)
    shutil.copytree(folder, target)
    for path, text in texts.items():
        (target / path.relative_to(folder)).write_text(text, encoding="utf-8")
    for old, new in renaming.files:
        (target / old.relative_to(folder)).rename(target / new.relative_to(folder))
    return recheck_problems(target, project)


def recheck_problems(folder: Path, project: Project, texts: Mapping[Path, str] = NO_UNSAVED_FILES) -> list[str]:
    """Recheck a changed copy of the project and return its problems."""
    library = Library(search_path(folder), project.index.library, texts)
    return [str(problem) for problem in recheck(library, (), project.checked).problems]


@pytest.mark.slow
def test_every_rename_leaves_a_valid_project(project: Project, tmp_path: Path) -> None:
    """Each new name has a `-`, which expressions write as `_`."""
    renamed: list[str] = []
    files = [path for path in sorted(project.folder.rglob("*.*")) if path.suffix in (".md", ".yaml")]
    for path in files:
        name = path.relative_to(project.folder).as_posix()
        for declaration in list_declarations(project.index, name):
            offset, text = declaration.span.offset, project.text(name)
            try:
                old = text[offset : offset + declaration.length]
                renaming = rename(project.index, path, name, text, offset, f"{old}-too")
            except RenameRefused:
                continue
            assert problems_after(renaming, project, tmp_path / str(len(renamed))) == [], declaration.symbol
            renamed.append(declaration.symbol.kind)
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
def test_renaming_a_symbol_named_after_its_file_renames_the_file(
    project: Project, tmp_path: Path, name: str, old: str, new: str, files: list[tuple[str, str]]
) -> None:
    renaming = rename(project.index, *project.edit(name, old, new), "writer")
    paths = [tuple(path.relative_to(project.folder).as_posix() for path in pair) for pair in renaming.files]
    assert paths == files
    assert problems_after(renaming, project, tmp_path / "copy") == []


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
def test_addresses_in_test_cases_are_renamed_too(project: Project, tmp_path: Path) -> None:
    folder = shutil.copytree(project.folder, tmp_path / "project")
    case = folder / "tests/triage/addressed.md"
    case.write_text(ADDRESSED)
    copy = Project(folder, build_index(folder))

    def rename_in_case(name: str, old: str, new: str, new_name: str) -> str:
        text = ADDRESSED
        edits = rename(copy.index, *copy.edit(name, old, new), new_name).edits[case]
        for (start, end), word in sorted(edits.items(), reverse=True):
            text = text[:start] + word + text[end:]
        return text

    expected = ADDRESSED.replace("draft", "sketch")
    assert rename_in_case(JUDGING, "id: draft", "id: dr¦aft", "sketch") == expected
    assert rename_in_case(TRIAGE, "  judging:", "  jud¦ging:", "scoring") == ADDRESSED.replace("judging", "scoring")


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
        (NOTIFY, "run: notice", "run: no¦tice", "x", "the name of a workflow is also the name of its file"),
    ],
)
def test_an_incomplete_or_invalid_rename_is_refused(
    project: Project, name: str, old: str, new: str, to: str, reason: str
) -> None:
    with pytest.raises(RenameRefused, match=reason.replace("`", ".")):
        rename(project.index, *project.edit(name, old, new), to)


def test_an_unchecked_text_is_not_renamed(project: Project) -> None:
    path, name, text, offset = project.edit(JUDGING, "id: draft", "id: dr¦aft")
    with pytest.raises(RenameRefused, match="errors or unchecked changes"):
        rename(project.index, path, name, text + "\n", offset, "x")
