"""The README and the language manual: their examples are valid, and every part of the language is documented."""

import re
from pathlib import Path

import pytest

from docsite.command_pages import with_subcommands
from skillrun.checker.checker import check_library
from skillrun.cli.registry import COMMANDS
from skillrun.definitions.definitions import KINDS, PHASE_USE_KEYS, REFERENCE_KEYS, ROW_KEYS, STEP_KEYS
from skillrun.definitions.parse import parse_phase
from skillrun.definitions.verbs import SUMMARY_KEYS, VERBS
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.syntax.diagnostics import Problems, render_problem
from skillrun.syntax.document import parse_document
from skillrun.syntax.reading import read_source
from skillrun.templates.filters import TESTS
from skillrun.templates.vocabulary import BUILTINS, CONTEXT_FUNCTIONS, FILTERS, FUNCTIONS, manual_row
from skillrun.types.fields import KEYS as FIELD_KEYS
from skillrun.types.fields import TYPES

TOP = Path(__file__).parents[2]
README, MANUAL = TOP / "README.md", TOP / "docs" / "language.md"
_FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEPS = re.compile(r"^```yaml step\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _files(page: Path) -> dict[str, str]:
    return dict(_FILE.findall(page.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, MANUAL], ids=lambda page: page.name)
def test_the_examples_make_a_project_without_problems(page: Path, tmp_path: Path) -> None:
    files = _files(page)
    assert any(name.startswith("workflows/") for name in files)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    library = Library(search_path(tmp_path))
    check_library(library, COMMANDS)
    assert [render_problem(problem) for problem in library.problems] == []
    assert files.keys() <= {source.label for source in library.files.values()}


@pytest.mark.finding("NC6")
def test_the_file_name_of_a_code_block_is_in_the_paragraph_above_it() -> None:
    """Most viewers do not show the info string of a code block."""
    count = 0
    for page in (README, *(TOP / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^`{3,}\w+ .*?file=(\S+)", text, re.MULTILINE):
            paragraph = text[: block.start()].rstrip().rpartition("\n\n")[2]
            assert f"`{block[1]}`" in paragraph, f"{page.name}: {block[1]}"
            count += 1
    assert count > 50


def test_the_readme_is_short() -> None:
    """Words in examples, links and pictures count too."""
    assert len(README.read_text(encoding="utf-8").split()) <= 1200


@pytest.mark.finding("NC13")
def test_each_command_is_in_the_overview_once() -> None:
    text = (TOP / "docs" / "commands.md").read_text(encoding="utf-8")
    links = re.findall(r"\[`([\w ]+)`\]\(reference/commands\.md#([\w-]+)\)", text)
    assert [anchor for _, anchor in links] == [name.replace(" ", "-") for name, _ in links]
    assert sorted(name for name, _ in links) == sorted(with_subcommands(COMMANDS))


@pytest.mark.finding("NC6")
def test_the_readme_and_the_comparison_page_show_the_same_table() -> None:
    def rows(page: Path, *skipped_columns: int) -> list[list[str]]:
        lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
        data_rows = [line.strip("| ").split(" | ") for line in lines if re.search(r"\| \d+ \|$", line)]
        return [[cell for number, cell in enumerate(cells) if number not in skipped_columns] for cells in data_rows]

    assert rows(README) == rows(TOP / "docs" / "comparison.md", 1)
    assert len(rows(README)) == 4


def test_every_step_snippet_parses(tmp_path: Path) -> None:
    snippets = _STEPS.findall(MANUAL.read_text(encoding="utf-8"))
    assert len(snippets) >= len(VERBS)
    for snippet in snippets:
        ids = re.findall(r"\bid: ([\w-]+)", snippet)
        path = tmp_path / "phase.md"
        path.write_text(f"---\nkind: phase\nsteps:\n{snippet}---\n" + "".join(f"## {name}\ntext\n" for name in ids))
        problems = Problems()
        source = read_source(path, "phase.md", problems)
        assert source is not None
        document = parse_document(source, problems)
        assert document is not None
        parse_phase(document, "phase", problems)
        reported = [problem for problem in problems if problem.code != "unused-section"]
        assert [render_problem(problem) for problem in reported] == [], snippet


def _words(texts: list[str]) -> set[str]:
    return set(re.findall(r"[\w-]+", " ".join(texts)))


def test_the_manual_names_every_verb_key_filter_function_and_test() -> None:
    """Names are in inline code; a verb also has its own heading."""
    text = MANUAL.read_text(encoding="utf-8")
    code = _words(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text))
    keys = {key for tables in (*KINDS.values(), PHASE_USE_KEYS, ROW_KEYS, REFERENCE_KEYS, STEP_KEYS) for key in tables}
    keys |= {key for verb in VERBS.values() for key in verb.keys}
    fields = {field for verb in VERBS.values() for field in verb.result_fields}
    kinds = {kind for kind, table in KINDS.items() if "kind" in table}
    named = {*VERBS, *kinds, *keys, *fields, *SUMMARY_KEYS, *FILTERS, *FUNCTIONS, *CONTEXT_FUNCTIONS, *TESTS}
    assert sorted(named - code) == []
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == list(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_table_of_a_verb_has_exactly_its_keys(verb: str) -> None:
    section = (
        MANUAL.read_text(encoding="utf-8").partition(f"\n### {verb}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    )
    table = re.search(r"^\| key \| \|\n\| --- \| --- \|\n((?:\|.*\n)+)", section, re.MULTILINE)
    if table is not None:
        assert _first_cells(table[0]) == {verb, *VERBS[verb].keys}


def test_the_tables_of_types_and_field_keys_are_complete() -> None:
    text = MANUAL.read_text(encoding="utf-8").partition("\n## Inputs, state and outputs\n")[2].partition("\n## ")[0]
    types, header, keys = text.partition("| key of the long form | |")
    assert _first_cells(types) == set(TYPES)
    assert _first_cells(header + keys) == set(FIELD_KEYS)


def _first_cells(text: str) -> set[str]:
    """Return the words in inline code in the first cells of a table."""
    return _words([code for row in _rows(text) for code in row.split(" | ")[0].split("`")[1::2]])


def test_the_manual_has_one_row_for_each_filter_and_function() -> None:
    """Rows have the text of the vocabulary; Jinja's filters are grouped by purpose."""
    _, _, text = MANUAL.read_text(encoding="utf-8").partition("The project's own:\n")
    own, _, rest = text.partition("Jinja's, eager")
    assert sorted(_rows(own)) == sorted(manual_row(name) for name, builtin in BUILTINS.items() if not builtin.group)
    groups: dict[str, set[str]] = {}
    for name, builtin in BUILTINS.items():
        if builtin.group:
            groups.setdefault(builtin.group, set()).add(name)
    rows = (row.strip("| ").split(" | ") for row in _rows(rest.partition("Tests, after")[0]))
    assert {group: _words([names]) for group, names in rows} == groups


def _rows(text: str) -> list[str]:
    """Return the rows of a table, without its header."""
    return [line for line in text.splitlines() if line.startswith("| ")][2:]
