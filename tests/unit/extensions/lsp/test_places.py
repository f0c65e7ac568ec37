"""Cursor positions in a file that is being edited, even if the YAML is invalid at the cursor."""

import pytest

from skillrun.extensions.lsp.cursor_position import CursorPosition, locate_cursor

pytestmark = pytest.mark.row("A5")
STEPS = "---\nkind: phase\nsteps:\n  - {id: x, agent: judge:risk}\n%s\n---\n## x\nHello {{ x. }}\n"


def at(marked: str, *, yaml_only: bool = False) -> CursorPosition | None:
    offset = marked.index("¦")
    return locate_cursor(marked[:offset] + marked[offset + 1 :], offset, yaml_only=yaml_only)


@pytest.mark.parametrize(
    ("line", "part", "path", "before"),
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
def test_the_way_to_the_cursor_is_known(line: str, part: str, path: tuple[object, ...], before: str) -> None:
    place = at(STEPS % line)
    assert place is not None
    assert (place.part, place.path, place.prefix) == (part, path, before)


def test_the_keys_around_are_known_on_both_sides_of_the_cursor() -> None:
    place = at(STEPS % "  - {id: y, with: {ro¦}, protocol: debate}")
    assert place is not None
    assert place.mappings[-2] == {"id": "y", "with": "", "protocol": "debate"}


def test_the_word_reaches_behind_the_cursor() -> None:
    text = STEPS % "  - {id: y, agent: jud¦ge}"
    place = at(text)
    assert place is not None
    assert text.replace("¦", "")[place.start : place.end] == "judge"


def test_nothing_stands_in_a_comment_or_on_the_lines_around_the_frontmatter() -> None:
    assert at(STEPS % "  # ag¦") is None
    assert at("-¦--\nkind: phase\n---\n") is None


def test_a_body_is_known_by_its_section_and_a_heading_as_one() -> None:
    body = at("---\nkind: phase\n---\n## x\nHello {{ x.¦ }}\n## y\n")
    heading = at("---\nkind: phase\n---\n## x¦\n")
    assert body is not None
    assert heading is not None
    assert (body.part, body.section, body.prefix) == ("body", "x", "Hello {{ x.")
    assert (heading.part, heading.section) == ("heading", "x")


def test_frontmatter_without_an_end_is_frontmatter() -> None:
    place = at("---\nkind: phase\nde¦")
    assert place is not None
    assert (place.part, dict(place.siblings)) == ("key", {"kind": "phase"})


def test_a_config_is_yaml_from_its_first_line_on() -> None:
    place = at("breakers:\n  judges: {li¦}\n", yaml_only=True)
    assert place is not None
    assert (place.part, place.path) == ("key", ("breakers", "judges"))
