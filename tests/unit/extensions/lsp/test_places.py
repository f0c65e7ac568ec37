"""Cursor positions in a file that is being edited, even if the YAML is invalid at the cursor."""

import pytest

from skillrun.extensions.lsp.cursor_position import CursorPosition, locate_cursor

pytestmark = pytest.mark.row("A5")
STEPS = "---\nkind: phase\nsteps:\n  - {id: x, agent: judge:risk}\n%s\n---\n## x\nHello {{ x. }}\n"


def locate(text: str, *, yaml_only: bool = False) -> CursorPosition | None:
    offset = text.index("¦")
    return locate_cursor(text[:offset] + text[offset + 1 :], offset, yaml_only=yaml_only)


@pytest.mark.parametrize(
    ("line", "part", "path", "prefix"),
    [
        ("  - {id: y, ag¦}", "key", ("steps", 1), "ag"),
        ("  - {id: y, ag¦", "key", ("steps", 1), "ag"),
        ("  - ag¦", "key", ("steps", 1), "ag"),
        ("  - ¦", "key", ("steps", 1), ""),
        ("  - id: y\n    ¦", "key", ("steps", 1), ""),
        ("  - {id: y, agent: judge:ri¦, output: {a: string}}", "value", ("steps", 1, "agent"), "judge:ri"),
        ("  - {id: y, agent: ¦", "value", ("steps", 1, "agent"), ""),
        ("  - {id: y, agent: [judge:risk, ju¦]}", "value", ("steps", 1, "agent", 1), "ju"),
        ('  - set: {found: "{{ x.da¦', "value", ("steps", 1, "set", "found"), "{{ x.da"),
        ('  - set: {found: "{{ x.da¦ }}", b: "x"}', "value", ("steps", 1, "set", "found"), "{{ x.da"),
        ("  - when: x.data.fo¦ and y\n    say: hi", "value", ("steps", 1, "when"), "x.data.fo"),
        ("  - say: |\n      hello {{ x.¦", "value", ("steps", 1, "say"), "hello {{ x."),
        ("ou¦", "key", (), "ou"),
    ],
)
def test_the_yaml_path_of_the_cursor_is_found(line: str, part: str, path: tuple[object, ...], prefix: str) -> None:
    position = locate(STEPS % line)
    assert position is not None
    assert (position.part, position.path, position.prefix) == (part, path, prefix)


def test_sibling_keys_are_found_on_both_sides_of_the_cursor() -> None:
    position = locate(STEPS % "  - {id: y, with: {ro¦}, protocol: debate}")
    assert position is not None
    assert position.mappings[-2] == {"id": "y", "with": "", "protocol": "debate"}


def test_the_word_includes_the_text_after_the_cursor() -> None:
    text = STEPS % "  - {id: y, agent: jud¦ge}"
    position = locate(text)
    assert position is not None
    assert text.replace("¦", "")[position.start : position.end] == "judge"


def test_comments_and_frontmatter_delimiters_have_no_position() -> None:
    assert locate(STEPS % "  # ag¦") is None
    assert locate("-¦--\nkind: phase\n---\n") is None


def test_body_text_has_its_section_and_a_heading_is_recognized() -> None:
    body = locate("---\nkind: phase\n---\n## x\nHello {{ x.¦ }}\n## y\n")
    heading = locate("---\nkind: phase\n---\n## x¦\n")
    assert body is not None
    assert heading is not None
    assert (body.part, body.section, body.prefix) == ("body", "x", "Hello {{ x.")
    assert (heading.part, heading.section) == ("heading", "x")


def test_unclosed_frontmatter_is_frontmatter() -> None:
    position = locate("---\nkind: phase\nde¦")
    assert position is not None
    assert (position.part, dict(position.siblings)) == ("key", {"kind": "phase"})


def test_a_config_is_yaml_from_its_first_line() -> None:
    position = locate("breakers:\n  judges: {li¦}\n", yaml_only=True)
    assert position is not None
    assert (position.part, position.path) == ("key", ("breakers", "judges"))
