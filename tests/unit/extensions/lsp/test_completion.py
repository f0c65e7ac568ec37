"""Completions at the cursor in every kind of file, even if the file is invalid there."""

import pytest

from skillrun.extensions.lsp.candidates import Completion
from skillrun.extensions.lsp.completion import complete
from tests.unit.extensions.lsp.conftest import Project

pytestmark = pytest.mark.row("A5")
JUDGING, INTAKE, FILING = (f"skills/triage/{name}.md" for name in ("judging", "intake", "filing"))
TRIAGE, PROTOCOL = "workflows/triage.md", "skills/protocols/second-look.md"


def completions_at(project: Project, name: str, old: str, new: str) -> list[Completion]:
    return complete(project.index, *project.edit(name, old, new))[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        # keys, from the tables of the checker
        (JUDGING, "with: {rounds: 2}", "¦", {"with", "criteria", "when", "otherwise"}),
        (JUDGING, "- id: finding", "- ¦\n  - id: finding", {"agent", "panel", "repeat", "id"}),
        (INTAKE, "then: high, because", "¦: high, because", {"then", "at_least"}),
        (TRIAGE, "retry: judging}", "¦}", {"retry", "when", "after", "skill", "otherwise"}),
        (TRIAGE, "repository:", "¦:", {"repository"}),
        (TRIAGE, "type: enum, values: [short", "¦: enum, values: [short", {"type", "shape", "fallback"}),
        ("roles/clerk.md", "skills: [house-style]", "¦", {"skills"}),
        ("config/triage.yaml", "limit: 2, then: skip", "¦: 2, then: skip", {"limit", "ask", "choices"}),
        ("config/triage.yaml", "enabled: false", "enabled: false\n    ¦", {"description", "rollback"}),
        (
            "tests/triage/broken.md",
            "path: [intake, judging]",
            "¦",
            {"outcome", "artifacts", "prompts", "calls", "path"},
        ),
        # names
        (JUDGING, "protocol: second-look", "protocol: sec¦", {"second-look", "debate"}),
        (JUDGING, '"judge:risk"', '"judge:¦"', {"judge:risk", "clerk:short"}),
        (JUDGING, '"judge:risk"', '"judge@¦"', {"judge@strong", "judge@opus"}),
        (JUDGING, "{author: clerk", "{au¦: clerk", {"author"}),
        (JUDGING, "with: {rounds: 2}", "with: {¦}", {"rounds"}),
        (JUDGING, "retry: judges", "retry: ¦", {"judges", "judging"}),
        (JUDGING, "goto: intake", "goto: ¦", {"intake", "judging"}),
        (JUDGING, "template: triage/letter", "template: tr¦", {"triage/letter"}),
        (JUDGING, "invalid: drop", "invalid: ¦", {"drop", "gather"}),
        (INTAKE, "references: [triage/rules", "references: [¦", {"triage/rules", "house-style"}),
        (INTAKE, "set: {kind:", "set: {¦: x, kind:", {"rounds"}),
        (TRIAGE, "config: triage", "config: ¦", {"triage", "planning"}),
        (TRIAGE, "skill: triage/notify", "skill: ¦", {"triage/notify"}),
        (TRIAGE, "after: judging, when", "after: ¦, when", {"intake", "judging", "notice"}),
        ("skills/triage/notify.md", "run: notice", "run: ¦", {"notice", "triage", "plan"}),
        ("skills/triage/notify.md", "tone: plain", "tone: ¦", {"plain", "warm"}),
        ("roles/clerk.md", "model: fast", "model: ¦", {"strong", "fast", "opus"}),
        ("roles/clerk.md", "tools: [Read, Grep]", "tools: [Read, ¦]", {"Grep", "List"}),
        ("roles/clerk.md", "skills: [house-style]", "skills: [¦]", {"house-style"}),
        ("config/triage.yaml", "then: skip", "then: ¦", {"skip", "ask", "fall back"}),
        ("config/triage.yaml", "[judge:risk, judge:feas", "[judge:¦, judge:feas", {"judge:risk"}),
        ("tests/triage/broken.md", "depth: long", "¦: long", {"depth", "limit", "preset"}),
        ("tests/triage/broken.md", "depth: long", "depth: ¦", {"short", "long"}),
        ("tests/triage/broken.md", "[intake, judging]", "[intake, ¦]", {"judging", "filing"}),
        ("tests/triage/broken.md", "{urgency: high}", "{¦: high}", {"urgency", "answers"}),
        (JUDGING, "## draft", "## ¦", {"draft", "Acceptance criteria"}),
        # templates
        (JUDGING, "{{ draft.text }}", "{{ ¦ }}", {"draft", "found", "kept", "inputs", "config", "others"}),
        (JUDGING, "{{ draft.text }}", "{{ draft.¦ }}", {"text", "replies", "degraded"}),
        (JUDGING, "{{ draft.text }}", "{{ draft.¦", {"text", "replies"}),
        (JUDGING, "found | sort(", "found | ¦(", {"sort", "map", "length"}),
        (JUDGING, "attribute='weight'", "attribute='¦'", {"title", "weight"}),
        (JUDGING, "inputs.depth == 'long'", "inputs.depth == '¦'", {"short", "long"}),
        (JUDGING, "when: look.worth", "when: look.¦", {"worth", "doubted", "degraded"}),
        (JUDGING, "config.benches", "config.¦", {"benches", "alarms"}),
        (JUDGING, "member.lens", "member.¦", {"lens", "role", "remembers"}),
        (JUDGING, "| last).phases.intake.summary", "| last).phases.¦", {"intake", "judging"}),
        (FILING, "{{ tag }}", "{{ t¦ }}", {"tag", "stamp"}),
        (FILING, "phases.judging.outputs.kept", "phases.judging.outputs.¦", {"kept", "verdict"}),
        (FILING, "phases.judging.outputs.kept", "phases.¦", {"judging", "intake"}),
        (INTAKE, "{{ one.text }}", "{{ one.¦ }}", {"text", "answer", "choices"}),
        (INTAKE, "bank('triage/questions'", "bank('¦'", {"triage/questions"}),
        (TRIAGE, "artifacts['intake.md']", "artifacts['¦']", {"intake.md", "title.md"}),
        (TRIAGE, "must: config.benches", "must: config.¦", {"benches"}),
        ("skills/triage/letter.md", "draft.text", "draft.¦", {"text"}),
        (PROTOCOL, '"{{ seats.author }}"', '"{{ seats.¦ }}"', {"author", "doubter"}),
        (PROTOCOL, "inputs.rounds", "inputs.¦", {"rounds"}),
    ],
)
def test_valid_keys_and_names_are_suggested(
    project: Project, name: str, old: str, new: str, expected: set[str]
) -> None:
    labels = {item.name for item in completions_at(project, name, old, new)}
    assert expected <= labels, sorted(expected - labels)


def test_a_key_that_exists_is_not_suggested_again(project: Project) -> None:
    labels = {item.name for item in completions_at(project, JUDGING, "with: {rounds: 2}", "¦")}
    assert not labels & {"id", "panel", "protocol", "output"}


def test_the_word_at_the_cursor_is_replaced_and_a_new_key_gets_its_colon(project: Project) -> None:
    path, name, text, offset = project.edit(JUDGING, "protocol: second-look", "proto¦col: second-look")
    start, end, completions = complete(project.index, path, name, text, offset)
    [protocol] = [item for item in completions if item.name == "protocol"]
    assert (text[start:end], protocol.suffix) == ("protocol", "")
    [with_item] = [item for item in completions_at(project, JUDGING, "with: {rounds: 2}", "wi¦") if item.name == "with"]
    assert with_item.suffix == ": "


def test_list_filters_are_suggested_for_lists_only(project: Project) -> None:
    labels = {item.name for item in completions_at(project, JUDGING, "{{ draft.text }}", "{{ draft.text | ¦ }}")}
    assert "trim" in labels
    assert not labels & {"flatten", "map", "groupby"}


def test_nothing_is_suggested_in_plain_text(project: Project) -> None:
    assert not completions_at(project, JUDGING, "Is this report worth", "Is th¦is report worth")
    assert not completions_at(project, "roles/clerk.md", "You read every report", "You re¦ad every report")
    assert not completions_at(project, JUDGING, "steps:\n", "steps:\n  # a com¦ment\n")


def test_later_steps_are_not_suggested(project: Project) -> None:
    labels = {item.name for item in completions_at(project, INTAKE, 'before: "{{ earlier }}"', 'before: "{{ ¦ }}"')}
    assert "earlier" in labels
    assert "note" not in labels


def test_an_unchecked_file_gets_keys_and_names(project: Project) -> None:
    text = "---\nkind: phase\nsteps:\n  - {id: a, agent: }\n---\n"
    offset = text.index("agent: ") + len("agent: ")
    path = project.folder / "skills/triage/new.md"
    labels = {item.name for item in complete(project.index, path, "skills/triage/new.md", text, offset)[2]}
    assert {"clerk", "judge:risk"} <= labels
