"""What the files of a run promise, wherever they are kept: the same names, the same answers, the same refusals."""

from __future__ import annotations

import errno
import posixpath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillrun.repository.paths import PathRefused
from skillrun.store import checkpoints
from skillrun.store.files import FileChanged, Files, read_content
from skillrun.syntax.diagnostics import SkillrunError
from tests.contract.conftest import KINDS, Store


@pytest.fixture
def files(store: Store) -> Files:
    return store.files


def listed(files: Files) -> list[tuple[str, str]]:
    """What is in the run's own folder, but for what the store itself keeps there."""
    return [(name, kind) for name, kind in files.entries() if name != ".run"]


def test_what_was_written_is_read_and_replaced(files: Files) -> None:
    files.write("a.md", "lïne\n")
    assert (files.has("a.md"), files.is_file("a.md"), files.is_taken("a.md")) == (True, True, True)
    assert files.read("a.md") == "lïne\n".encode()
    files.write("a.md", b"\xff\0")
    assert (files.read("a.md"), read_content(files, "a.md")) == (b"\xff\0", b"\xff\0")
    assert files.is_folder("a.md") is False


def test_half_a_surrogate_pair_is_written_as_a_question_mark(files: Files) -> None:
    files.write("a.md", "a\ud800b")
    assert files.read("a.md") == b"a?b"


def test_of_a_larger_file_one_byte_more_than_the_limit_is_read(files: Files) -> None:
    files.write("a.md", "abcdef")
    assert (files.read("a.md", 3), files.read("a.md", 6), files.read("a.md", 0)) == (b"abcd", b"abcdef", b"a")


def test_what_is_not_there_is_missing_in_one_way(files: Files) -> None:
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
    assert listed(files) == [("a.md", "file")]


def test_folders_are_made_on_the_way_and_listed_in_order(files: Files) -> None:
    files.write("b/c/d.md", "")
    files.write("b/a.md", "")
    files.make_folder("a/x")
    files.make_folder("a/x")
    assert listed(files) == [("a", "folder"), ("b", "folder")]
    assert files.entries("b") == [("a.md", "file"), ("c", "folder")]
    assert files.entries("a/x") == []
    assert (files.is_folder("b/c"), files.is_file("b/c"), files.is_taken("b/c")) == (True, False, True)


def test_a_folder_is_no_file(files: Files) -> None:
    files.make_folder("a")
    for ask in (files.has, files.read):
        with pytest.raises(IsADirectoryError):
            ask("a")
    assert read_content(files, "a") is None
    with pytest.raises(OSError, match=r".") as caught:
        files.write("a", "text")
    assert caught.value.errno in (errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY)
    assert files.is_folder("a")


def test_a_file_is_no_folder(files: Files) -> None:
    files.write("a", "text")
    for write in (lambda: files.write("a/b.md", ""), lambda: files.write_new("a/b.md", "")):
        with pytest.raises(NotADirectoryError):
            write()
    with pytest.raises(NotADirectoryError):
        files.entries("a")
    assert files.read("a") == b"text"


def test_a_new_file_takes_no_name_that_something_has(files: Files) -> None:
    assert files.write_new("sub/a.md", "first") is True
    assert files.write_new("sub/a.md", "second") is False
    assert files.write_new("sub", "third") is False
    assert files.read("sub/a.md") == b"first"


def test_a_file_stays_where_it_has_changed_at_the_last_moment(files: Files) -> None:
    def last() -> None:
        assert files.read("a.md") == b"before", "it is the last moment before the new content is there"
        raise FileChanged

    files.write("a.md", "before")
    with pytest.raises(FileChanged):
        files.write("a.md", "after", precondition=last)
    assert files.read("a.md") == b"before"
    assert listed(files) == [("a.md", "file")]


def test_a_moved_file_has_its_new_name_alone_in_place_of_what_had_it(files: Files) -> None:
    files.write("a.md", "a")
    files.write("b/c.md", "c")
    files.move("a.md", "b/c.md")
    assert (files.has("a.md"), files.read("b/c.md")) == (False, b"a")
    files.move("b/c.md", "new/d.md")
    assert (files.entries("b"), files.read("new/d.md")) == ([], b"a")


def test_a_folder_is_removed_with_all_that_is_in_it_and_nothing_beside(files: Files) -> None:
    for name in ("a/b.md", "a/c/d.md", "ab.md", "a.md"):
        files.write(name, "")
    files.remove("a")
    assert listed(files) == [("a.md", "file"), ("ab.md", "file")]
    files.remove("a.md")
    assert listed(files) == [("ab.md", "file")]


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
def test_a_pattern_matches_files_in_the_order_of_their_parts(files: Files, pattern: str, names: list[str]) -> None:
    for name in ("b.md", "a.md", "s/t/d.md", "s/c.md", "s/x.txt", "s/.e.md"):
        files.write(name, "")
    assert files.matching(pattern) == names


@pytest.mark.parametrize("name", ["../a.md", "/a.md", "a/../../b.md", "a\0b", "x" * 5000])
def test_a_name_that_leads_out_is_refused_everywhere(files: Files, name: str) -> None:
    files.make_folder("a")
    for ask in (files.has, files.read, files.remove, files.matching, lambda one: files.write(one, "")):
        with pytest.raises(PathRefused):
            ask(name)
    assert (files.is_file(name), files.is_folder(name)) == (False, False)
    assert listed(files) == [("a", "folder")]


def test_checkpoints_stand_around_every_change_of_a_name(files: Files, points: list[str]) -> None:
    files.write("sub/a.md", "")
    files.move("sub/a.md", "b.md")
    assert points == ["rename a.md: before", "rename a.md: after", "rename sub/a.md: before", "rename sub/a.md: after"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_file_is_the_old_or_the_new_one_at_every_checkpoint(
    files: Files, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def hook(name: str) -> None:
        if name.endswith(moment):
            raise KeyboardInterrupt

    files.write("a.md", "old")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "hook", hook)
        with pytest.raises(KeyboardInterrupt):
            files.write("a.md", "new")
    assert files.read("a.md") == {"before": b"old", "after": b"new"}[moment]
    files.remove_leftovers()
    assert listed(files) == [("a.md", "file")]


def test_a_run_that_is_not_beside_this_one_is_refused(files: Files) -> None:
    with pytest.raises(SkillrunError, match="there is no run `other` beside this one"):
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
def test_all_kinds_of_files_say_the_same_after_the_same_steps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, ...]]
) -> None:
    seen = []
    for kind in KINDS.values():
        store = kind(tmp_path_factory.mktemp("run"))
        outcomes = [outcome(store.files, step) for step in steps]
        names = sorted({posixpath.normpath(name) for step in steps for name in step[1:] if not name.isdecimal()})
        seen.append(
            [
                outcomes,
                listed(store.files),
                [read_content(store.files, name) for name in names],
                [store.files.is_folder(name) for name in names],
                [name for name in store.files.matching("**/*") if not name.startswith(".run/")],
            ]
        )
        store.close()
    assert all(one == seen[0] for one in seen)
