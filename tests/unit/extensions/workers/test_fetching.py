"""A commit of a repository is fetched as plain files, completely or not at all, and nothing in it is executed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skillrun.extensions.workers import fetching
from skillrun.extensions.workers.commit import Commit, is_remote
from skillrun.extensions.workers.fetching import CommitCache, Unfetchable
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.repository.readable_folder import PathWithheld, ReadableFolder
from skillrun.syntax.diagnostics import SkillrunError, UsageError

pytestmark = pytest.mark.row("W5")
NOBODY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **NOBODY}, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with one committed file."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "a.txt").write_text("first\n")
    return folder


def committed(origin: Path) -> Commit:
    git(origin, "add", "--all", "--force")
    git(origin, "commit", "--quiet", "--message", "x", "--no-verify")
    return Commit.parse(f"file://{origin}@{git(origin, 'rev-parse', 'HEAD')}")


def fetched(projects: Path, wanted: Commit, **options: bool) -> Path:
    asyncio.run(CommitCache(projects, **{"files": True, **options}).ensure_available(wanted))
    return (projects / "bundle" / wanted.path).resolve()


def test_the_files_of_an_exact_commit_come_also_of_one_that_is_no_branch_s(origin: Path, tmp_path: Path) -> None:
    (origin / "run.sh").write_text("#!/bin/sh\n")
    (origin / "run.sh").chmod(0o755)
    (origin / "deep/er").mkdir(parents=True)
    (origin / "deep/er/ü ñ.bin").write_bytes(bytes(range(256)) * 9000)
    first = committed(origin)
    (origin / "a.txt").write_text("second\n")
    second = committed(origin)
    place = fetched(tmp_path / "projects", first)
    assert place.name == f"origin-{first.sha}"
    assert {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} == {
        "a.txt", "run.sh", "deep/er/ü ñ.bin",
    }  # fmt: skip
    assert (place / "a.txt").read_text() == "first\n"
    assert (place / "deep/er/ü ñ.bin").read_bytes() == bytes(range(256)) * 9000
    assert (place / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (fetched(tmp_path / "projects", second) / "a.txt").read_text() == "second\n"
    assert sorted(each.name for each in place.parent.iterdir()) == sorted({first.name, second.name})


@pytest.mark.parametrize("version", ["", "unset GIT_PROTOCOL; "])
def test_a_commit_comes_by_ssh_also_from_a_server_that_gives_named_ones_alone(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """`ssh` is a program that executes the remote command locally."""
    first = committed(origin)
    (origin / "a.txt").write_text("second\n")
    committed(origin)
    (tmp_path / "ssh").write_text(f'#!/bin/sh\nfor last; do :; done\n{version}exec sh -c "$last"\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{tmp_path}/ssh")
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    place = fetched(tmp_path / "projects", Commit.parse(f"ssh://git@host{origin}@{first.sha}"), files=False)
    assert (place / "a.txt").read_text() == "first\n"
    with pytest.raises(Unfetchable, match="has no commit"):
        fetched(tmp_path / "projects", Commit.parse(f"ssh://git@host{origin}@{COMMIT}"), files=False)


def test_nothing_that_a_repository_brings_is_run_or_followed(origin: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    shell = f"#!/bin/sh\ntouch {ran}\ncat\n"
    for name in ("hooks/post-checkout", "hooks/reference-transaction", "filter.sh"):
        (origin / name).parent.mkdir(exist_ok=True)
        (origin / name).write_text(shell)
        (origin / name).chmod(0o755)
    (origin / ".gitattributes").write_text("*.txt filter=evil eol=crlf ident\n*.bin filter=lfs\n")
    (origin / "a.txt").write_text("one\ntwo $Id$\n")
    (origin / "large.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    (origin / ".gitmodules").write_text(f'[submodule "other"]\n\tpath = other\n\turl = file://{origin}\n')
    git(origin, "add", "--all", "--force")
    git(origin, "update-index", "--add", "--cacheinfo", f"160000,{COMMIT},other")
    git(origin, "config", "filter.evil.clean", str(origin / "filter.sh"))
    git(origin, "commit", "--quiet", "--message", "x")
    git(origin, "config", "core.hooksPath", str(origin / "hooks"))
    git(origin, "config", "uploadpack.packObjectsHook", str(origin / "filter.sh"))
    wanted = Commit.parse(f"file://{origin}@{git(origin, 'rev-parse', 'HEAD')}")
    ran.unlink(missing_ok=True)
    place = fetched(tmp_path / "projects", wanted)
    assert not ran.exists()
    assert (place / "a.txt").read_bytes() == b"one\ntwo $Id$\n"
    assert (place / "large.bin").read_text().startswith("version https://git-lfs")
    assert not (place / "other").exists()
    assert not (place / ".git").exists()


def test_links_and_secrets_are_refused_as_on_a_laptop(origin: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("outside")
    for name, target in {"in": "a.txt", "out": "../../../outside.txt", "root": "/etc/passwd", "up": ".."}.items():
        (origin / name).symlink_to(target)
    (origin / ".env").write_text("KEY=hush")
    (origin / ".gitignore").write_text("*.log\n")
    (origin / "x.log").write_text("log")
    place = fetched(tmp_path / "projects", committed(origin))
    with ReadableFolder(ConfinedFolder(place, links=True), (".env",)) as readable:
        assert sorted(readable.files()) == [".gitignore", "a.txt", "in"]
        for name, error in {
            "out": PathRefused,
            "root": PathRefused,
            ".env": PathWithheld,
            "x.log": PathWithheld,
        }.items():
            with pytest.raises(error), readable.open_path(name):
                pass


def test_nothing_is_written_through_a_link_of_the_repository(origin: Path, tmp_path: Path) -> None:
    """git refuses such a tree on checkout, but not on fetch."""
    outside = tmp_path / "outside"
    outside.mkdir()
    blob = git(origin, "hash-object", "-w", "a.txt")
    (origin / "target").write_text(str(outside))
    link = git(origin, "hash-object", "-w", "target")
    inner = made(origin, f"100644 blob {blob}\tb.txt\n")
    tree = made(origin, f"120000 blob {link}\tsame\n", f"040000 tree {inner}\tsame\n")
    commit = git(origin, "commit-tree", tree, "-m", "x")
    git(origin, "update-ref", "refs/heads/evil", commit)
    with pytest.raises(SkillrunError):
        fetched(tmp_path / "projects", Commit.parse(f"file://{origin}@{commit}"))
    assert list(outside.iterdir()) == []


def made(origin: Path, *entries: str) -> str:
    """Create a tree with these entries, which git's commands do not validate."""
    raw = b""
    for entry in entries:
        meta, _, name = entry.rstrip("\n").partition("\t")
        mode, _, number = meta.split()
        raw += f"{mode.lstrip('0')} {name}".encode() + b"\0" + bytes.fromhex(number)
    done = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        cwd=origin, input=raw, check=True, capture_output=True,
    )  # fmt: skip
    return done.stdout.decode().strip()


@pytest.mark.parametrize("name", ["..", ".git", ".GIT"])
def test_a_name_that_is_none_of_a_repository_is_refused(origin: Path, tmp_path: Path, name: str) -> None:
    blob = git(origin, "hash-object", "-w", "a.txt")
    inner = made(origin, f"100644 blob {blob}\tconfig\n")
    commit = git(origin, "commit-tree", made(origin, f"040000 tree {inner}\t{name}\n"), "-m", "x")
    git(origin, "update-ref", "refs/heads/evil", commit)
    with pytest.raises(Unfetchable, match="not a valid path in a repository"):
        fetched(tmp_path / "projects", Commit.parse(f"file://{origin}@{commit}"))
    assert list((tmp_path / "projects/repositories").iterdir()) == []


@pytest.mark.parametrize("length", [300, 70_000])
def test_a_name_that_is_longer_than_a_files_may_be_is_refused_for_good(
    origin: Path, tmp_path: Path, length: int
) -> None:
    blob = git(origin, "hash-object", "-w", "a.txt")
    commit = git(origin, "commit-tree", made(origin, f"100644 blob {blob}\t{'x' * length}\n"), "-m", "x")
    git(origin, "update-ref", "refs/heads/long", commit)
    with pytest.raises(Unfetchable, match="is too long"):
        fetched(tmp_path / "projects", Commit.parse(f"file://{origin}@{commit}"))


@pytest.mark.parametrize("limit", ["LARGEST", "MAX_FILES"])
def test_more_than_it_may_have_is_refused(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    for number in range(4):
        (origin / f"{number}.txt").write_text("x" * 3000)
    monkeypatch.setattr(fetching, limit, {"LARGEST": 10_000, "MAX_FILES": 3}[limit])
    with pytest.raises(Unfetchable, match="has more than"):
        fetched(tmp_path / "projects", committed(origin))
    assert list((tmp_path / "projects/repositories").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_what_comes_slowly_or_too_large_is_ended_with_all_that_it_began(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put a program that waits or writes forever in place of git."""
    wanted, programs, real = committed(origin), tmp_path / "programs", shutil.which("git")
    programs.mkdir()
    for what, raised in (("sleep 1000", "could not be fetched within"), ("yes > large", "has more than")):
        fake = programs / "git"
        fake.write_text(f'#!/bin/sh\ncase "$*" in *fetch*) echo $$ > {tmp_path}/pid; {what};; esac\nexec {real} "$@"\n')
        fake.chmod(0o755)
        with monkeypatch.context() as patched:
            patched.setenv("PATH", f"{programs}:{os.environ['PATH']}")
            patched.setattr(fetching, "FETCH_TIMEOUT", 1.0 if "sleep" in what else 60.0)
            patched.setattr(fetching, "LARGEST", 100_000)
            with pytest.raises(SkillrunError, match=raised):
                fetched(tmp_path / "projects", wanted)
        group = (tmp_path / "pid").read_text().strip()
        running = [file.read_text().rpartition(")")[2].split() for file in Path("/proc").glob("[0-9]*/stat")]
        assert [state for state, _, each, *_ in running if each == group and state != "Z"] == []
    assert list((tmp_path / "projects/repositories").iterdir()) == []


def test_what_no_worker_can_have_is_told_from_what_this_one_cannot(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = committed(origin)
    tree = git(origin, "rev-parse", "HEAD^{tree}")
    for missing in (COMMIT, tree):
        with pytest.raises(Unfetchable, match=f"has no commit {missing}"):
            fetched(tmp_path / "projects", Commit.parse(f"file://{origin}@{missing}"))
    cases: list[tuple[Commit, str, Callable[[], object]]] = [
        (Commit.parse(f"file://{tmp_path}/none@{COMMIT}"), "cannot be fetched on this machine: fatal: '", lambda: None),
        (
            Commit.parse(f"https://127.0.0.1:9/x.git@{COMMIT}"),
            "cannot be fetched on this machine: fatal: unable",
            lambda: None,
        ),
        (there, "git is not installed", lambda: monkeypatch.setenv("PATH", str(tmp_path))),
    ]
    for wanted, message, before in cases:
        before()
        with pytest.raises(SkillrunError, match=message) as raised:
            fetched(tmp_path / "projects", wanted)
        assert not isinstance(raised.value, Unfetchable)


def test_files_of_the_machine_are_fetched_where_that_is_allowed_alone(origin: Path, tmp_path: Path) -> None:
    with pytest.raises(SkillrunError, match="file:// URLs are not allowed here"):
        fetched(tmp_path / "projects", committed(origin), files=False)


def test_many_runs_of_one_worker_fetch_it_once(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, commits, times = committed(origin), CommitCache(tmp_path / "projects", files=True), []
    fetch = CommitCache._fetch

    async def counted(self: CommitCache, commit: Commit) -> None:
        times.append(commit)
        await fetch(self, commit)

    monkeypatch.setattr(CommitCache, "_fetch", counted)

    async def all_of_them() -> None:
        await asyncio.gather(*(commits.ensure_available(wanted) for _ in range(5)))

    asyncio.run(all_of_them())
    assert len(times) == 1


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (f"http://host/x.git@{COMMIT}", "cannot be fetched over `http`"),
        (f"git://host/x.git@{COMMIT}", "cannot be fetched over `git`"),
        (f"ext::sh -c x@{COMMIT}", "is not a repository URL with a full commit hash"),
        (f"git@host:x.git@{COMMIT}", "git@host:x.git` is not a valid URL"),
        ("https://host/x.git", "is not a repository URL with a full commit hash"),
        ("https://host/x.git@main", "is not a repository URL with a full commit hash"),
        ("https://me:hush@host/x.git@main", "is not a repository URL with a full commit hash"),
        (f"https://me:hush@[host/x.git@{COMMIT}", "is not a valid URL: Invalid IPv6 URL"),
        (f"https://host/x.git@{COMMIT[:12]}", "is not a repository URL with a full commit hash"),
        (f"https://me:hush@host/x.git@{COMMIT}", "must not contain credentials"),
        (f"https://hush@host/x.git@{COMMIT}", "must not contain credentials"),
        (f"ssh://git:hush@host/x.git@{COMMIT}", "must not contain credentials"),
        (f"https://host/x.git?token=hush@{COMMIT}", "must not contain credentials"),
        (f"ssh://-oProxyCommand=x/x.git@{COMMIT}", "has no valid host"),
        (f"ssh://-x@host/x.git@{COMMIT}", "has no valid user"),
        (f"https:///x.git@{COMMIT}", "has no valid host"),
    ],
)
def test_what_is_no_commit_of_a_repository_is_refused(typed: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        Commit.parse(typed)
    assert "hush" not in str(raised.value)


def test_a_path_is_told_from_a_url() -> None:
    remote = ("https://h/x", "SSH://h/x", "git@h:x", "ext::x://y")
    assert [is_remote(typed) for typed in remote] == [True, True, True, False]
    assert not any(map(is_remote, ("shelf", "../shelf", "/srv/shelf", "a@b", "./git@h:x", "docs/a:b")))
    named = Commit.parse(f"ssh://git@host:2222/group/A%20b.git/@{COMMIT}")
    assert (named.name, named.path) == (f"A-20b-{COMMIT}", f"../repositories/A-20b-{COMMIT}")
