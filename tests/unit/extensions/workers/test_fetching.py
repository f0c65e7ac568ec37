"""A commit of a repository is fetched as plain files, completely or not at all, and nothing in it is executed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from skillrun.extensions.workers import fetching
from skillrun.extensions.workers.fetching import VERIFIED, Commit, CommitCache, Unfetchable, is_remote
from skillrun.repository import git as git_module
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.repository.readable_folder import PathWithheld, ReadableFolder
from skillrun.syntax.diagnostics import SkillrunError, UsageError

pytestmark = pytest.mark.row("W5")
AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **AUTHOR}, check=True, capture_output=True, text=True
    )
    return process.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with one committed file."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "a.txt").write_text("first\n")
    return folder


def commit_all(origin: Path) -> Commit:
    git(origin, "add", "--all", "--force")
    git(origin, "commit", "--quiet", "--message", "x", "--no-verify")
    return Commit.parse(f"file://{origin}@{git(origin, 'rev-parse', 'HEAD')}")


def fetch(projects: Path, commit: Commit, **options: bool) -> Path:
    asyncio.run(CommitCache(projects, **{"files": True, **options}).ensure_available(commit))
    return (projects / "bundle" / commit.path).resolve()


def test_an_exact_commit_is_fetched_even_if_no_branch_points_to_it(origin: Path, tmp_path: Path) -> None:
    (origin / "run.sh").write_text("#!/bin/sh\n")
    (origin / "run.sh").chmod(0o755)
    (origin / "deep/er").mkdir(parents=True)
    (origin / "deep/er/ü ñ.bin").write_bytes(bytes(range(256)) * 9000)
    first = commit_all(origin)
    (origin / "a.txt").write_text("second\n")
    second = commit_all(origin)
    folder = fetch(tmp_path / "projects", first)
    assert folder.name == f"origin-{first.sha}"
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == {
        "a.txt", "run.sh", "deep/er/ü ñ.bin",
    }  # fmt: skip
    assert (folder / "a.txt").read_text() == "first\n"
    assert (folder / "deep/er/ü ñ.bin").read_bytes() == bytes(range(256)) * 9000
    assert (folder / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (fetch(tmp_path / "projects", second) / "a.txt").read_text() == "second\n"
    assert sorted(entry.name for entry in folder.parent.iterdir()) == sorted({first.name, second.name, VERIFIED})


@pytest.mark.parametrize("version", ["", "unset GIT_PROTOCOL; "])
def test_a_commit_is_fetched_by_ssh_even_if_the_server_only_serves_refs(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """`ssh` is a program that executes the remote command locally."""
    first = commit_all(origin)
    (origin / "a.txt").write_text("second\n")
    commit_all(origin)
    (tmp_path / "ssh").write_text(f'#!/bin/sh\nfor last; do :; done\n{version}exec sh -c "$last"\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{tmp_path}/ssh")
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    folder = fetch(tmp_path / "projects", Commit.parse(f"ssh://git@host{origin}@{first.sha}"), files=False)
    assert (folder / "a.txt").read_text() == "first\n"
    with pytest.raises(Unfetchable, match="has no commit"):
        fetch(tmp_path / "projects", Commit.parse(f"ssh://git@host{origin}@{COMMIT}"), files=False)


def test_no_hook_filter_or_submodule_of_a_repository_is_used(origin: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    shell = f"#!/bin/sh\ntouch {marker}\ncat\n"
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
    commit = Commit.parse(f"file://{origin}@{git(origin, 'rev-parse', 'HEAD')}")
    marker.unlink(missing_ok=True)
    folder = fetch(tmp_path / "projects", commit)
    assert not marker.exists()
    assert (folder / "a.txt").read_bytes() == b"one\ntwo $Id$\n"
    assert (folder / "large.bin").read_text().startswith("version https://git-lfs")
    assert not (folder / "other").exists()
    assert not (folder / ".git").exists()


def test_links_and_secrets_are_refused_as_in_a_local_project(origin: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("outside")
    for name, target in {"in": "a.txt", "out": "../../../outside.txt", "root": "/etc/passwd", "up": ".."}.items():
        (origin / name).symlink_to(target)
    (origin / ".env").write_text("KEY=hush")
    (origin / ".gitignore").write_text("*.log\n")
    (origin / "x.log").write_text("log")
    folder = fetch(tmp_path / "projects", commit_all(origin))
    with ReadableFolder(ConfinedFolder(folder, links=True), (".env",)) as readable:
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
    inner = create_tree(origin, f"100644 blob {blob}\tb.txt\n")
    tree = create_tree(origin, f"120000 blob {link}\tsame\n", f"040000 tree {inner}\tsame\n")
    commit = git(origin, "commit-tree", tree, "-m", "x")
    git(origin, "update-ref", "refs/heads/evil", commit)
    with pytest.raises(SkillrunError):
        fetch(tmp_path / "projects", Commit.parse(f"file://{origin}@{commit}"))
    assert list(outside.iterdir()) == []


def create_tree(origin: Path, *entries: str) -> str:
    """Create a tree with these entries, which git's commands do not validate."""
    raw = b""
    for entry in entries:
        meta, _, name = entry.rstrip("\n").partition("\t")
        mode, _, sha = meta.split()
        raw += f"{mode.lstrip('0')} {name}".encode() + b"\0" + bytes.fromhex(sha)
    process = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        cwd=origin, input=raw, check=True, capture_output=True,
    )  # fmt: skip
    return process.stdout.decode().strip()


@pytest.mark.parametrize("name", ["..", ".git", ".GIT"])
def test_an_invalid_path_in_a_repository_is_refused(origin: Path, tmp_path: Path, name: str) -> None:
    blob = git(origin, "hash-object", "-w", "a.txt")
    inner = create_tree(origin, f"100644 blob {blob}\tconfig\n")
    commit = git(origin, "commit-tree", create_tree(origin, f"040000 tree {inner}\t{name}\n"), "-m", "x")
    git(origin, "update-ref", "refs/heads/evil", commit)
    with pytest.raises(Unfetchable, match="contains an object that git refuses: hasDot"):
        fetch(tmp_path / "projects", Commit.parse(f"file://{origin}@{commit}"))
    assert list((tmp_path / "projects/repositories").iterdir()) == []


@pytest.mark.parametrize("length", [300, 70_000])
def test_a_name_that_is_too_long_is_refused_permanently(origin: Path, tmp_path: Path, length: int) -> None:
    blob = git(origin, "hash-object", "-w", "a.txt")
    commit = git(origin, "commit-tree", create_tree(origin, f"100644 blob {blob}\t{'x' * length}\n"), "-m", "x")
    git(origin, "update-ref", "refs/heads/long", commit)
    with pytest.raises(Unfetchable, match="is too long"):
        fetch(tmp_path / "projects", Commit.parse(f"file://{origin}@{commit}"))


@pytest.mark.parametrize("limit", ["MAX_PROJECT_BYTES", "MAX_FILES"])
def test_a_commit_beyond_the_limits_is_refused(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    for number in range(4):
        (origin / f"{number}.txt").write_text("x" * 3000)
    for module in (git_module, fetching):
        monkeypatch.setattr(module, limit, {"MAX_PROJECT_BYTES": 10_000, "MAX_FILES": 3}[limit], raising=False)
    with pytest.raises(Unfetchable, match="has more than"):
        fetch(tmp_path / "projects", commit_all(origin))
    assert list((tmp_path / "projects/repositories").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_slow_or_too_large_fetch_is_stopped_with_its_processes(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that waits or writes forever replaces git."""
    commit, programs, real_git = commit_all(origin), tmp_path / "programs", shutil.which("git")
    programs.mkdir()
    for command, message in (("sleep 1000", "could not be fetched within"), ("yes > large", "has more than")):
        fake = programs / "git"
        fake.write_text(
            f'#!/bin/sh\ncase "$*" in *fetch*) echo $$ > {tmp_path}/pid; {command};; esac\nexec {real_git} "$@"\n'
        )
        fake.chmod(0o755)
        with monkeypatch.context() as patched:
            patched.setenv("PATH", f"{programs}:{os.environ['PATH']}")
            patched.setattr(fetching, "FETCH_TIMEOUT", 1.0 if "sleep" in command else 60.0)
            patched.setattr(fetching, "MAX_PROJECT_BYTES", 100_000)
            with pytest.raises(SkillrunError, match=message):
                fetch(tmp_path / "projects", commit)
        group = (tmp_path / "pid").read_text().strip()
        running = [file.read_text().rpartition(")")[2].split() for file in Path("/proc").glob("[0-9]*/stat")]
        assert [state for state, _, process_group, *_ in running if process_group == group and state != "Z"] == []
    assert list((tmp_path / "projects/repositories").iterdir()) == []


@pytest.mark.slow  # it waits for the time limit
def test_a_commit_that_is_slow_to_unpack_is_stopped(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (origin / f"{number}.txt").write_text("text")
    commit = commit_all(origin)
    monkeypatch.setattr(fetching, "FETCH_TIMEOUT", 2.0)
    monkeypatch.setattr(Path, "chmod", lambda *_: time.sleep(0.5))
    with pytest.raises(SkillrunError, match="could not be fetched within"):
        fetch(tmp_path / "projects", commit)
    assert list((tmp_path / "projects/repositories").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="it needs setsid")
def test_a_process_that_outlives_git_does_not_delay_the_fetch(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ssh master or a credential helper can keep git's output open, in a process group of its own."""
    commit, programs, real_git = commit_all(origin), tmp_path / "programs", shutil.which("git")
    programs.mkdir()
    fake, pid = programs / "git", tmp_path / "pid"
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *fetch*) setsid sleep 30 & echo $! > {pid};; esac\nexec {real_git} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    begun = time.monotonic()
    try:
        assert (fetch(tmp_path / "projects", commit) / "a.txt").read_text() == "first\n"
        assert time.monotonic() - begun < 20
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_commit_without_files_is_fetched(origin: Path, tmp_path: Path) -> None:
    (origin / "a.txt").unlink()
    git(origin, "commit", "--quiet", "--message", "x", "--allow-empty")
    commit = Commit.parse(f"file://{origin}@{git(origin, 'rev-parse', 'HEAD')}")
    assert list(fetch(tmp_path / "projects", commit).iterdir()) == []


def test_the_settings_of_the_user_do_not_change_the_modes_of_files(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (origin / "run.sh").write_text("#!/bin/sh\n")
    (origin / "run.sh").chmod(0o755)
    commit = commit_all(origin)
    (tmp_path / "settings").write_text("[tar]\n\tumask = 0177\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "settings"))
    assert (fetch(tmp_path / "projects", commit) / "run.sh").stat().st_mode & 0o777 == 0o755


def test_a_commit_that_does_not_exist_is_distinguished_from_a_failure_of_this_machine(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    existing = commit_all(origin)
    tree = git(origin, "rev-parse", "HEAD^{tree}")
    for missing in (COMMIT, tree):
        with pytest.raises(Unfetchable, match=f"has no commit {missing}"):
            fetch(tmp_path / "projects", Commit.parse(f"file://{origin}@{missing}"))
    cases: list[tuple[Commit, str, Callable[[], object]]] = [
        (Commit.parse(f"file://{tmp_path}/none@{COMMIT}"), "cannot be fetched on this machine: fatal: '", lambda: None),
        (
            Commit.parse(f"https://127.0.0.1:9/x.git@{COMMIT}"),
            "cannot be fetched on this machine: fatal: unable",
            lambda: None,
        ),
        (existing, "git is not installed", lambda: monkeypatch.setenv("PATH", str(tmp_path))),
    ]
    for commit, message, prepare in cases:
        prepare()
        with pytest.raises(SkillrunError, match=message) as raised:
            fetch(tmp_path / "projects", commit)
        assert not isinstance(raised.value, Unfetchable)


def test_file_urls_are_refused_unless_they_are_allowed(origin: Path, tmp_path: Path) -> None:
    with pytest.raises(SkillrunError, match="file:// URLs are not allowed on this machine"):
        fetch(tmp_path / "projects", commit_all(origin), files=False)


def test_several_runs_of_one_worker_fetch_a_commit_once(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin, commits, fetched = commit_all(origin), CommitCache(tmp_path / "projects", files=True), []
    original_fetch = CommitCache._fetch

    async def record_fetch(self: CommitCache, commit: Commit) -> None:
        fetched.append(commit)
        await original_fetch(self, commit)

    monkeypatch.setattr(CommitCache, "_fetch", record_fetch)

    async def fetch_concurrently() -> None:
        await asyncio.gather(*(commits.ensure_available(pin) for _ in range(5)))

    asyncio.run(fetch_concurrently())
    assert len(fetched) == 1


@pytest.mark.finding("FS6")
def test_a_server_with_an_old_protocol_cannot_replace_the_content_of_a_commit(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit_all(origin)
    (origin / "a.txt").write_text("evil\n")
    git(origin, "replace", first.sha, commit_all(origin).sha)
    (tmp_path / "ssh").write_text('#!/bin/sh\nfor last; do :; done\nunset GIT_PROTOCOL; exec sh -c "$last"\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{tmp_path}/ssh")
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    folder = fetch(tmp_path / "projects", Commit.parse(f"ssh://git@host{origin}@{first.sha}"), files=False)
    assert (folder / "a.txt").read_text() == "first\n"


@pytest.mark.finding("FS6")
def test_a_commit_of_one_server_is_not_used_for_another_server(origin: Path, tmp_path: Path) -> None:
    pin = commit_all(origin)
    fetch(tmp_path / "projects", pin)
    with pytest.raises(SkillrunError, match="cannot be fetched on this machine"):
        fetch(tmp_path / "projects", Commit.parse(f"file://{tmp_path}/none/origin@{pin.sha}"))


@pytest.mark.finding("FS6")
def test_files_that_were_changed_in_the_cache_are_fetched_again(origin: Path, tmp_path: Path) -> None:
    pin = commit_all(origin)
    place = tmp_path / "projects" / fetching.FOLDER / pin.name
    (place / "deep").mkdir(parents=True)
    (place / "a.txt").write_text("forged\n")
    assert (fetch(tmp_path / "projects", pin) / "a.txt").read_text() == "first\n"
    changes: list[Callable[[], object]] = [
        lambda: (place / "a.txt").write_text("forged\n"),
        (place / "more.txt").touch,
        lambda: (place / "a.txt").chmod(0o755),
        (place / "a.txt").unlink,
        lambda: (place / "link").symlink_to("/etc"),
        (place / "folder").mkdir,
    ]
    for change in changes:
        change()
        assert (fetch(tmp_path / "projects", pin) / "a.txt").read_text() == "first\n"
        assert [entry.name for entry in place.iterdir()] == ["a.txt"]
        assert (place / "a.txt").stat().st_mode & 0o777 == 0o644


@pytest.mark.finding("FS7")
def test_a_server_that_sends_messages_without_end_is_stopped(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = commit_all(origin)
    (tmp_path / "ssh").write_text("#!/bin/sh\nyes >&2\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{tmp_path}/ssh")
    with pytest.raises(SkillrunError, match="git wrote more than"):
        fetch(tmp_path / "projects", Commit.parse(f"ssh://git@host{origin}@{pin.sha}"), files=False)


@pytest.mark.parametrize(
    ("url", "message"),
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
        (f"https://host:port/x.git@{COMMIT}", "is not a valid URL"),
        (f"ssh://%2DoProxyCommand=x@host/x.git@{COMMIT}", "has no valid user"),
        (f"ssh://g%0Ait@host/x.git@{COMMIT}", "has no valid user"),
        (f"ssh://@host/x.git@{COMMIT}", "has no valid user"),
        (f"ssh://git@%2DoProxyCommand=x/x.git@{COMMIT}", "has no valid host"),
        (f"ssh://git@host\\x/x.git@{COMMIT}", "has no valid host"),
        (f"ssh://git@host/%2Dx@{COMMIT}", "has no valid path"),
        (f"ssh://git@host//-x@{COMMIT}", "has no valid path"),
        (f"ssh://git@host/%252Dx@{COMMIT}", "has no valid path"),
        (f"ssh://git@host/a%5Cb@{COMMIT}", "has no valid path"),
        (f"https://host/a%0Ab@{COMMIT}", "has no valid path"),
        (f"https://host/a%C2%9Bb@{COMMIT}", "has no valid path"),
        (f"https://host/a%00b@{COMMIT}", "has no valid path"),
        (f"https://host/%FF@{COMMIT}", "has no valid path"),
        (f"file:///%2e%2e/%2Dx@{COMMIT}", "has no valid path"),
        (f"https://host/@{COMMIT}", "has no valid path"),
    ],
)
@pytest.mark.finding("FS15")
def test_an_invalid_commit_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        Commit.parse(url)
    assert "hush" not in str(raised.value)


def test_a_path_is_distinguished_from_a_url() -> None:
    remote = ("https://h/x", "SSH://h/x", "git@h:x", "ext::x://y")
    assert [is_remote(text) for text in remote] == [True, True, True, False]
    assert not any(map(is_remote, ("shelf", "../shelf", "/srv/shelf", "a@b", "./git@h:x", "docs/a:b")))
    commit = Commit.parse(f"ssh://git@host:2222/group/A%20b.git/@{COMMIT}")
    assert (commit.name, commit.path) == (f"A-20b-{COMMIT}", f"../repositories/A-20b-{COMMIT}")
