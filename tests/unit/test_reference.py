"""The pages in `docs/reference/` match the program's tables, and the code table lists every reported code.

`SKILLRUN_UPDATE_DOCS=1` regenerates the pages; review the diff.
"""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import skillrun
from docsite.reference import PAGES
from skillrun.syntax.codes import CODES

TOP = Path(__file__).parents[2]
REFERENCE = TOP / "docs" / "reference"
UPDATE = bool(os.environ.get("SKILLRUN_UPDATE_DOCS"))  # read at import: tests run without this variable
CODE = re.compile(r"[a-z]+(-[a-z]+)*")
REPORTS = re.compile(r"report|_report|give_up|Problem|Wrong|warn")


@pytest.mark.row("A7")
@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_matches_the_tables(name: str) -> None:
    text = PAGES[name]()
    if UPDATE:
        REFERENCE.mkdir(exist_ok=True)
        (REFERENCE / name).write_text(text, encoding="utf-8")
    assert (REFERENCE / name).read_text(encoding="utf-8") == text


def test_the_reference_has_no_other_pages() -> None:
    assert {path.name for path in REFERENCE.iterdir()} == set(PAGES)


def _reported_codes() -> Iterator[str]:
    """Return the codes that the program reports as literals, and those of the invalid examples."""
    for path in Path(skillrun.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if REPORTS.fullmatch(name):
                texts = [part.value for part in node.args[:4] if isinstance(part, ast.Constant)]
                yield from [text for text in texts if isinstance(text, str) and CODE.fullmatch(text)][:1]
    for path in (TOP / "tests" / "examples" / "invalid").glob("*/expected.txt"):
        yield from re.findall(r"(?:error|warning)\[([a-z-]+)\]:", path.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.row("A7")
def test_every_reported_code_is_explained() -> None:
    reported = set(_reported_codes())
    assert len(reported) > 80
    assert sorted(reported - CODES.keys()) == []


@pytest.mark.slow
def test_every_explained_code_is_reported() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(skillrun.__file__).parent.rglob("*.py")]
    written = {code for text in texts for code in re.findall(r'"([a-z]+(?:-[a-z]+)*)"(?!: )', text)}
    assert sorted(CODES.keys() - written - set(_reported_codes())) == []
