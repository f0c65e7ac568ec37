"""The contract of every `Files`: the same names, the same results, the same errors."""

from __future__ import annotations

import errno
import posixpath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillrun.repository.paths import PathRefused
from skillrun.store import kill_points
from skillrun.store.files import FileChanged, Files, read_content
from skillrun.syntax.diagnostics import SkillrunError
from tests.contract.conftest import KINDS, Store


@pytest.fixture
def files(store: Store) -> Files:
    return store.files


def list_entries(files: Files) -> list[tuple[str, str]]:
    """Return the entries of the run's folder, except those of the store itself."""
    return [(name, kind) for name, kind in files.entries() if name != ".run"]


def test_a_written_file_can_be_read_and_replaced(files: Files) -> None:
    files.write("a.md", "lïne\n")
    assert (files.has("a.md"), files.is_file("a.md"), files.is_taken("a.md")) == (True, True, True)
    assert files.read("a.md") == "lïne\n".encode()
    files.write("a.md", b"\xff\0")
    assert (files.read("a.md"), read_content(files, "a.md")) == (b"\xff\0", b"\xff\0")
    assert files.is_folder("a.md") is False


def test_a_lone_surrogate_is_written_as_a_question_mark(files: Files) -> None:
    files.write("a.md", "a\ud800b")
    assert files.read("a.md") == b"a?b"


def test_a_limited_read_returns_one_byte_more_than_the_limit(files: Files) -> None:
    files.write("a.md", "abcdef")
    assert (files.read("a.md", 3), files.read("a.md", 6), files.read("a.md", 0)) == (b"abcd", b"abcdef", b"a")


def test_every_operation_reports_a_missing_file_alike(files: Files) -> None:
    files.write("a.md", "")
    for name in ("b.md", "x/b.md", "a.md/b.md"):
        assert (files.has(name), files.is_file(name), files.is_folder(name), files.is_taken(name)) == (False,) * 4
        assert read_content(files, name) is None
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            files.read(name)
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            files.entries(name)
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            files.move(name, "c.md")
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            files.remove(name)
    assert list_entries(files) == [("a.md", "file")]


def test_parent_folders_are_created_and_entries_are_sorted(files: Files) -> None:
    files.write("b/c/d.md", "")
    files.write("b/a.md", "")
    files.make_folder("a/x")
    files.make_folder("a/x")
    assert list_entries(files) == [("a", "folder"), ("b", "folder")]
    assert files.entries("b") == [("a.md", "file"), ("c", "folder")]
    assert files.entries("a/x") == []
    assert (files.is_folder("b/c"), files.is_file("b/c"), files.is_taken("b/c")) == (True, False, True)


def test_a_folder_is_not_read_or_written_as_a_file(files: Files) -> None:
    files.make_folder("a")
    for operation in (files.has, files.read):
        with pytest.raises(IsADirectoryError):
            operation("a")
    assert read_content(files, "a") is None
    with pytest.raises(OSError, match=r".") as caught:
        files.write("a", "text")
    assert caught.value.errno in (errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY)
    assert files.is_folder("a")


def test_a_file_is_not_used_as_a_folder(files: Files) -> None:
    files.write("a", "text")
    for write in (lambda: files.write("a/b.md", ""), lambda: files.write_new("a/b.md", "")):
        with pytest.raises(NotADirectoryError):
            write()
    with pytest.raises(NotADirectoryError):
        files.entries("a")
    assert files.read("a") == b"text"


def test_a_new_file_never_replaces_an_existing_entry(files: Files) -> None:
    assert files.write_new("sub/a.md", "first") is True
    assert files.write_new("sub/a.md", "second") is False
    assert files.write_new("sub", "third") is False
    assert files.read("sub/a.md") == b"first"


def test_a_failed_precondition_leaves_the_file_unchanged(files: Files) -> None:
    def fail() -> None:
        assert files.read("a.md") == b"before", "the precondition runs before the new content is visible"
        raise FileChanged

    files.write("a.md", "before")
    with pytest.raises(FileChanged):
        files.write("a.md", "after", precondition=fail)
    assert files.read("a.md") == b"before"
    assert list_entries(files) == [("a.md", "file")]


def test_a_moved_file_replaces_the_target_and_leaves_its_old_name(files: Files) -> None:
    files.write("a.md", "a")
    files.write("b/c.md", "c")
    files.move("a.md", "b/c.md")
    assert (files.has("a.md"), files.read("b/c.md")) == (False, b"a")
    files.move("b/c.md", "new/d.md")
    assert (files.entries("b"), files.read("new/d.md")) == ([], b"a")


def test_removing_a_folder_removes_its_contents_and_nothing_else(files: Files) -> None:
    for name in ("a/b.md", "a/c/d.md", "ab.md", "a.md"):
        files.write(name, "")
    files.remove("a")
    assert list_entries(files) == [("a.md", "file"), ("ab.md", "file")]
    files.remove("a.md")
    assert list_entries(files) == [("ab.md", "file")]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.md", ["a.md", "b.md"]),
        ("**/*.md", ["a.md", "b.md", "s/.e.md", "s/c.md", "s/t/d.md"]),
        ("s/*", ["s/.e.md", "s/c.md", "s/x.txt"]),
        ("s/[cx].*", ["s/c.md", "s/x.txt"]),
        ("s/t/d.md", ["s/t/d.md"]),
        ("s//./c.md", ["s/c.md"]),
        ("t/../a.md", ["a.md"]),
        ("s/t", []),
        ("s", []),
        ("nothing/*.md", []),
        ("", []),
    ],
)
def test_pattern_matches_are_sorted_by_path_parts(files: Files, pattern: str, names: list[str]) -> None:
    for name in ("b.md", "a.md", "s/t/d.md", "s/c.md", "s/x.txt", "s/.e.md"):
        files.write(name, "")
    assert files.matching(pattern) == names


@pytest.mark.parametrize("name", ["../a.md", "/a.md", "a/../../b.md", "a\0b", "x" * 5000])
def test_every_operation_refuses_a_path_outside_the_run(files: Files, name: str) -> None:
    files.make_folder("a")
    for operation in (files.has, files.read, files.remove, files.matching, lambda one: files.write(one, "")):
        with pytest.raises(PathRefused):
            operation(name)
    assert (files.is_file(name), files.is_folder(name)) == (False, False)
    assert list_entries(files) == [("a", "folder")]


def test_every_rename_has_a_checkpoint_before_and_after(files: Files, points: list[str]) -> None:
    files.write("sub/a.md", "")
    files.move("sub/a.md", "b.md")
    assert points == ["rename a.md: before", "rename a.md: after", "rename sub/a.md: before", "rename sub/a.md: after"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_at_a_checkpoint_leaves_the_old_or_the_new_file(
    files: Files, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def hook(name: str) -> None:
        if name.endswith(moment):
            raise KeyboardInterrupt

    files.write("a.md", "old")
    with monkeypatch.context() as patch:
        patch.setattr(kill_points, "hook", hook)
        with pytest.raises(KeyboardInterrupt):
            files.write("a.md", "new")
    assert files.read("a.md") == {"before": b"old", "after": b"new"}[moment]
    files.remove_leftovers()
    assert list_entries(files) == [("a.md", "file")]


def test_opening_a_missing_run_is_an_error(files: Files) -> None:
    with pytest.raises(SkillrunError, match="no run is named `other`"):
        files.open_other_run("other")


NAMES = st.sampled_from(["a", "a/b", "a/b/c", "b", "b/c", "./a", "a//b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.sampled_from(["1", "2"])),
        st.tuples(st.just("write_new"), NAMES, st.sampled_from(["1", "2"])),
        st.tuples(st.just("move"), NAMES, NAMES),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("make_folder"), NAMES),
    ),
    max_size=12,
)


def outcome(files: Files, step: tuple[str, ...]) -> str:
    try:
        return str(getattr(files, step[0])(*step[1:]))
    except (OSError, PathRefused):
        return "refused"


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_all_kinds_of_stores_have_the_same_files_after_the_same_operations(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, ...]]
) -> None:
    results = []
    for kind in KINDS.values():
        store = kind(tmp_path_factory.mktemp("run"))
        outcomes = [outcome(store.files, step) for step in steps]
        names = sorted({posixpath.normpath(name) for step in steps for name in step[1:] if not name.isdecimal()})
        results.append(
            [
                outcomes,
                list_entries(store.files),
                [read_content(store.files, name) for name in names],
                [store.files.is_folder(name) for name in names],
                [name for name in store.files.matching("**/*") if not name.startswith(".run/")],
            ]
        )
        store.close()
    assert all(result == results[0] for result in results)
