"""Every workflow is a command, with help from its markdown, and startup is cheap."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillrun.cli.registry import COMMANDS, GROUPS, OLD_NAMES

Call = Callable[..., Any]
HEAVY = (
    "skillrun.extensions.workers",
    "jinja2",
    "pydantic",
    "pydantic_ai",
    "anthropic",
    "openai",
    "httpx",
    "rich",
    "jsonschema",
    "markdown_it",
    "sqlite3",
)
LOADED = (
    "import sys; before = set(sys.modules); from skillrun.cli.main import main; main(sys.argv[1:]); "
    "print([name for name in {} if name in set(sys.modules) - before])"  # coverage has imported some
)


@pytest.mark.row("X1")
def test_the_help_lists_the_workflows_of_the_project_and_of_the_library(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("--help")
    assert done.code == 0
    assert re.search(r"greeting +Write a greeting and send it\.", done.out)
    assert re.search(r"plan +Turn a feature request into a reviewed design", done.out)
    assert re.search(r"validate +Check all files, without calling a model\.", done.out)


@pytest.mark.finding("NC13")
@pytest.mark.row("X1")
def test_the_help_groups_the_commands_and_distinguishes_similar_names(project: Call, skillrun: Call) -> None:
    project("greeting")
    shown = skillrun("--help").out
    assert re.findall(r"^(\w+):$", shown, re.MULTILINE) == ["Options", "Workflows", *GROUPS]
    assert list(GROUPS) == ["Run", "Inspect", "Write", "Test", "Operate"]
    for group in GROUPS.values():
        for name, entry in group.items():
            listed = re.search(rf"^  {name} +{re.escape(entry.help)}$", shown, re.MULTILINE)  # on one line
            assert bool(listed) is entry.in_table, name
    assert "editors and other programs: completion, hint, lsp, schema, skill." in " ".join(shown.split())
    assert len({entry.help for entry in COMMANDS.values()}) == len(COMMANDS) == sum(map(len, GROUPS.values()))


def test_the_help_lists_at_most_26_commands_and_no_old_name(project: Call, skillrun: Call) -> None:
    project()
    shown = skillrun("--help").out.partition("\nRun:\n")[2]
    listed = re.findall(r"^  ([\w-]+)  ", shown, re.MULTILINE)
    assert {"resume", "worker", "store", "submit", "cancel"} <= set(listed)
    assert len(listed) <= 26
    assert not {*listed} & OLD_NAMES.keys()


@pytest.mark.parametrize("group", ["worker", "store"])
def test_the_help_of_a_group_lists_its_subcommands(skillrun: Call, group: str) -> None:
    done = skillrun(group, "--help")
    assert done.code == 0
    for name, entry in COMMANDS[group].subcommands.items():
        assert re.search(rf"^  {name} +{re.escape(entry.help)}$", done.out, re.MULTILINE), name
        assert skillrun(group, name, "--help").out.startswith(f"Usage: skillrun {group} {name} ")


@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_an_old_name_warns_once_and_runs_the_new_command(skillrun: Call, old: str, new: str) -> None:
    warning = f"warning: `skillrun {old}` is now `skillrun {new}`; the old name will be removed in 0.3\n"
    for arguments in (["--help"], ["--no-such-option"], ["x"], []):
        former, current = skillrun(old, *arguments), skillrun(*new.split(), *arguments)
        assert (former.code, former.out) == (current.code, current.out)
        assert former.err == warning + current.err
        assert "warning" not in current.err


def test_a_workflow_cannot_have_an_old_name(project: Call, skillrun: Call) -> None:
    project()
    for old in OLD_NAMES:
        assert skillrun("new", "workflow", old).err.startswith(f"error: `{old}` is a command of skillrun\n")


@pytest.mark.row("X1")
def test_a_workflows_help_comes_from_its_markdown(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("greeting", "--help")
    assert done.code == 0
    for line in (
        "Usage: skillrun greeting [OPTIONS] PERSON",
        "Write a greeting and send it.",
        "PERSON: who is greeted",
        "Greets a person, in two phases.",
        "--tone [warm|formal]  How it sounds  [default: warm]",
        "--lines 1..5          How long it is",
        "--loud / --no-loud    In capital letters",
        "--topics STRING       What it mentions; can be repeated",
        "--dry-run",
    ):
        assert line in done.out
    assert "You write greetings." not in done.out


@pytest.mark.row("X1")
def test_allowed_values_from_config_are_in_the_help(project: Call, skillrun: Call) -> None:
    project()
    assert "--preset [balanced|rapid_prototype]" in skillrun("plan", "--help").out


@pytest.mark.row("X1")
def test_an_input_named_like_a_common_flag_gets_another_flag(project: Call, skillrun: Call) -> None:
    path = project("greeting") / "workflows" / "greeting.md"
    path.write_text(path.read_text().replace("  loud?: boolean", "  model?: string, whose model\n  loud?: boolean"))
    done = skillrun("greeting", "--help")
    assert "--input-model STRING  Whose model" in done.out
    assert "--model NAME" in done.out
    assert skillrun("greeting", "Ada", "--input-model", "x", "--dry-run", "--model", "scripted:a").code == 0


def test_an_unknown_command_is_a_usage_error_with_a_suggestion(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("greting", "Ada")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: `greting` is neither a workflow nor a command\nhint: did you mean `greeting`?\n"


def test_without_a_command_the_help_is_shown(project: Call, skillrun: Call) -> None:
    project()
    done = skillrun()
    assert done.code == 2
    assert "Workflows:" in done.out


def test_a_broken_workflow_is_listed_and_its_error_has_a_position(project: Call, skillrun: Call) -> None:
    path = project("greeting") / "workflows" / "greeting.md"
    path.write_text("---\nname: greeting\ndescription: [\n---\n")
    assert "cannot be read" in skillrun("list").out
    done = skillrun("greeting", "--help")
    assert done.code == 1
    assert "workflows/greeting.md:" in done.err


def test_list_shows_the_origin_of_each_definition(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("list")
    assert re.search(r"  greeting +Write a greeting and send it\. \(project\)", done.out)
    assert "Propose, attack, defend; what survives is the result. (library)" in done.out
    found = skillrun("list", "--json").json
    assert {"name": "writer", "description": "Writes short texts.", "origin": "project"} in found["roles"]


@pytest.mark.parametrize("command", [["--help"], ["list"]])
def test_startup_imports_nothing_heavy(project: Call, process: Call, command: list[str]) -> None:
    project("greeting")
    done = process(*command, program=("-c", LOADED.format(HEAVY)))
    assert done.out.endswith("[]\n")


def test_the_installed_command_has_the_same_version(project: Call, process: Call) -> None:
    project()
    command = Path(sys.executable).parent / "skillrun"
    if not command.exists():
        pytest.skip("skillrun is not installed here")
    done = process("--version", program=(str(command),))
    assert done.out == process("--version").out
