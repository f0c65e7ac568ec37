"""Hover texts for the word under the cursor."""

import pytest

from skillrun.extensions.lsp.hover import hover
from tests.unit.extensions.lsp.conftest import Project

pytestmark = pytest.mark.row("A5")
JUDGING, TRIAGE = "skills/triage/judging.md", "workflows/triage.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        (JUDGING, "agent: clerk", "agent: cl¦erk", ["Reads what comes in", "`fast`", "`short`", "intake.md:8"]),
        (JUDGING, '"judge:risk"', '"judge:ri¦sk"', ["judge:risk"]),
        (JUDGING, "agent: clerk", "age¦nt: clerk", ["a member or a list of members", "`.replies`"]),
        (JUDGING, "at_least: 1", "at_le¦ast: 1", ["how many members of the list must reply", "a whole number"]),
        (JUDGING, "protocol: second-look", "protocol: second-¦look", ["another doubts it", "`doubter`"]),
        (JUDGING, "dedupe(", "ded¦upe(", ["nearly repeat an earlier item"]),
        (JUDGING, "| wordcount", "| wordc¦ount", ["texts"]),
        (JUDGING, "{{ draft.text }}", "{{ dr¦aft.text }}", ["a record", "- `text`: text", "Used in"]),
        (JUDGING, "{{ draft.text }}", "{{ draft.te¦xt }}", ["`draft.text`: text"]),
        (JUDGING, "inputs.preset", "inputs.pre¦set", ["one of `usual`, `quick`", "who judges"]),
        (JUDGING, "inputs.preset", "inp¦uts.preset", ["never changed", "- `depth`"]),
        (JUDGING, "retry: judges", "retry: jud¦ges", ["`limit`, `then`"]),
        (JUDGING, "id: finding", "id: find¦ing", ["- `data`: a list"]),
        (TRIAGE, "  judging:", "  jud¦ging:", ["until they agree", "`verdict`", "filing.md:6"]),
        (TRIAGE, "  limit: integer", "  li¦mit: integer", ["1..10", "how many findings are kept"]),
        ("config/triage.yaml", "limit: 2, then: skip", "li¦mit: 2, then: skip", ["`2`"]),
    ],
)
def test_a_word_is_explained(project: Project, name: str, old: str, new: str, words: list[str]) -> None:
    hover_text = hover(project.index, *project.edit(name, old, new))
    assert hover_text is not None
    assert [word for word in words if word not in hover_text.markdown] == [], hover_text.markdown


def test_plain_text_has_no_hover_text(project: Project) -> None:
    assert hover(project.index, *project.edit(JUDGING, "Is this report", "Is th¦is report")) is None
