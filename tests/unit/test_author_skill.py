"""The Agent Skill for authors has the Agent Skills format, and its references match the manual and the program.

`SKILLRUN_UPDATE_DOCS=1` regenerates the references; review the diff.
"""

import os
import re
from pathlib import Path

import pytest

from docsite.author_skill import REFERENCES
from skillrun.definitions.verbs import RESERVED, VERBS
from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.document import parse_document
from skillrun.syntax.reading import read_source
from skillrun.syntax.source import to_plain
from skillrun.templates.vocabulary import BUILTINS

pytestmark = pytest.mark.row("A4")
SKILL = Path(__file__).parents[2] / "starters" / "skill" / "skillrun-author"
UPDATE = bool(os.environ.get("SKILLRUN_UPDATE_DOCS"))
TEXT = (SKILL / "SKILL.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_matches_the_tables_and_the_manual(name: str) -> None:
    text = REFERENCES[name]()
    if UPDATE:
        (SKILL / "references" / name).write_text(text, encoding="utf-8")
    assert (SKILL / "references" / name).read_text(encoding="utf-8") == text
    assert "](" not in re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL), "a reference has no links"


def test_the_skill_has_the_agent_skills_format() -> None:
    problems = Problems()
    source = read_source(SKILL / "SKILL.md", "SKILL.md", problems)
    assert source is not None
    document = parse_document(source, problems)
    assert list(problems) == []
    assert document is not None
    frontmatter = to_plain(document.frontmatter)
    assert set(frontmatter) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert frontmatter["name"] == SKILL.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", frontmatter["name"])
    assert 0 < len(frontmatter["description"]) <= 1024
    assert 0 < len(frontmatter["compatibility"]) <= 500
    assert len(TEXT.splitlines()) < 500
    assert len(TEXT) / 4 < 5000, "the whole file is loaded, so it is short"
    linked = set(re.findall(r"\(references/([\w-]+\.md)\)", TEXT))
    assert linked == set(REFERENCES) == {path.name for path in (SKILL / "references").iterdir()}


def test_the_skill_names_every_verb_and_the_expressions_page_every_filter() -> None:
    assert [verb for verb in VERBS if f"`{verb}`" not in TEXT] == []
    assert [name for name in RESERVED if f"`{name}`" not in TEXT] == []
    expressions = REFERENCES["expressions.md"]()
    assert [name for name in BUILTINS if name not in expressions] == []
