"""A member that has an Agent Skill can read the other files in the skill's folder, and nothing around it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skillrun.store.local.journal import SqliteJournal
from tests.acceptance.conftest import Call

SKILL = "---\nname: notes\ndescription: Notes.\n---\nRead `references/form.md`, then run `scripts/check.py`.\n"
FILES = {
    "workflows/ask.md": "---\nname: ask\ndescription: Asks.\ninputs: {request: string}\nREPOphases:\n  say:\n---\n",
    "skills/ask/say.md": "---\nkind: phase\nREFSsteps:\n  - {id: said, agent: reader}\n---\n## said\nSay.\n",
    "skills/quality/notes/SKILL.md": SKILL,
    "skills/quality/notes/references/form.md": "Three lines, no more.\n",
    "skills/quality/notes/scripts/check.py": "print(1)\n",
    "skills/quality/notes/.env": "KEY=secret\n",
    "skills/other/SKILL.md": "---\nname: other\ndescription: Another.\n---\nOther.\n",
    "skills/other/guide.md": "Not for the reader.\n",
    "roles/reader.md": "---\nname: reader\ndescription: Reads.\ntools: [TOOLS]\nskills: [notes]\n---\nYou read.\n",
    "plain.txt": "In the repository.\n",
}
MENTION = "The other files of this skill are in the folder `skill:notes/`."
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("Read", {"path": "skill:notes/references/form.md"}),
    ("List", {"path": "skill:notes"}),
    ("Read", {"path": "skill:notes/scripts/check.py"}),
    ("Read", {"path": "skill:notes/.env"}),
    ("Read", {"path": "skill:notes/../../other/guide.md"}),
    ("Read", {"path": "skill:other/guide.md"}),
    ("Read", {"path": "references/form.md"}),
    ("Read", {"path": "plain.txt"}),
]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call) -> Any:
    """Runs the workflow with a reader that makes these calls, and returns the results of the tools and the output."""

    def run(
        tools: str = "",
        repository: str = "",
        references: str = "",
        calls: list[tuple[str, dict[str, Any]]] = CALLS,
    ) -> Any:
        folder = tmp_path / "project"
        for name, text in FILES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                text.replace("TOOLS", tools).replace("REPO", repository).replace("REFS", references), encoding="utf-8"
            )
        tool_calls = [{"name": tool, "arguments": arguments} for tool, arguments in calls]
        rules = [{"address": "ask/say/said/*/1.1", "calls": tool_calls}, {"address": "*", "text": "Seen."}]
        (tmp_path / "script.yaml").write_text(json.dumps(rules))
        monkeypatch.chdir(folder)
        done = skillrun("ask", "Now", "--name", "it", "--script", "../script.yaml")
        assert done.code == 0, done.out
        with closing(SqliteJournal.open(folder / "runs" / "it")) as journal:
            return [entry.body["result"] for entry in journal.entries("tool")], done

    return run


@pytest.mark.finding("FU1")
@pytest.mark.row("P18", "L11")
def test_a_member_reads_the_files_of_its_skill_without_a_repository(ask: Any, skillrun: Call) -> None:
    (form, listed, script, secret, above, other, bare, plain), done = ask()
    assert form == bare == "     1\tThree lines, no more."
    assert listed.splitlines() == ["SKILL.md  5 lines", "references/  1 file", "scripts/  1 file"]
    assert script == "     1\tprint(1)"
    assert "may hold secrets" in secret
    assert all(text.startswith("error: ") for text in (above, other, plain))
    assert "begin the path with `skill:notes/`" in other
    assert "(the skill notes)" in done.out
    shown = skillrun("show", "it", "say", "said", "--full").out
    assert MENTION in shown
    assert "tools: Read, List" in shown


@pytest.mark.finding("FU1")
def test_the_files_of_a_skill_do_not_open_the_repository(ask: Any) -> None:
    results, _ = ask(tools="", repository='repository: "."\n')
    assert results[0] == "     1\tThree lines, no more."
    assert results[-1].startswith("error: ")


@pytest.mark.finding("FU1")
def test_a_member_reads_both_its_skill_and_the_repository(ask: Any) -> None:
    calls = [*CALLS[:1], ("Read", {"path": "plain.txt"}), ("Glob", {"pattern": "skill:notes/**/*.md"})]
    (form, plain, names), _ = ask(tools="Read, Glob", repository='repository: "."\n', calls=calls)
    assert (form, plain) == ("     1\tThree lines, no more.", "     1\tIn the repository.")
    assert "references/form.md" in names


@pytest.mark.finding("FU1")
def test_one_warning_tells_that_scripts_cannot_be_run(ask: Any, skillrun: Call) -> None:
    _, done = ask(calls=CALLS[:1])
    line = "SKILL.md:1:1: warning[subagent]: scripts that members can read but not run: scripts/check.py\n"
    assert done.err.count(line) == 1
    assert skillrun("validate").out.count(line) == 1


@pytest.mark.finding("FU1")
def test_a_phase_with_a_skill_lets_its_members_read_the_skills_files(ask: Any) -> None:
    (guide, *_), _ = ask(references="references: [other]\n", calls=[("Read", {"path": "skill:other/guide.md"})])
    assert guide == "     1\tNot for the reader."
