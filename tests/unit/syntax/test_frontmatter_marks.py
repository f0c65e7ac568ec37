"""The lines `---` around frontmatter: text above them, and other lines used instead."""

from __future__ import annotations

import pytest

from skillrun.syntax.diagnostics import Problems
from skillrun.syntax.document import parse_document
from skillrun.syntax.source import Source

BODY = "kind: phase\ndescription: Collects.\n---\n## ideas\nText.\n\n---\nA rule.\n"
NO_START = "the frontmatter has no line `---` before its first key"


def find_problems(text: str) -> list[str]:
    problems = Problems()
    parse_document(Source.of(text), problems)
    return [f"{each.line}:{each.column} {each.code}: {each.message}" for each in problems]


@pytest.mark.finding("FX10")
@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ("\n---\n", "1:1 frontmatter: the file starts with an empty line, but its frontmatter starts on line 2"),
        (" \n\t\n---\n", "1:1 frontmatter: the file starts with an empty line, but its frontmatter starts on line 3"),
        ("\n\ufeff---\n", "1:1 frontmatter: the file starts with an empty line, but its frontmatter starts on line 2"),
        ("<!-- mine -->\n---\n", "1:1 frontmatter: this text is above the frontmatter, which starts on line 2"),
        ("# mine\n\n---\n", "1:1 frontmatter: this text is above the frontmatter, which starts on line 3"),
        ("\n\n// mine\n---\n", "3:1 frontmatter: this text is above the frontmatter, which starts on line 4"),
        ("# mine\n---\n# a comment\n\n", "1:1 frontmatter: this text is above the frontmatter, which starts on line 2"),
        ("----\n", "1:1 frontmatter: `----` does not start the frontmatter"),
        ("--\n", "1:1 frontmatter: `--` does not start the frontmatter"),
        ("—\n", "1:1 frontmatter: `—` does not start the frontmatter"),
        ("---yaml\n", "1:1 frontmatter: `---yaml` does not start the frontmatter"),
        ("--- # mine\n", "1:1 frontmatter: `--- # mine` does not start the frontmatter"),
        (" ---\n", "1:2 frontmatter: blanks are before this `---`"),
        ("\t---\n", "1:2 frontmatter: blanks are before this `---`"),
        ("", f"1:1 frontmatter: {NO_START}"),
        ("# mine\n", f"1:1 frontmatter: {NO_START}"),
    ],
)
def test_a_frontmatter_that_does_not_start_on_the_first_line_is_reported(start: str, problem: str) -> None:
    assert find_problems(start + BODY) == [problem]


@pytest.mark.finding("FX10")
@pytest.mark.parametrize("start", ["---\n", "---\u00a0\n", "--- \n", "---\t\n", "---\r\n", "---\n# a comment\n\n"])
def test_a_frontmatter_may_have_blanks_after_its_mark_and_comments_in_it(start: str) -> None:
    assert find_problems(start + BODY) == []


@pytest.mark.finding("FX10")
@pytest.mark.parametrize("mark", ["----", "--", " ---", "\t---", "—", "--- # end", "---end", "..."])
def test_a_line_in_place_of_the_end_of_the_frontmatter_is_reported(mark: str) -> None:
    column = 1 + len(mark) - len(mark.lstrip())
    problem = f"3:{column} frontmatter: `{mark.strip()[:20]}` does not end the frontmatter"
    assert find_problems(f"---\nkind: phase\n{mark}\n## ideas\nText.\n") == [problem]


@pytest.mark.finding("FX10")
def test_a_missing_end_of_the_frontmatter_is_reported_at_its_start() -> None:
    problem = "1:1 frontmatter: the frontmatter that starts here is not closed"
    assert find_problems("---\nkind: phase\n## ideas\nText.\n") == [problem]


@pytest.mark.parametrize("text", ["Text.\n\n---\nMore.\n", "Text.\n\n---\nNote: more.\n\n---\n", "note: this\n"])
def test_a_text_with_rules_has_no_frontmatter(text: str) -> None:
    assert find_problems(text) == []
