"""Members: the lines they read, session memory, usage, and the reasons for their failures."""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.models.messages import ERROR_KINDS
from skillrun.runtime.calls.member_request import LineRange, merge_line_ranges
from skillrun.store.local.journal import SqliteJournal
from skillrun.templates.return_types import FAILURES, STATUSES
from tests.acceptance.test_outcomes import phase, summary, workflow, write

Call = Callable[..., Any]


def run(folder: Path, skillrun: Call, rules: list[Mapping[str, Any]], *more: str, code: int = 0) -> dict[str, Any]:
    """Run `desk` with these replies and return the summary of its only phase."""
    (folder / "script.yaml").write_text(json.dumps(rules))
    done = skillrun("desk", "--script", "script.yaml", "--name", "r", "--model", "openai:small", *more)
    assert done.code == code, done.out + done.err
    return summary(folder / "runs" / "r", "one")


def desk(folder: Path, *steps: str, more: str = "", head: str = "", **sections: str) -> Path:
    files = {
        "workflows/desk.md": workflow("desk", "  one:\n", head),
        "skills/desk/one.md": phase(*steps, more=more, **sections),
        "config/models.yaml": 'models: {"openai:small": {window: 20000, max_output: 1000}}\n',
    }
    return write(folder, files)


def sent(folder: Path) -> dict[str, list[list[str]]]:
    """The blocks of each message sent, by address."""
    with closing(SqliteJournal.open(folder / "runs" / "r")) as journal:
        return {
            entry.address: [[block["text"] for block in message["blocks"]] for message in entry.body["messages"]]
            for entry in journal.entries("sent")
        }


@pytest.mark.row("D10")
def test_reads_lists_the_files_and_lines_that_a_member_read(project: Call, skillrun: Call) -> None:
    folder = desk(
        project(),
        "{id: look, agent: clerk}",
        more='outputs: {reads: "{{ look.replies[0].reads }}"}\n',
        head="inputs: {repo?: path}\nrepository: '{{ inputs.repo }}'\n",
        look="Look.",
    )
    (folder / "roles" / "clerk.md").write_text("---\nname: clerk\ntools: [Read, Grep]\n---\nYou answer.\n")
    (folder / "code").mkdir()
    (folder / "code" / "a.py").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    (folder / "code" / "b.py").write_text("one\ntwo\n")

    def read(**arguments: Any) -> dict[str, Any]:
        return {"name": "Read", "arguments": arguments}

    calls = [
        read(path="b.py"),
        read(path="a.py", offset=20, limit=5),
        read(path="a.py", offset=3, limit=4),
        read(path="a.py", offset=7, limit=2),
        read(path="none.py"),
        {"name": "Grep", "arguments": {"pattern": "line"}},
    ]
    rules: list[Mapping[str, Any]] = [
        {"address": "*/look/*/1.1", "calls": calls},
        {"address": "*/look/*/2.1", "text": "Seen."},
    ]
    assert run(folder, skillrun, rules, "--repo", "code")["outputs"]["reads"] == [
        {"path": "b.py", "from": 1, "lines": 2},
        {"path": "a.py", "from": 3, "lines": 6},
        {"path": "a.py", "from": 20, "lines": 5},
    ]


@given(st.lists(st.builds(LineRange, st.sampled_from("ab"), st.integers(1, 30), st.integers(0, 9))))
def test_merged_ranges_contain_each_line_read_exactly_once(reads: list[LineRange]) -> None:
    merged = merge_line_ranges(reads)

    def lines(ranges: list[LineRange]) -> list[tuple[str, int]]:
        return [(item.path, number) for item in ranges for number in range(item.first, item.end)]

    assert set(lines(merged)) == set(lines(reads))
    assert len(lines(merged)) == len(set(lines(merged)))
    assert {item.path for item in merged} == {item.path for item in reads}
    assert merge_line_ranges(merged) == merged


@pytest.mark.row("D8")
def test_material_is_sent_again_only_to_members_that_do_not_remember_it(project: Call, skillrun: Call) -> None:
    prompt = "{% if member.remembers %}You know it.{% else %}It was this: the plan.{% endif %}"
    steps = (
        '{id: first, agent: [clerk, "clerk@fast"], session: persistent, material: {The plan: "{{ plan }}"}}',
        '{id: second, agent: [clerk, "clerk@fast"], session: persistent, material: {The plan: "{{ plan }}", More: b}}',
    )
    plan = "{set: {plan: 'Nothing is done before noon.'}}"
    outputs = 'outputs: {saved: "{{ run.usage.saved }}", usage: "{{ run.usage }}"}\n'
    folder = desk(project(), plan, *steps, more=outputs, first=prompt, second=prompt)
    rules: list[Mapping[str, Any]] = [
        {"address": "*/first/clerk@fast/*", "fail": "overloaded"},
        {"address": "*/second/clerk/*", "text": "Yes.", "cached": 30},
        {"address": "*/second/*", "text": "Yes.", "cached": 7},
    ]
    record = run(folder, skillrun, rules)
    messages = sent(folder)
    (earlier, _, latest) = messages["desk/one/second/clerk/1.1"]
    (restarted,) = messages["desk/one/second/clerk@fast/1.1"]
    assert "It was this" in earlier[-2]
    assert "Nothing is done before noon." in earlier[-3]
    assert "You know it." in latest[-1]
    assert not any("before noon" in block for block in latest)
    assert any("b\n" in block for block in latest), "new material is sent"
    assert "It was this" in restarted[-2]
    assert any("before noon" in block for block in restarted)
    assert record["outputs"]["saved"] == {"cache": 37, "sessions": 30}
    assert (record["usage"]["kept"], record["outputs"]["usage"]["cache_read"]) == (30, 37)


@pytest.mark.row("D8")
def test_material_that_changes_back_is_sent_again(project: Call, skillrun: Call) -> None:
    steps = (
        f'{{id: {name}, agent: clerk, session: persistent, material: {{The plan: "{plan}"}}}}'
        for name, plan in (("first", "At noon."), ("second", "At dawn."), ("third", "At noon."), ("fourth", "At noon."))
    )
    folder = desk(project(), *steps, first="Say.", second="Say.", third="Say.", fourth="Say.")
    run(folder, skillrun, [{"address": "*", "text": "Yes."}])
    messages = sent(folder)["desk/one/fourth/clerk/1.1"]
    plans = [block for message in messages for block in message if "The plan" in block]
    assert ["noon" in block for block in plans] == [True, False, True], "the fourth step does not send it again"


@pytest.mark.row("D8")
def test_a_member_that_lost_its_conversation_does_not_remember(project: Call, skillrun: Call) -> None:
    prompt = "{{ 'You know it.' if member.remembers else 'It was this.' }}"
    steps = ("{id: first, agent: clerk, session: persistent}", "{id: second, agent: clerk, session: persistent}")
    folder = desk(project(), *steps, first=prompt, second=prompt)
    (folder / "config" / "models.yaml").write_text('models: {"openai:small": {window: 1200, max_output: 400}}\n')
    record = run(folder, skillrun, [{"address": "*/first/*", "text": "words and words " * 400}])
    assert record["quality_warnings"] == [
        "clerk starts a new conversation: the earlier one no longer fits the window of openai:small"
    ]
    (blocks,) = sent(folder)["desk/one/second/clerk/1.1"]
    assert "It was this." in blocks[-2]


@pytest.mark.row("D8")
def test_only_persistent_sessions_cache_the_whole_conversation(project: Call, skillrun: Call) -> None:
    steps = ("{id: first, agent: clerk, session: persistent}", "{id: second, agent: clerk}")
    folder = desk(project(), *steps, first="Say.", second="Say.")
    run(folder, skillrun, [])
    with closing(SqliteJournal.open(folder / "runs" / "r")) as journal:
        last = [entry.body["messages"][-1]["blocks"][-1]["cache"] for entry in journal.entries("sent")]
    assert last == [True, False]


def test_the_tokens_of_a_member_include_its_skills(project: Call, skillrun: Call) -> None:
    folder = desk(project(), "{id: first, agent: [clerk, adept]}", first="{{ member.id }} has {{ member.tokens }}.")
    skill = "---\nname: long\ndescription: Long.\n---\n" + "Many words stand here. " * 50
    write(
        folder,
        {"skills/long/SKILL.md": skill, "roles/adept.md": "---\nname: adept\nskills: [long]\n---\nYou answer.\n"},
    )
    run(folder, skillrun, [])
    texts = [messages[0][-2] for messages in sent(folder).values()]
    sizes = [int(text.rsplit(" has ", 1)[1].strip(" .\n")) for text in texts]
    assert sizes[0] < 10
    assert 200 < sizes[1] < 500


WHY = "{say: '{{ failure.kind }} | {{ failure.reason }} | {{ failure.text | default(\"nothing\") }}'}"


@pytest.mark.row("P16")
@pytest.mark.parametrize(
    ("rule", "kind", "reason", "text"),
    [
        ({"fail": "auth", "message": "no such key"}, "auth", "clerk: openai:small: no such key", "nothing"),
        ({"fail": "overloaded", "message": "busy"}, "overloaded", "clerk: busy", "nothing"),
        ({"text": "I would rather not."}, "parse_error", "does not match the schema", "I would rather not."),
        ({"text": "No.", "stop": "refusal"}, "refused", "clerk: openai:small: the model refused to answer", "No."),
    ],
)
def test_otherwise_receives_the_kind_reason_and_text_of_a_failure(
    rule: Mapping[str, Any], kind: str, reason: str, text: str, project: Call, skillrun: Call
) -> None:
    shape = "output: {a: string}, " if "text" in rule else ""
    folder = desk(project(), f"{{id: first, agent: clerk, {shape}otherwise: {WHY}}}", first="Say.")
    run(folder, skillrun, [{"address": "*/first/*", **rule}])
    events = [json.loads(line) for line in (folder / "runs/r/.run/transcript.ndjson").read_text().splitlines()]
    (message,) = [event["text"] for event in events if event["event"] == "Said" and " | " in event["text"]]
    parts = message.split(" | ")
    assert parts[0] == kind
    assert reason in parts[1]
    assert parts[2] == text


@pytest.mark.row("P16")
def test_otherwise_can_handle_a_single_kind_of_failure(project: Call, skillrun: Call) -> None:
    step = "{id: first, agent: clerk, otherwise: {when: \"failure.kind == 'invalid_request'\", agent: adept}}"
    section = "{% if failure %}{{ failure.kind }} stopped the clerk.{% else %}Say.{% endif %}"
    folder = desk(project(), step, "{say: 'Done.'}", first=section)
    write(folder, {"roles/adept.md": "---\nname: adept\n---\nYou answer.\n"})
    run(folder, skillrun, [{"address": "*/clerk/*", "fail": "invalid_request"}])
    blocks = sent(folder)["desk/one/first.otherwise/first/adept/1.1"][0]
    assert "invalid_request stopped the clerk." in blocks[-2]
    (folder / "script.yaml").write_text(json.dumps([{"address": "*/clerk/*", "fail": "too_long"}]))
    done = skillrun("desk", "--script", "script.yaml", "--name", "other", "--model", "openai:small")
    assert done.code == 1
    assert "`first` was not answered" in done.out


@pytest.mark.row("P16")
def test_otherwise_of_a_panel_or_phase_receives_the_failure(project: Call, skillrun: Call) -> None:
    protocol = (
        "---\nkind: protocol\ndescription: Asks.\nseats: {members: 1..2}\nsteps:\n"
        "  - {id: said, agent: \"{{ seats.members }}\"}\noutputs: {said: '{{ said.text }}'}\n---\n## said\n{{ task }}\n"
    )
    folder = desk(project(), f"{{id: look, panel: [clerk], protocol: asks, otherwise: {WHY}}}", look="Look.")
    head = "---\nname: desk\ndescription: Tried.\nphases:\n"
    write(
        folder,
        {
            "skills/protocols/asks.md": protocol,
            "workflows/desk.md": f"{head}  one:\n  two: {{otherwise: {WHY}}}\n---\n",
            "skills/desk/two.md": phase("{read: none.md}"),
        },
    )
    run(folder, skillrun, [{"address": "*/said/*", "fail": "not_found"}])
    done = skillrun("show", "r")
    assert "not_found | `said` was not answered (clerk: openai:small:" in done.out
    assert "failed | " in done.out


def test_failure_kinds_match_the_statuses_and_provider_errors() -> None:
    assert set(FAILURES) == {*STATUSES[1:], *ERROR_KINDS, "failed"} - {"budget", "missing"}
