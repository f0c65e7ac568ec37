"""Completion, hover, definition, references and renaming in a file that is being edited."""

from collections.abc import Sequence

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.acceptance.editor.conftest import Editor

pytestmark = [pytest.mark.row("A5"), pytest.mark.asyncio(loop_scope="session")]
PHASE = "skills/workshop/ideas.md"


def split_at_mark(text: str) -> tuple[str, types.Position]:
    """The text without its `¦`, and the position of that mark."""
    before = text[: text.index("¦")]
    line = before.rpartition("\n")[2]
    return text.replace("¦", "", 1), types.Position(before.count("\n"), len(line.encode("utf-16-le")) // 2)


async def complete(editor: Editor, name: str, text: str) -> dict[str, types.CompletionItem]:
    text, position = split_at_mark(text)
    editor.change(name, text)
    params = types.CompletionParams(types.TextDocumentIdentifier(editor.uri(name)), position)
    items = await editor.client.text_document_completion_async(params)
    assert isinstance(items, list)
    return {item.label: item for item in items}


async def test_keys_names_and_fields_are_completed_in_a_broken_file(editor: Editor) -> None:
    text = editor.text(PHASE)
    await editor.open(PHASE)
    keys = await complete(editor, PHASE, text.replace("repeat:\n", "re¦\n"))
    assert keys["repeat"].text_edit is not None
    assert keys["repeat"].text_edit.new_text == "repeat: "
    assert "guide" in await complete(editor, PHASE, text.replace("agent: [guide]", "agent: [gu¦"))
    assert {"data", "text"} <= {*await complete(editor, PHASE, text.replace("{{ best.best }}", "{{ found.¦"))}
    one = await complete(editor, PHASE, text.replace("- {{ one.title }}", "- {{ one.¦ }}"))
    assert {"title", "weight", "note"} <= {*one}
    assert one["title"].detail == "text"
    filters = await complete(editor, PHASE, text.replace("found.data | first", "found.data | fi¦"))
    assert filters["first"].kind == types.CompletionItemKind.Function


async def test_columns_are_counted_in_utf_16_units(editor: Editor) -> None:
    text = editor.text(PHASE).replace("Give it a title.", "\N{PARTY POPPER}\N{PARTY POPPER} {{ inputs.lev¦ }}")
    await editor.open(PHASE)
    level = (await complete(editor, PHASE, text))["level"]
    assert isinstance(level.text_edit, types.TextEdit)
    line = text.replace("¦", "").split("\n")[level.text_edit.range.start.line]
    units = line.encode("utf-16-le")
    span = level.text_edit.range
    assert units[2 * span.start.character : 2 * span.end.character].decode("utf-16-le") == "lev"


async def test_hover_explains_a_name(editor: Editor) -> None:
    text, position = split_at_mark(editor.text(PHASE).replace("inputs.topic", "inputs.to¦pic"))
    await editor.open(PHASE, text)
    params = types.HoverParams(types.TextDocumentIdentifier(editor.uri(PHASE)), position)
    hover = await editor.client.text_document_hover_async(params)
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert "what it is about" in hover.contents.value


async def test_a_name_leads_to_its_declaration_and_references(editor: Editor) -> None:
    text, position = split_at_mark(editor.text(PHASE).replace("agent: [guide]", "agent: [gui¦de]"))
    await editor.open(PHASE, text)
    document = types.TextDocumentIdentifier(editor.uri(PHASE))
    roles = await editor.client.text_document_definition_async(types.DefinitionParams(document, position))
    assert isinstance(roles, Sequence)
    assert [role.uri for role in roles if isinstance(role, types.Location)] == [editor.uri("roles/guide.md")]
    context = types.ReferenceContext(include_declaration=True)
    places = await editor.client.text_document_references_async(types.ReferenceParams(context, document, position))
    lines = editor.text(PHASE).split("\n")
    assert {lines[place.range.start.line].strip() for place in places or () if place.uri == document.uri} == {
        "agent: [guide]",
        "- {id: round, panel: [guide], protocol: hello}  # its task is unused",
        "- {panel: [guide], protocol: hello}",
        "- {id: title, agent: guide}",
    }


async def test_a_role_is_renamed_with_its_file(editor: Editor) -> None:
    text, position = split_at_mark(editor.text(PHASE).replace("agent: [guide]", "agent: [gui¦de]"))
    await editor.open(PHASE, text)
    document = types.TextDocumentIdentifier(editor.uri(PHASE))
    placeholder = await editor.client.text_document_prepare_rename_async(types.PrepareRenameParams(document, position))
    assert isinstance(placeholder, types.PrepareRenamePlaceholder)
    assert placeholder.placeholder == "guide"
    edit = await editor.client.text_document_rename_async(types.RenameParams(document, position, "leader"))
    assert edit is not None
    changes = edit.document_changes or ()
    texts = [change.text_document.uri for change in changes if isinstance(change, types.TextDocumentEdit)]
    [file] = [change for change in changes if isinstance(change, types.RenameFile)]
    assert document.uri in texts
    assert (file.old_uri, file.new_uri) == (editor.uri("roles/guide.md"), editor.uri("roles/leader.md"))


@pytest.mark.parametrize(
    ("old", "new", "to", "reason"),
    [
        ("id: found", "id: fo¦und", "first", "the name `first` already exists"),
        ("write: ideas.md", "wr¦ite: ideas.md", "x", "only names that the project defines"),
    ],
)
async def test_an_invalid_rename_gives_a_reason(editor: Editor, old: str, new: str, to: str, reason: str) -> None:
    text, position = split_at_mark(editor.text(PHASE).replace(old, new))
    await editor.open(PHASE, text)
    params = types.RenameParams(types.TextDocumentIdentifier(editor.uri(PHASE)), position, to)
    with pytest.raises(JsonRpcException, match=reason):
        await editor.client.text_document_rename_async(params)


@pytest.mark.slow
async def test_nothing_is_renamed_while_the_project_has_errors(editor: Editor) -> None:
    text, position = split_at_mark(
        editor.text(PHASE).replace("id: found", "id: fo¦und").replace("agent: [guide]", "agent: [g]")
    )
    await editor.open(PHASE, text)
    params = types.RenameParams(types.TextDocumentIdentifier(editor.uri(PHASE)), position, "x")
    with pytest.raises(JsonRpcException, match="the project has errors"):
        await editor.client.text_document_rename_async(params)
