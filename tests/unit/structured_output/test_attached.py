"""Appending a record to a document and splitting it off again, whatever the document contains."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.structured_output.trailing_record import _find_block, append_record, find_last_block, split_record
from skillrun.syntax.diagnostics import sanitize
from skillrun.types.forms import notes, skeleton
from skillrun.types.schemas import Shape
from tests.unit.types.test_picoschema import schema

SHAPE = Shape(
    {
        "type": "object",
        "properties": {"summary": {"type": "string"}, "files": {"type": "array", "items": {"type": "string"}}},
        "required": ["summary"],
        "additionalProperties": False,
    }
)
GOOD = {"summary": "All is well."}
BLOCK = '```record\n{"summary": "All is well."}\n```'
OTHER = BLOCK.replace("well", "lost")

LINES = st.sampled_from(
    ["# A plan", "Text.", "", "```", "````", "```py", "~~~", "~~~record", "```record", '{"summary": "x"}', "````md",
     "    ```", "- ```record", "``` `x`", "```json record", "}", "<record>", "```record extra"]
)  # fmt: skip


@pytest.mark.slow
@given(
    st.one_of(st.lists(LINES, max_size=12).map("\n".join), st.text(max_size=60)),
    st.text(max_size=40),
    st.lists(st.text(max_size=12), max_size=2),
)
def test_an_appended_record_is_split_off_again(document: str, summary: str, files: list[str]) -> None:
    """Any document, even with unclosed fences, except one that already ends in a record of the shape."""
    record = sanitize({"summary": summary, "files": files})
    document = sanitize(document)
    reply = split_record(append_record(document, record), SHAPE)
    inner = _find_block(document)
    if inner is None or not inner.closed or split_record(document, SHAPE).errors:
        assert (reply.document, reply.record, reply.errors) == (document.rstrip(), record, ())
    else:
        assert reply.record in (None, record)


@given(st.lists(LINES, max_size=12).map("\n".join))
def test_a_reply_without_a_record_is_unchanged(document: str) -> None:
    reply = split_record(document, SHAPE)
    if find_last_block(document) is None:
        assert reply.document == document.strip()
        assert reply.errors


@pytest.mark.parametrize(
    ("text", "document"),
    [
        (f"# A\n\n{BLOCK}\n", "# A"),
        (f"# A\n\n{BLOCK.replace('```', '~~~~')}\n\n", "# A"),
        (f"# A\n\n{BLOCK.replace('record', 'json record')}", "# A"),
        (f"# A\n\n{BLOCK}\n\n{BLOCK}", "# A"),  # a repeated block counts once
        (f"# A\n{OTHER}\nMore.\n{BLOCK}", f"# A\n{OTHER}\nMore."),  # text follows the first block
        (f"````md\n{OTHER}\n````\n{BLOCK}", f"````md\n{OTHER}\n````"),
        (f'# A\n```record\n{{"an": "example"}}\n```\n{BLOCK}', '# A\n```record\n{"an": "example"}\n```'),
        (f"# A\n```py\nprint()\n{BLOCK}", "# A\n```py\nprint()"),  # an unclosed fence is ignored
        (f"# A\n````py\nprint()\n{BLOCK}", "# A\n````py\nprint()"),
        (f"```markdown\n# A\n\n{BLOCK}\n```", "# A"),  # the whole reply is fenced
        (f"```markdown\n# A\n```py\n1\n```\n\n{BLOCK}\n```", "# A\n```py\n1\n```"),
        (f"````\n# A\n\n{BLOCK}\n````\n", "# A"),
        (f"```markdown\n# A\n```\n\n{BLOCK}", "```markdown\n# A\n```"),
        (f"# A\n{BLOCK.removesuffix('```')}", "# A"),  # the closing fence is missing
        (f"# A\n{BLOCK}".replace("well.", "well:\\n```\\nrecord"), "# A"),
    ],
)
def test_the_record_is_the_block_at_the_end(text: str, document: str) -> None:
    reply = split_record(text, SHAPE)
    assert (reply.document, reply.errors) == (document, ())
    assert reply.record["summary"].startswith("All is")


@pytest.mark.parametrize(
    ("text", "document", "reason"),
    [
        ("# A", "# A", "does not end with a `record` block"),
        (f"# A\n{BLOCK}\nMore.", f"# A\n{BLOCK}\nMore.", "does not end with"),
        (f"# A\n{OTHER}\n{BLOCK}", "# A", "two different `record` blocks"),
        (f"# A\n````md\n{BLOCK}\n````", f"# A\n````md\n{BLOCK}\n````", "does not end with"),
        (
            f"# A\n````md\n{BLOCK.removesuffix('```')}````",
            f"# A\n````md\n{BLOCK.removesuffix('```')}````",
            "does not end with",
        ),
        ('# A\n```record\n{"summary": "All', "# A", "the JSON is invalid"),
        ("# A\n```record\n```", "# A", "no JSON"),
        ("# A\n```record\n{'summary': 1}\n```", "# A", "unquoted names"),
        ("# A\n```record\n[]\n```", "# A", "expected an object"),
        ('# A\n```record\n{"note": 1}\n```', "# A", "`summary` is missing"),
        (f"# A\n```record\n{{{'[' * 99}", "# A", "no JSON"),
    ],
)
def test_an_invalid_record_has_a_reason_and_keeps_the_document(text: str, document: str, reason: str) -> None:
    reply = split_record(text, SHAPE)
    assert (reply.document, reply.record) == (document, None)
    assert any(reason in error.message for error in reply.errors), reply.errors


@pytest.mark.row("Q7")
def test_the_skeleton_is_short_and_describes_the_shape() -> None:
    source = (
        "a: string, one sentence\nn?: integer 0..5\nkind(enum, which): [X, Y]\nall(array, worst first): {b: boolean}"
    )
    shape = schema(source)
    assert skeleton(shape) == (
        '{"a": "string, one sentence", "n?": "integer 0..5", "kind": "X | Y, which", "all": [{"b": "boolean"}]}'
    )
    assert list(notes(shape)) == [("all", "worst first")]
    assert len(skeleton(shape)) < len(json.dumps(shape)) / 2


@pytest.mark.row("Q7")
def test_a_record_block_inside_an_unclosed_example_is_ignored() -> None:
    example = "# A\n\nIt ends like this:\n\n````markdown\n```record\n{"
    assert find_last_block(example) is None
    assert find_last_block(example.replace("````markdown\n", "")) is not None
