"""The guard for paths and slugs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillrun.language.diagnostics import UsageError
from skillrun.tools.paths import PathRefused, checked_slug, confined


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a file, and links: to a file inside, out of it, in a circle, and to a folder outside."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    folder = tmp_path / "root"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file.txt").write_text("text")
    (folder / "near").symlink_to("inner/file.txt")
    (folder / "far").symlink_to(tmp_path / "outside" / "secret.txt")
    (folder / "up").symlink_to("../outside")
    (folder / "loop").symlink_to("loop")
    (folder / "out..side").write_text("text")
    return folder


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("inner/file.txt", "inner/file.txt"),
        ("inner/../inner/file.txt", "inner/file.txt"),
        ("./inner//file.txt", "inner/file.txt"),
        ("near", "inner/file.txt"),
        ("not/there/yet.md", "not/there/yet.md"),
        ("not/there/../yet.md", "not/yet.md"),
        ("out..side", "out..side"),
        ("...", "..."),
        ("a\\b", "a\\b"),
        ("ünïcode\n.md", "ünïcode\n.md"),
        ("", "."),
        (".", "."),
    ],
)
def test_a_path_inside_is_given_with_its_links_followed(root: Path, written: str, meant: str) -> None:
    assert confined(root, written) == (root / meant).resolve()


def test_an_absolute_path_may_lie_inside(root: Path) -> None:
    assert confined(root, root / "near") == root / "inner" / "file.txt"


@pytest.mark.row("B12")
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("..", "goes up"),
        ("../outside/secret.txt", "goes up"),
        ("inner/../../outside", "goes up"),
        ("../root2", "goes up"),
        ("/etc/passwd", "absolute"),
        ("//etc/passwd", "absolute"),
        ("far", "symbolic link"),
        ("up/secret.txt", "symbolic link"),
        ("up/../root/inner/file.txt/../../../outside", "goes up"),
        ("up/new.txt", "symbolic link"),
    ],
)
def test_a_way_out_is_refused_and_named(root: Path, written: str, reason: str) -> None:
    with pytest.raises(PathRefused) as caught:
        confined(root, written)
    assert reason in caught.value.next_step
    assert written in caught.value.message


@pytest.mark.parametrize("written", ["a\0b", "\0", "loop/x", "bad\ud800name"])
def test_what_cannot_be_followed_is_refused(root: Path, written: str) -> None:
    with pytest.raises(PathRefused):
        confined(root, written)


def test_a_sibling_whose_name_begins_the_same_is_outside(root: Path) -> None:
    (root.parent / "root-2").mkdir()
    with pytest.raises(PathRefused):
        confined(root, "../root-2/file")


def test_the_root_itself_may_be_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert confined(link, "inner/file.txt") == root / "inner" / "file.txt"
    with pytest.raises(PathRefused):
        confined(link, "up/secret.txt")


PARTS = st.sampled_from(
    ["..", ".", "", "inner", "up", "far", "near", "loop", "file.txt", "~", "outside", "root", "\0", "ä"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(PARTS | st.text(max_size=5), max_size=8).map("/".join))
def test_whatever_is_written_the_place_is_inside_or_refused(root: Path, written: str) -> None:
    try:
        place = confined(root, written)
    except PathRefused:
        return
    real = os.path.realpath(place)
    assert real == str(place)
    assert os.path.commonpath([real, str(root.resolve())]) == str(root.resolve())


@pytest.mark.row("B12")
@pytest.mark.parametrize("name", ["a", "0", "my-feature", "a" * 64, "2024-01-01-x"])
def test_slugs_are_accepted(name: str) -> None:
    assert checked_slug(name) == name


@pytest.mark.row("B12")
@pytest.mark.parametrize("name", ["", "-a", "A", "a b", "a" * 65, "a/b", "..", "a\n", "ä", "a_b", "a.b", "\0"])
def test_anything_else_is_refused_with_what_is_allowed(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_slug(name)
    assert "at most 64" in caught.value.next_step
