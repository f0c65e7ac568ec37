"""Problems in every kind of project file, reported while the file is edited."""

import pytest

from tests.acceptance.editor.conftest import Editor

pytestmark = [pytest.mark.row("A5"), pytest.mark.asyncio(loop_scope="session")]

IDEAS = "skills/workshop/ideas.md"
CASE = "---\ninputs: {topic: tents}\nexpect:\n  path: [ideas, choice]\n---\n"


async def test_a_problem_appears_while_typing_and_disappears_when_fixed(editor: Editor) -> None:
    right = editor.text(IDEAS)
    assert not await editor.open(IDEAS)
    problems = await editor.type(IDEAS, right.replace("inputs.topic", "inputs.topci"))
    assert [(problem.code, problem.source) for problem in problems] == [("unknown-field", "skillrun")]
    assert "did you mean `topic`?" in problems[0].message
    assert not await editor.type(IDEAS, right)


@pytest.mark.parametrize(
    ("name", "right", "wrong", "code"),
    [
        ("workflows/workshop.md", "config: workshop", "config: workshpo", "unknown-config"),
        (IDEAS, "agent: guide", "agent: giude", "unknown-role"),
        ("skills/protocols/hello.md", "hello.text", "hello.txet", "unknown-field"),
        ("roles/guide.md", "description:", "descripton:", "unknown-key"),
        ("config/workshop.yaml", "limit: 2", "limit: two", "type"),
        ("config/models.yaml", "fast", "fats", "unknown-key"),
        ("skills/workshop/rules.md", "kind: reference", "kind: refrence", "kind"),
        ("skills/workshop/asked.md", "- What", "What", "bank"),
        ("skills/packing/SKILL.md", "description:", "descriptoin:", "unknown-key"),
        ("tests/workshop/calm.md", "path: [ideas, choice]", "path: [ideas, chioce]", "unknown-phase"),
    ],
)
async def test_every_kind_of_file_is_checked(editor: Editor, name: str, right: str, wrong: str, code: str) -> None:
    texts = {
        "config/models.yaml": "tiers: {fast: strong}\n",
        "skills/workshop/rules.md": "---\nkind: reference\n---\nBe brief.\n",
        "skills/workshop/asked.md": "---\nkind: questions\n---\n## first\n- What is it?\n",
        "skills/packing/SKILL.md": "---\nname: packing\ndescription: Packs.\n---\nPack.\n",
        "tests/workshop/calm.md": CASE,
    }
    if name in texts:
        editor.write(name, texts[name])
    text = editor.text(name)
    assert code not in {problem.code for problem in await editor.open(name)}
    assert code in {problem.code for problem in await editor.type(name, text.replace(right, wrong))}
    assert code not in {problem.code for problem in await editor.type(name, text)}


async def test_a_problem_in_a_closed_file_is_reported(editor: Editor) -> None:
    workflow = "workflows/workshop.md"
    await editor.open(workflow)
    editor.change(workflow, editor.text(workflow).replace("  topic: ", "  theme: "))
    problems = await editor.wait_for(editor.uri(IDEAS), lambda params: bool(params.diagnostics))
    assert {problem.code for problem in problems} == {"unknown-field"}
    editor.change(workflow, editor.text(workflow))
    await editor.wait_for(editor.uri(IDEAS), lambda params: not params.diagnostics)


async def test_ranges_use_the_units_of_the_editor(editor: Editor) -> None:
    """This client counts in UTF-16, where each character of a flag takes two units."""
    flag = "🏴\N{TAG LATIN SMALL LETTER G}\N{TAG LATIN SMALL LETTER B}"
    text = editor.text(IDEAS).replace("Think of {{ inputs.topic }}", f"{flag} {{{{ inputs.topci }}}}")
    [problem] = await editor.open(IDEAS, text)
    line = text.split("\n")[problem.range.start.line].encode("utf-16-le")
    span = line[problem.range.start.character * 2 : problem.range.end.character * 2]
    assert span.decode("utf-16-le") == "topci"


async def test_windows_line_endings_do_not_change_ranges(editor: Editor) -> None:
    text = editor.text(IDEAS).replace("inputs.topic", "inputs.topci")
    [plain] = await editor.open(IDEAS, text)
    [windows] = await editor.type(IDEAS, text.replace("\n", "\r\n"))
    assert windows.range == plain.range


async def test_an_unsaved_file_counts(editor: Editor) -> None:
    """A role that a phase needs is written in another window."""
    await editor.open(IDEAS, editor.text(IDEAS).replace("agent: guide}", "agent: scout}"))
    assert {problem.code for problem in await editor.problems(IDEAS)} == {"unknown-role"}
    await editor.open("roles/scout.md", "---\nname: scout\n---\nYou look ahead.\n")
    await editor.wait_for(editor.uri(IDEAS), lambda params: not params.diagnostics)
    editor.close(editor.uri("roles/scout.md"))
    await editor.wait_for(editor.uri(IDEAS), lambda params: bool(params.diagnostics))


async def test_the_shipped_library_counts(editor: Editor) -> None:
    name = "config/planning.yaml"
    assert {problem.code for problem in await editor.open(name, "nosuch: 1\n")} == {"unknown-key"}
    assert not await editor.type(name, "")


async def test_after_fast_typing_the_problems_of_the_last_text_are_reported(editor: Editor) -> None:
    right = editor.text(IDEAS)
    await editor.open(IDEAS)
    for length in range(1, 30):
        editor.change(IDEAS, right[:-length])
    editor.change(IDEAS, right)
    assert not await editor.problems(IDEAS)


@pytest.mark.slow
async def test_a_duplicate_name_refers_to_the_first(editor: Editor) -> None:
    text = editor.text(IDEAS).replace("## title", "## found")
    problems = await editor.open(IDEAS, text)
    [duplicate] = [problem for problem in problems if "two sections" in problem.message]
    [first] = duplicate.related_information or ()
    assert first.location.uri == editor.uri(IDEAS)
    assert text.split("\n")[first.location.range.start.line] == "## found"
    assert first.location.range.start.line < duplicate.range.start.line
