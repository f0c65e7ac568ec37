"""Lists that are collected, repaired and written with a named schema."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.mark.row("B3", "B4", "B9")
def test_collected_items_are_read_and_written_with_one_schema(project: Call, skillrun: Call) -> None:
    folder = project("harvest")
    many = [{"idea": f"Idea {number}", "worth": 1 + number % 5} for number in range(10)]
    rules = [
        {"address": "*/picker:old/*", "text": f"As I said: {json.dumps(many[0])},\n{json.dumps(many)[:-20]}"},
        {"address": "*/picker:new/*", "fail": "timeout"},
    ]
    (folder / "replies.yaml").write_text(json.dumps(rules))
    done = skillrun("harvest", "tea", "--script", "replies.yaml", "--json")
    assert done.code == 0, done.err
    lines = (folder / "runs/tea/ideas.md").read_text().splitlines()
    assert lines == [f"- Idea {number} ({1 + number % 5}, round 1)" for number in range(8)]
    warnings = " ".join(done.json["phases"][0]["warnings"])
    assert "at most 8 items are allowed" in warnings
    assert "truncated" in warnings
    assert skillrun("harvest", "x" * 201, "--model", "scripted:x").code == 2
    assert "`tags` has 4 items; expected 0 to 3" in skillrun("harvest", "tea", "--tags", "a,b,c,d").err
    schema = skillrun("schema", "harvest/list", "--json").json
    assert schema["properties"]["ideas"]["maxItems"] == 50
    assert skillrun("schema", "--json").json["harvest/list"] == "The ideas for programs."


@pytest.mark.row("B9")
def test_frontmatter_that_does_not_match_its_schema_is_not_written(project: Call, skillrun: Call) -> None:
    folder = project("harvest")
    path = folder / "skills/harvest/ideas.md"
    path.write_text(path.read_text().replace("worth: integer 1..5", "worth: integer 1..9"))
    rules = [{"address": "*", "data": {"ideas": [{"idea": "Tea", "worth": 7}]}}]
    (folder / "replies.yaml").write_text(json.dumps(rules))
    done = skillrun("harvest", "tea", "--script", "replies.yaml")
    assert done.code == 1
    assert "does not match the schema" in done.out + done.err
    assert not (folder / "runs/tea/data.md").exists()
