"""Where the library finds files, which root wins, and how it reads files of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillrun.checker.checker import check_library, check_workflow
from skillrun.library.library import Library
from skillrun.library.roots import Root, package_library
from skillrun.syntax.reading import read_source
from skillrun.syntax.source import Source

WORKFLOW = "---\nname: {name}\ndescription: {text}\nphases:\n  say:\n---\n"
PHASE = "---\nkind: phase\nsteps:\n  - say: {text}\n---\n"


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Root, ...]:
    return tuple(Root(tmp_path / name, f"{name}:", name) for name in ("project", "user", "package"))


def write(root: Root, files: dict[str, str]) -> None:
    for relative, text in files.items():
        path = root.path / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def list_problems(library: Library) -> list[str]:
    return [f"{problem.severity} {problem.path}:{problem.line} {problem.code}" for problem in library.problems]


def test_the_first_root_that_has_a_file_wins(roots: tuple[Root, ...]) -> None:
    for root in roots:
        write(root, {"workflows/hello.md": WORKFLOW.format(name="hello", text=root.name)})
    for first in range(3):
        workflow = Library(roots[first:]).workflow("hello")
        assert workflow is not None
        assert workflow.description == roots[first].name


def test_names_come_from_every_root(roots: tuple[Root, ...]) -> None:
    write(roots[0], {"roles/zoe.md": "", "skills/a/one.md": "", "skills/README.md": "", "roles/.hidden.md": ""})
    write(roots[2], {"roles/adam.md": "", "roles/zoe.md": "", "skills/knots/SKILL.md": "", "skills/knots/more.md": ""})
    library = Library(roots)
    assert library.names("roles") == ["adam", "zoe"]
    assert library.skills() == ["a/one", "knots", "knots/more"]


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "/etc/passwd", "."])
def test_a_name_cannot_reach_outside_the_library_folders(roots: tuple[Root, ...], name: str) -> None:
    write(roots[0], {"secret.md": "---\nname: secret\n---\n", "skills/a/one.md": ""})
    assert Library(roots).role(name) is None
    assert Library(roots).text(name) is None


CONFIGS = {path.stem for path in (package_library() / "config").glob("*.yaml")}


@pytest.mark.parametrize("name", sorted(CONFIGS - {"models"}))  # only users may name providers
def test_an_unchanged_copy_of_a_shipped_config_has_no_problems(tmp_path: Path, name: str) -> None:
    """Authors start from such a copy."""
    shipped, copy = package_library(), Root(tmp_path, "", "project")
    write(copy, {f"config/{name}.yaml": (shipped / f"config/{name}.yaml").read_text(encoding="utf-8")})
    library = Library((copy, Root(shipped, "skillrun:", "library")))
    config, original = library.config(name), Library((Root(shipped, "skillrun:", "library"),)).config(name)
    assert config is not None
    assert original is not None
    assert (config.data, config.modes, list_problems(library)) == (original.data, original.modes, [])


def test_an_unreadable_file_is_reported(roots: tuple[Root, ...]) -> None:
    write(roots[0], {"workflows/hello.md": WORKFLOW.format(name="hello", text="x"), "skills/hello/say.md": ""})
    (roots[0].path / "skills/hello/say.md").write_bytes(b"---\nkind: \xff\n---\n")
    library = Library(roots[:1])
    assert check_workflow(library, "hello") is None
    assert list_problems(library) == ["error project:skills/hello/say.md:2 encoding"]


@pytest.mark.slow
def test_a_project_can_override_one_shipped_phase(tmp_path: Path) -> None:
    shipped = Root(package_library(), "skillrun:", "library")
    project = Root(tmp_path, "", "project")
    text = (shipped.path / "skills/plan/setup.md").read_text(encoding="utf-8")
    write(project, {"skills/plan/setup.md": text.replace("# Request", "# Goal")})
    library = Library((project, shipped))
    program = check_workflow(library, "plan")
    assert list_problems(library) == []
    assert program is not None
    assert program.phases["setup"].document.source.label == "skills/plan/setup.md"
    assert program.phases["research"].document.source.label == "skillrun:skills/plan/research.md"

    write(project, {"skills/plan/setup.md": text.replace("suggested_mode:", "mode_suggested:")})
    library = Library((project, shipped))
    check_workflow(library, "plan")
    assert list_problems(library) == []  # nothing reads this output

    write(project, {"skills/plan/setup.md": text.replace("state.mode", "state.mod", 1)})
    library = Library((project, shipped))
    check_workflow(library, "plan")
    assert [problem.split()[1].split(":")[0] for problem in list_problems(library)] == ["skills/plan/setup.md"]


def test_unchanged_files_are_reused_from_an_earlier_library(roots: tuple[Root, ...]) -> None:
    workflow = {"workflows/hello.md": WORKFLOW.format(name="hello", text="x")}
    write(roots[0], {**workflow, "skills/hello/say.md": PHASE.format(text="Good morning")})
    earlier = Library(roots)
    check_workflow(earlier, "hello")
    write(roots[0], {"skills/hello/say.md": PHASE.format(text="Good {{ evening }}")})
    library = Library(roots, earlier)
    assert library.workflow("hello") is earlier.workflow("hello")
    check_workflow(library, "hello")
    assert list_problems(library) == ["error project:skills/hello/say.md:4 unknown-name"]
    unchanged = Library(roots, library)
    check_workflow(unchanged, "hello")
    assert list_problems(unchanged) == list_problems(library)
    write(roots[0], {"skills/hello/say.md": PHASE.format(text="Good night")})
    assert check_workflow(fixed := Library(roots, unchanged), "hello")
    assert list_problems(fixed) == []


def test_a_file_that_is_saved_while_it_is_read_is_read_again(
    roots: tuple[Root, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (WORKFLOW.format(name="hello", text=text) for text in ("old", "new text"))
    write(roots[0], {"workflows/hello.md": old})

    def read_and_save(path: Path, *arguments: Any) -> Source | None:
        source = read_source(path, *arguments)
        path.write_text(new)
        return source

    with monkeypatch.context() as patched:
        patched.setattr("skillrun.library.library.read_source", read_and_save)
        earlier = Library(roots)
        assert (workflow := earlier.workflow("hello"))
        assert workflow.description == "old"
    assert (workflow := Library(roots, earlier).workflow("hello"))
    assert workflow.description == "new text"


def test_a_subagent_file_of_another_tool_is_a_role(roots: tuple[Root, ...]) -> None:
    text = (
        "---\nname: reviewer\ndescription: Reviews code. Use it proactively: after every change.\n"
        "tools: Read, Grep, Bash\ncolor: purple\npermissionMode: plan\nmemory: user\n---\n"
        "You review {{ code }}.\n\n## Checklist\n- one\n\n## Checklist\n- two\n"
    )
    write(roots[0], {"roles/reviewer.md": text.replace("code. Use it proactively: after", "code, after")})
    library = Library(roots)
    check_library(library)
    role = library.role("reviewer")
    assert role is not None
    assert (list(role.tools), role.model, list(role.skills)) == (["Read", "Grep"], "strong", [])
    assert role.body.startswith("You review {{ code }}.")
    assert [(item.severity, item.code) for item in library.problems] == [("warning", "subagent")]


@pytest.mark.row("P18")
def test_an_agent_skill_of_another_tool_is_a_skill(roots: tuple[Root, ...]) -> None:
    skill = (
        "---\nname: knots\ndescription: Which knot holds what.\nlicense: Apache-2.0\nallowed-tools: Read Bash(git:*)\n"
        "metadata:\n  version: '2'\n---\n# Knots\n\n{{ braces }} and {% tags %} are text.\n\n## Example\n\n## Example\n"
    )
    write(roots[0], {"skills/knots/SKILL.md": skill, "skills/knots/REFERENCE.md": "# More\n{{ text }}\n"})
    write(roots[0], {"roles/sailor.md": "---\nname: sailor\ndescription: Sails.\nskills: [knots]\n---\nYou sail.\n"})
    library = Library(roots)
    check_library(library)
    [problem] = library.problems
    assert problem.message == "tools that are not available: Bash(git:*); tools that remain: Read"
    agent_skill = library.agent_skill("knots")
    assert agent_skill is not None
    assert agent_skill.body.startswith("# Knots")


@pytest.mark.row("Z6")
@pytest.mark.finding("FE2")
def test_a_folder_is_read_once_however_many_links_lead_to_it(roots: tuple[Root, ...]) -> None:
    write(roots[0], {"roles/team/zoe.md": "", "roles/other/adam.md": "", "skills/area/notes/SKILL.md": ""})
    for number in range(20):
        for folder in ("roles", "roles/team", "roles/other", "skills", "skills/area"):
            (roots[0].path / folder / f"link-{number}").symlink_to(roots[0].path / folder)
    (roots[0].path / "roles" / "a").symlink_to(roots[0].path / "roles" / "team")
    (roots[0].path / "roles" / "b").symlink_to("b")
    library = Library(roots)
    assert library.names("roles") == ["adam", "zoe"]
    assert sorted(library.project_files("roles")) == ["roles/other/adam.md", "roles/team/zoe.md"]
    assert library.skills() == ["notes"]
    assert list_problems(library) == []
