"""Reading files: encodings, positions, and links that leave a folder."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.syntax.diagnostics import Problem, Problems
from skillrun.syntax.reading import PathEscapes, _walk, open_file, read_source
from skillrun.syntax.source import MAX_BYTES, Source, Text


def read(path: Path, content: bytes) -> tuple[Source | None, list[Problem]]:
    path.write_bytes(content)
    problems = Problems()
    return read_source(path, "shown.md", problems), list(problems)


def test_a_file_is_read_with_its_label_for_messages(tmp_path: Path) -> None:
    source, problems = read(tmp_path / "a.md", "é\n😀x\n".encode())
    assert source
    assert (source.text, source.label, source.path) == ("é\n😀x\n", "shown.md", tmp_path / "a.md")
    assert not problems


def test_a_byte_order_mark_and_other_line_ends_are_accepted(tmp_path: Path) -> None:
    source, _ = read(tmp_path / "a.md", b"\xef\xbb\xbfa\r\nb\rc\n")
    assert source
    assert source.text == "a\nb\nc\n"
    assert source.position(2) == (2, 1)


def test_a_missing_file_and_a_folder_are_reported(tmp_path: Path) -> None:
    problems = Problems()
    assert read_source(tmp_path / "none.md", "none.md", problems) is None
    assert read_source(tmp_path, "folder", problems) is None
    assert [(error.path, error.code) for error in problems] == [("folder", "unreadable"), ("none.md", "unreadable")]


def test_bytes_that_are_not_utf_8_are_reported_at_their_place(tmp_path: Path) -> None:
    source, problems = read(tmp_path / "a.md", "ok\r\né".encode() + b"\xff\n")
    assert source is None
    assert (problems[0].line, problems[0].column, problems[0].code) == (2, 2, "encoding")
    assert "0xff" in problems[0].message


def test_a_huge_file_is_rejected(tmp_path: Path) -> None:
    source, problems = read(tmp_path / "a.md", b"x" * (MAX_BYTES + 1))
    assert source is None
    assert problems[0].code == "too-large"


@given(st.text("ab😀\n"), st.data())
def test_a_position_is_the_line_and_column_of_the_offset(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    lines = text[:offset].split("\n")
    source = Source.of(text)
    assert source.position(offset) == (len(lines), len(lines[-1]) + 1)
    assert source.line(len(lines)) == text.split("\n")[len(lines) - 1]


def test_a_text_without_a_file_has_its_own_lines_and_columns() -> None:
    place = Text.of("ab\ncd").at(4)
    assert (place.path, place.line, place.column) == ("<text>", 2, 2)


@given(st.text("abc\n", min_size=1), st.data())
def test_ranges_and_substrings_keep_the_places_of_their_characters(text: str, data: st.DataObject) -> None:
    offsets = st.integers(0, len(text))
    cuts = sorted(data.draw(st.lists(offsets, min_size=2, max_size=8)))
    ranges = list(zip(cuts[::2], cuts[1::2], strict=False))
    whole = Text.from_ranges(Source.of(text), ranges)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(whole.value))] * 2)))
    for part in (whole, whole.substring(start, end)):
        assert [text[part.at(offset).offset] for offset in range(len(part.value))] == list(part.value)
    assert whole.substring(start, end).value == whole.value[start:end]


@pytest.mark.parametrize("offset", [3, 10, -1])
def test_an_offset_outside_a_text_is_clamped_to_its_start_or_end(offset: int) -> None:
    assert Text.of("abc").at(offset).offset == (3 if offset > 0 else 0)


@pytest.mark.finding("FZ5")
def test_a_folder_that_becomes_a_link_after_the_check_is_not_followed(tmp_path: Path) -> None:
    """The path is opened folder by folder from the boundary down, without following links."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / "roles", outside):
        folder.mkdir(parents=True)
        (folder / "a.md").write_text(folder.name)
    with open_file(inside / "roles/a.md", inside) as file:
        assert file.read() == b"roles"
    (inside / "roles").rename(inside / "people")
    (inside / "roles").symlink_to("people")
    with open_file(inside / "roles/a.md", inside) as file:
        assert file.read() == b"roles"
    (inside / "roles").unlink()
    (inside / "roles").symlink_to(outside)
    with pytest.raises(PathEscapes):
        open_file(inside / "roles/a.md", inside)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        _walk(inside, ("roles", "a.md"))
    with open_file(inside / "roles/a.md") as file:
        assert file.read() == b"outside", "without a boundary, links are followed"


@pytest.mark.finding("FZ5")
@pytest.mark.parametrize("has_boundary", [True, False])
def test_a_pipe_is_rejected_without_blocking(tmp_path: Path, has_boundary: bool) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    problems = Problems()
    assert read_source(tmp_path / "pipe.md", "pipe.md", problems, boundary=tmp_path if has_boundary else None) is None
    assert [problem.message for problem in problems] == ["this is not a file"]
