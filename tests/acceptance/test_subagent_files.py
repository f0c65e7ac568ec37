"""Subagent files and Agent Skills of other tools load as they are, and the checks tell what has no effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.checker.checker import check_library
from skillrun.library.library import Library
from skillrun.library.roots import search_path
from skillrun.syntax.diagnostics import Problem
from tests.acceptance.conftest import Call

ALL_TOOLS = ["Read", "Outline", "Grep", "Glob", "List"]
BODY = "You read {{ plans }}, and name the weakest step."


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def check(folder: Path, files: dict[str, str]) -> tuple[Library, list[Problem]]:
    """Return the library of a project with these files, and the problems in it."""
    write(folder, files)
    library = Library(search_path(folder))
    check_library(library, shipped=False)
    return library, list(library.problems)


def check_role(folder: Path, frontmatter: str) -> tuple[list[str], str, str, list[str]]:
    """Return the tools, the model and the description of a role with this frontmatter, and the problems."""
    library, problems = check(folder, {"roles/reader.md": f"---\n{frontmatter.strip()}\n---\n{BODY}\n"})
    role = library.role("reader")
    assert role is not None
    assert role.body == BODY
    return (
        list(role.tools),
        role.model,
        " ".join(role.description.split()),
        [f"{problem.severity}[{problem.code}]: {problem.message}" for problem in problems],
    )


@pytest.mark.finding("FU7")
@pytest.mark.row("L11")
@pytest.mark.parametrize(
    ("frontmatter", "description"),
    [
        ('description: Reads. Examples:\n\n<example>\nuser: "Look"\nturn: "I look."\n</example>\n\nmodel: opus', None),
        (
            "description: Reads plans,\nand does so early: always.\nmodel: opus",
            "Reads plans, and does so early: always.",
        ),
        ("description: Reads. Examples:\n  user: look: now\nmodel: opus", "Reads. Examples: user: look: now"),
        ("description: **READER**: reads\nmodel: opus", "**READER**: reads"),
        ("description: 'It's for plans'\nmodel: opus", "It's for plans"),
        ('description: "Reads "old" plans"\nmodel: opus', 'Reads "old" plans'),
        ("description: &anchor reads\nmodel: opus", "&anchor reads"),
        ("description: @reader reads\nmodel: opus", "@reader reads"),
        ("description: Asks about #12 and more\nmodel: opus", "Asks about #12 and more"),
        ("description: [reads, plans]\nmodel: opus", "reads, plans"),
        ("argument-hint: [plan] [depth]\ndescription: reads\nmodel: opus", "reads"),
        ("description: reads\ncolor: red\ncolor: blue\nmodel: opus", "reads"),
        ("description: reads\ncolor: #FF0000\nicon: `x`\nmodel: opus", "reads"),
        ("description: reads\ntags:\n\t- one\nmodel: opus", "reads"),
    ],
)
def test_no_description_and_no_key_of_another_tool_refuses_a_role(
    tmp_path: Path, frontmatter: str, description: str | None
) -> None:
    tools, model, found, problems = check_role(tmp_path, f"name: reader\n{frontmatter}")
    assert (tools, model, problems) == (ALL_TOOLS, "opus", [])
    assert found == (description or 'Reads. Examples: <example> user: "Look" turn: "I look." </example>')


@pytest.mark.finding("FU7")
def test_a_key_of_skillrun_with_invalid_yaml_is_still_an_error(tmp_path: Path) -> None:
    *_, problems = check_role(tmp_path, "description: *reads*\nvariants: {short: brief")
    assert problems == ["error[yaml]: the `{` that opens here is never closed"]


@pytest.mark.finding("FU6")
@pytest.mark.row("L11")
@pytest.mark.parametrize(
    ("written", "model", "report"),
    [
        ("GPT-4.1", "latest GPT", "the model GPT-4.1 is read as `latest GPT`"),
        ("GPT-5 mini (copilot)", "latest GPT small", "the model GPT-5 mini (copilot) is read as `latest GPT small`"),
        ("Claude Sonnet 4.5 (copilot)", "sonnet", "the model Claude Sonnet 4.5 (copilot) is read as `sonnet`"),
        ("claude-sonnet-4.5", "sonnet", None),
        ("fable", "claude-fable-5-2", "the model fable is read as `claude-fable-5-2`"),
        ("sonnet[1m]", "sonnet", None),
        ("Opus", "Opus", None),
        ("inherit", "inherit", None),
        ("anthropic/claude-sonnet-4-6", "anthropic:claude-sonnet-4-6", None),
        ("openrouter/openai/gpt-5.2", "openai:gpt-5.2", None),
        ("Grok Code Fast 1", "strong", "no model is called Grok Code Fast 1, so the role uses `strong`"),
        ("[Grok Code Fast 1, GPT-5 (copilot)]", "latest GPT", "the model GPT-5 (copilot) is read as `latest GPT`"),
        ("", "strong", None),
    ],
)
def test_a_models_name_of_another_tool_means_a_model(
    tmp_path: Path, written: str, model: str, report: str | None
) -> None:
    _, found, _, problems = check_role(tmp_path, f"name: reader\nmodel: {written}")
    assert (found, problems) == (model, [f"warning[subagent]: {report}"] if report else [])


@pytest.mark.finding("FU6")
def test_a_misspelt_model_has_a_suggestion(tmp_path: Path) -> None:
    _, [problem] = check(tmp_path, {"roles/reader.md": f"---\nname: reader\nmodel: sonet\n---\n{BODY}\n"})
    assert (problem.severity, problem.line, problem.hint) == ("warning", 3, "did you mean `sonnet`?")


WORKFLOW = """\
---
name: ask
description: Asks somebody.
inputs:
  request: string
  who: member, who answers
phases:
  say:
---
"""
PHASE = """\
---
kind: phase
description: Says it.
steps:
  - {id: said, agent: "{{ inputs.who }}"}
---
## said
Say it.
"""
ASK = {"workflows/ask.md": WORKFLOW, "skills/ask/say.md": PHASE}


@pytest.mark.finding("FU6")
@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-6", "claude-sonnet-4-6", "GPT-4.1", "latest GPT"])
def test_the_model_option_takes_the_place_of_a_roles_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call, model: str
) -> None:
    write(tmp_path, {**ASK, "roles/reader.md": f"---\nname: reader\nmodel: {model}\ntools: []\n---\n{BODY}\n"})
    monkeypatch.chdir(tmp_path)
    done = skillrun("ask", "Now", "--who", "reader", "--model", "scripted:default")
    assert done.code == 0, done.err


@pytest.mark.finding("FU8")
@pytest.mark.row("L11")
@pytest.mark.parametrize(
    ("keys", "tools"),
    [
        ("tools: Read, Grep", ["Read", "Grep"]),
        ("tools: Read Grep Glob", ["Read", "Grep", "Glob"]),
        ("tools: [read, search, LS]", ["Read", "Grep", "Glob", "List"]),
        ("tools: \"['read', 'grep']\"", ["Read", "Grep"]),
        ("tools: [search/codebase, read/readFile]", ["Grep", "Glob", "Outline", "Read"]),
        ("tools: [read_file, search_file_content, list_directory]", ["Read", "Grep", "List"]),
        ("tools: Read(src/**), Grep", ["Read", "Grep"]),
        ("tools:\n  - name: Read\n  - name: Glob", ["Read", "Glob"]),
        ("tools: *", ALL_TOOLS),
        ('tools: ["*"]', ALL_TOOLS),
        ("tools: all", ALL_TOOLS),
        ("tools:", ALL_TOOLS),
        ("tools: []", []),
        ("tools: {read: true, grep: true, bash: false}", ["Read", "Grep"]),
        ("tools: {write: false, edit: false}", ALL_TOOLS),
        ('tools: {"*": false}', []),
        ("tools: Read, Grep\ndisallowedTools: Grep, Write", ["Read"]),
        ("permission: {edit: deny, read: deny, bash: {git: deny}}", ["Outline", "Grep", "Glob", "List"]),
        ("allowed-tools: Read", ["Read"]),
    ],
)
def test_tools_of_other_tools_are_the_same_tools_here(tmp_path: Path, keys: str, tools: list[str]) -> None:
    found, _, _, problems = check_role(tmp_path, f"name: reader\n{keys}")
    assert (found, problems) == (tools, [])


@pytest.mark.finding("FU8")
def test_a_project_adds_a_name_of_a_tool(tmp_path: Path) -> None:
    write(tmp_path, {"config/subagents.yaml": "tools: {peruse: [Read, List]}\n"})
    assert check_role(tmp_path, "name: reader\ntools: [Peruse]")[0] == ["Read", "List"]


@pytest.mark.finding("FU9")
@pytest.mark.row("L11")
@pytest.mark.parametrize(
    ("keys", "report"),
    [
        (
            "tools: Read, Bash(git log:*), Task(helper, other), mcp__get",
            "tools that are not available: Bash(git log:*), Task(helper, other), mcp__get; tools that remain: Read",
        ),
        ("tools: Bash", "tools that are not available: Bash; tools that remain: none"),
        (
            "tools: Read\nhooks: {Stop: []}\npermissionMode: plan\ncolor: red",
            "keys that have no effect: hooks, permissionMode, color; keys that are used: name, tools",
        ),
        ("disallowedTools: Read(.env)", "denials that have no effect: Read(.env)"),
        ("colour-scheme: dark", "keys that have no effect: colour-scheme; keys that are used: name"),
    ],
)
def test_one_line_tells_what_of_a_file_has_no_effect(tmp_path: Path, keys: str, report: str) -> None:
    *_, problems = check_role(tmp_path, f"name: reader\n{keys}")
    assert problems == [f"warning[subagent]: {report}"]


@pytest.mark.finding("FU9")
def test_a_misspelt_tool_has_a_suggestion(tmp_path: Path) -> None:
    _, [problem] = check(tmp_path, {"roles/reader.md": f"---\nname: reader\ntools: [Raed]\n---\n{BODY}\n"})
    assert (problem.code, problem.line, problem.hint) == ("unknown-tool", 3, "did you mean `Read`?")


NO_FRONTMATTER = "the file has no frontmatter, so its whole text is the role's"
MODE = "keys that have no effect: mode; keys that are used: name, model"


@pytest.mark.finding("FU10")
@pytest.mark.parametrize(
    ("text", "body", "messages"),
    [
        ("# Reader\n\nYou read.", "# Reader\n\nYou read.", [NO_FRONTMATTER]),
        ("---\nYou read.\n---\nAlways.", "---\nYou read.\n---\nAlways.", [NO_FRONTMATTER]),
        ("\n\n---\nname: reader\nmodel: opus\n---\nYou read.", "You read.", []),
        ("# Notes\n---\nname: reader\nmodel: opus\n---\nYou read.", "# Notes\nYou read.", []),
        ("name: reader\nmodel: opus\n---\nYou read.", "You read.", []),
        ("# A\n```\n---\nname: x\n---\n```", "# A\n```\n---\nname: x\n---\n```", [NO_FRONTMATTER]),
        ("---\nname: reader\nmodel: opus\nmode: subagent\n---\nYou read.", "You read.", [MODE]),
    ],
)
def test_the_text_of_a_file_without_frontmatter_is_the_role(
    tmp_path: Path, text: str, body: str, messages: list[str]
) -> None:
    library, problems = check(tmp_path, {"roles/reader.md": text})
    role = library.role("reader")
    assert role is not None
    assert (role.body, [problem.message for problem in problems]) == (body, messages)
    assert role.model == ("opus" if "opus" in text else "strong")
    assert all(problem.severity == "warning" for problem in problems)


@pytest.mark.finding("FU4")
@pytest.mark.row("L11")
@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("roles/reader.agent.md", ["reader", "plan-reader", "Plan Reader"]),
        ("roles/Reader.chatmode.md", ["Reader", "plan-reader"]),
        ("roles/old reader.md", ["old-reader", "plan-reader"]),
        ("roles/_reader.md", ["reader"]),
        ("roles/prüfer.md", ["prüfer", "plan-reader"]),
        ("roles/quality/plans/reader.md", ["reader", "plan-reader"]),
    ],
)
def test_a_role_has_a_name_whatever_its_file_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call, path: str, names: list[str]
) -> None:
    files = {**ASK, path: f"---\nname: Plan Reader\ntools: []\n---\n{BODY}\n"}
    library, problems = check(tmp_path, files)
    assert problems == []
    assert all((role := library.role(name)) is not None and role.body == BODY for name in names)
    monkeypatch.chdir(tmp_path)
    [listed] = [item for item in skillrun("list", "--json").json["roles"] if item["origin"] == "project"]
    assert listed["name"] == names[0]
    done = skillrun("ask", "Now", "--who", names[min(1, len(names) - 1)], "--model", "scripted:default")
    assert done.code == 0, done.err


@pytest.mark.finding("FU4")
def test_of_two_files_with_one_name_the_deeper_is_named_after_its_folder(tmp_path: Path) -> None:
    role = f"---\nname: {{}}\n---\n{BODY}\n"
    files = {f"roles/{name}.md": role.format(name.replace("/", " ")) for name in ("reader", "a/reader", "b/reader")}
    library, problems = check(tmp_path, files)
    assert [(item.path, item.severity) for item in problems] == [
        ("roles/a/reader.md", "warning"),
        ("roles/b/reader.md", "warning"),
    ]
    assert [name for name in library.names("roles") if "reader" in name] == ["a-reader", "b-reader", "reader"]


@pytest.mark.finding("FU4")
@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("skills/quality/notes/SKILL.md", ["notes", "plan-notes"]),
        ("skills/notes/skill.md", ["notes", "plan-notes"]),
    ],
)
def test_an_agent_skill_can_be_in_any_folder(tmp_path: Path, path: str, names: list[str]) -> None:
    skill = "---\nname: plan-notes\ndescription: Notes.\n---\nShort notes.\n"
    roles = {
        f"roles/r{number}.md": f"---\nname: r{number}\nskills: {name}\n---\n{BODY}\n"
        for number, name in enumerate(names)
    }
    library, problems = check(tmp_path, {path: skill, **roles})
    assert problems == []
    assert all((found := library.agent_skill(name)) is not None and found.body == "Short notes." for name in names)


LONG = "Name the weakest step, and say why it is weak.\n" * 1_500


@pytest.mark.finding("FU5")
@pytest.mark.row("S10")
def test_a_long_role_or_skill_of_another_tool_is_a_warning(tmp_path: Path) -> None:
    front = "---\nname: x\ndescription: x\n---\n"
    files = {
        "roles/reader.md": front + LONG,
        "skills/notes/SKILL.md": front + LONG,
        "skills/notes/guide.md": "---\n" + LONG,
        "skills/notes/references/form.md": LONG,
    }
    _, problems = check(tmp_path, files)
    assert [(item.path, item.severity, item.code) for item in problems] == [
        ("roles/reader.md", "warning", "tokens"),
        ("skills/notes/SKILL.md", "warning", "tokens"),
    ]


@pytest.mark.finding("FU5")
def test_a_long_role_that_an_input_names_is_a_warning_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call
) -> None:
    write(tmp_path, {**ASK, "roles/reader.md": f"---\nname: reader\ntools: []\n---\n{LONG}"})
    monkeypatch.chdir(tmp_path)
    done = skillrun("ask", "Now", "--who", "reader", "--model", "scripted:default")
    assert done.code == 0, done.err
    assert "warning: roles/reader.md:1: the file has about " in done.err


@pytest.mark.finding("FU3")
def test_a_file_that_replaces_a_shipped_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call
) -> None:
    write(tmp_path, {"roles/business-analyst.md": f"---\nname: business-analyst\ntools: []\n---\n{BODY}\n"})
    monkeypatch.chdir(tmp_path)
    done = skillrun("validate")
    assert done.code == 1
    hints = [line for line in done.out.splitlines() if line.startswith("hint:")]
    assert hints
    assert all("roles/business-analyst.md replaces the shipped role" in hint for hint in hints)
    assert "note: your files replace shipped ones: roles/business-analyst.md" in done.err
    listed = next(line for line in skillrun("list").out.splitlines() if line.startswith("  business-analyst"))
    assert listed.endswith("(project, replaces that of the library)")


@pytest.mark.finding("FU3")
def test_an_error_in_a_shipped_file_names_the_files_that_replace_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call
) -> None:
    protocol = "---\nkind: protocol\ndescription: None.\nseats: {members: 1..4}\nsteps: []\n---\n"
    write(tmp_path, {"skills/protocols/rewrite.md": protocol})
    monkeypatch.chdir(tmp_path)
    found = skillrun("validate", "--json").json["problems"]
    shipped = [item for item in found if item["path"].startswith("skillrun:")]
    assert shipped
    assert all("skills/protocols/rewrite.md" in item["hint"] for item in shipped if item["severity"] == "error")


@pytest.mark.finding("FU11")
def test_the_list_has_one_line_for_each_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call) -> None:
    long = "Use it for plans.\\\\n\\\\n<example>" + " and more" * 100
    write(
        tmp_path,
        {f"roles/r{number}.md": f'---\nname: r{number}\ndescription: "{long}"\n---\n{BODY}\n' for number in range(5)},
    )
    monkeypatch.chdir(tmp_path)
    lines = [line for line in skillrun("list").out.splitlines() if line.startswith("  r") and "project" in line]
    assert len(lines) == 5
    assert all(len(line) <= 120 and "\\n" not in line and "for plans. <example> and" in line for line in lines)


@pytest.mark.finding("FU11")
def test_many_problems_of_a_kind_are_summarized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call
) -> None:
    write(
        tmp_path,
        {f"roles/r{number:02}.md": f"---\nname: r{number:02}\ntools: Bash\n---\n{BODY}\n" for number in range(12)},
    )
    write(tmp_path, {"roles/empty.md": "---\nname: empty\ntools: []\n---\n"})
    monkeypatch.chdir(tmp_path)
    done = skillrun("validate")
    assert done.out.count("warning[subagent]:") == 3
    assert "… and 9 more: warning[subagent] in 9 files\n" in done.out
    assert "warning[empty-section]" in done.out
    assert "0 errors, 13 warnings in 13 files" in done.out
    assert skillrun("validate", "--all").out.count("warning[subagent]:") == 12
    assert len(skillrun("validate", "--json").json["problems"]) == 13


@pytest.mark.finding("FU2")
def test_a_role_that_does_not_list_tools_reads_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skillrun: Call
) -> None:
    workflow = WORKFLOW.replace("phases:", 'repository: "."\nphases:')
    role = f"---\nname: reader\n---\n{BODY}\n"
    write(tmp_path, {"workflows/ask.md": workflow, "skills/ask/say.md": PHASE, "roles/reader.md": role})
    monkeypatch.chdir(tmp_path)
    done = skillrun("ask", "Now", "--who", "reader", "--model", "scripted:default", "--name", "now")
    assert done.code == 0, done.err
    assert "tools: Read, Outline, Grep, Glob, List" in skillrun("show", "now", "say", "said").out
