"""What is on the search path, read from frontmatter alone."""

from pathlib import Path

import pytest

from skillrun.cli.listing import BROKEN, has_workflow, items


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("---\nname: a\ndescription: one line\n---\n", "one line"),
        ("---\r\nname: a\r\ndescription: >-\r\n  two\r\n  lines\r\n---\r\nbody", "two lines"),
        ("\ufeff---\ndescription: yes\n---", "yes"),
        ("---\ndescription: 22:22\n---\n", "22:22"),
        ("---\ndescription: no end\n", BROKEN),
        ("---\ndescription: 3\n---\n", "3"),
        ("---\ndescription:\n---\n", ""),
        ("no frontmatter", ""),
        ("---\nname: a\n---\n", ""),
        ("---\ndescription: [a, b]\n---\n", BROKEN),
        ("---\ndescription: 'open\n---\n", BROKEN),
        ("---\n- a list\n---\n", BROKEN),
    ],
)
def test_the_description_is_read_whatever_the_rest_is_like(tmp_path: Path, text: str, description: str) -> None:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "a.md").write_bytes(text.encode())
    assert [(item.description, item.origin) for item in items(tmp_path, "workflows") if item.name == "a"] == [
        (description, "project")
    ]


def test_a_project_file_hides_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "plan.md").write_text("---\ndescription: mine\n---\n")
    assert [item.description for item in items(tmp_path, "workflows") if item.name == "plan"] == ["mine"]
    assert has_workflow(tmp_path, "plan")
    assert not has_workflow(tmp_path, "nothing")
