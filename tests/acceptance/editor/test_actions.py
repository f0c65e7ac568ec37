"""Quick fixes for misspelled names, and the outline of a file."""

import pytest
from lsprotocol import types

from tests.acceptance.editor.conftest import Editor

pytestmark = [pytest.mark.row("A5"), pytest.mark.asyncio(loop_scope="session")]

IDEAS = "skills/workshop/ideas.md"


def apply_edit(text: str, edit: types.TextEdit) -> str:
    """The text after an edit within a line of plain letters."""
    lines = text.split("\n")
    start, end = edit.range.start, edit.range.end
    line = lines[start.line]
    lines[start.line] = line[: start.character] + edit.new_text + line[end.character :]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("inputs.topic", "inputs.topci"),
        ("  - {id: how, ask:", "  - {id: how, aks:"),
        ("agent: guide}", "agent: giude}"),
        ("protocol: hello}  #", "protocol: helo}  #"),
        ("kind: phase", "kind: phsae"),
        ("found.data | first", "found.data | frist"),
        ("## title", "## titel"),
        ("inputs.nights in [1, 3]", "inputs.nigths in [1, 3]"),
    ],
)
async def test_a_quick_fix_corrects_a_misspelled_name(editor: Editor, right: str, wrong: str) -> None:
    text = editor.text(IDEAS)
    assert right in text
    text_with_typo = text.replace(right, wrong, 1)
    problems = await editor.open(IDEAS, text_with_typo)
    fixed_texts = []
    for problem in problems:
        for action in await editor.actions(IDEAS, problem):
            assert action.kind == types.CodeActionKind.QuickFix
            assert action.edit is not None
            assert action.edit.changes is not None
            [edit] = action.edit.changes[editor.uri(IDEAS)]
            fixed_texts.append(apply_edit(text_with_typo, edit))
    assert text in fixed_texts


async def test_a_problem_without_a_similar_name_has_no_quick_fix(editor: Editor) -> None:
    [problem] = await editor.open(IDEAS, editor.text(IDEAS).replace("inputs.topic", "inputs.nosuchthing"))
    assert not await editor.actions(IDEAS, problem)


async def test_a_problem_of_an_older_text_has_no_quick_fix(editor: Editor) -> None:
    text = editor.text(IDEAS).replace("inputs.topic", "inputs.topci")
    [problem] = await editor.open(IDEAS, text)
    editor.change(IDEAS, text.replace("inputs.topci", "inputs.other"))
    assert not await editor.actions(IDEAS, problem)


@pytest.mark.slow
async def test_the_outline_lists_the_parts_of_a_file(editor: Editor) -> None:
    await editor.open(IDEAS)
    document = types.TextDocumentIdentifier(editor.uri(IDEAS))
    symbols = await editor.client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
    assert symbols is not None
    by_name = {symbol.name: symbol for symbol in symbols if isinstance(symbol, types.DocumentSymbol)}
    assert list(by_name) == ["kind", "description", "steps", "found", "title", "ideas"]
    steps = by_name["steps"].children or []
    assert [(step.name, step.detail) for step in steps][:3] == [("found", "agent"), ("set", None), ("round", "panel")]
    assert [step.name for step in steps[4].children or []] == ["title"]
    lines = editor.text(IDEAS).split("\n")
    place = steps[0].selection_range
    assert lines[place.start.line][place.start.character : place.end.character] == "found"
    await editor.type(IDEAS, "---\nkind: phase\nsteps: [\n## found\nThink.\n")
    assert await editor.client.text_document_document_symbol_async(types.DocumentSymbolParams(document)) is not None
