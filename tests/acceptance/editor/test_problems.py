"""An editor is told what is wrong in the files of a project while they are typed, in all kinds of files."""

import pytest

from tests.acceptance.editor.conftest import Editor

pytestmark = [pytest.mark.row("A5"), pytest.mark.asyncio(loop_scope="module")]


async def test_a_problem_is_told_as_it_is_typed_and_gone_when_it_is_mended(editor: Editor) -> None:
    name = "skills/workshop/ideas.md"
    right = editor.text(name)
    assert not await editor.open(name)
    problems = await editor.type(name, right.replace("steps:", "stepz:"))
    assert "unknown-key" in {problem.code for problem in problems}
    assert not await editor.type(name, right)
