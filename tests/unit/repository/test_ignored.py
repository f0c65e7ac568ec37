"""Ignored files are found without git: the result equals git's in generated trees, and the effort is limited."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.gitignore import GitIgnore

TREES: Final = int(os.environ.get("SKILLRUN_TREES", "60"))
NAMES: Final = ["a", "b", "ab", "abc", "a.b", ".a", "a b", "b ", "é", "[a]", "a*", "A", "-", "!a", "#b", "a\\b", "aab"]
PIECES: Final = [
    *NAMES,
    "*",
    "?",
    "**",
    "[ab]",
    "[!a]",
    "[a-c]",
    "[[:alpha:]]",
    "\\a",
    "\\*",
    "[]a]",
    "[a",
    "[^.]",
    "]",
]


def random_rule(dice: random.Random) -> str:
    if dice.random() < 0.05:
        return dice.choice(["", "#a", "\\#b", "\\!a", "!", "/", "a\\ ", "b\\", "**", "*/", "!*/", "/**", "**/", "a//b"])
    parts = ["".join(dice.choices(PIECES, k=dice.choice([1, 1, 1, 2, 3]))) for _ in range(dice.choice([1, 1, 1, 2, 3]))]
    negated, anchored, folder = (dice.random() < chance for chance in (0.3, 0.2, 0.2))
    return f"{'!' * negated}{'/' * anchored}{'/'.join(parts)}{'/' * folder}{' ' * dice.choice([0, 0, 0, 0, 2])}"


def rules(dice: random.Random) -> str:
    end = dice.choice(["\n", "\n", "\r\n"])
    return end.join(random_rule(dice) for _ in range(dice.randint(1, 6))) + dice.choice(["", end])


def create_tree(dice: random.Random, top: Path) -> list[str]:
    """Create a tree with rules in every possible place and return its paths."""
    git(top, "init", "-q")
    (top / ".git" / "info").mkdir(exist_ok=True)
    paths: list[str] = []
    folders = [top]
    for _ in range(dice.randint(8, 24)):
        path = dice.choice(folders) / dice.choice(NAMES)
        if path.exists():
            continue
        paths.append(path.relative_to(top).as_posix())
        if dice.random() < 0.4:
            path.mkdir()
            folders.append(path)
        else:
            path.write_text("")
    for folder in folders:
        if dice.random() < 0.6:
            (folder / ".gitignore").write_text(dice.choice(["", "\N{ZERO WIDTH NO-BREAK SPACE}"]) + rules(dice))
    if dice.random() < 0.3:
        (top / ".git" / "info" / "exclude").write_text(rules(dice))
    if dice.random() < 0.3:
        git(top, "config", "core.ignorecase", "true")
    settings = Path.home() / ".gitconfig"
    settings.write_text('[core]\n\texcludesFile = "~/mine" ; my own\n' if dice.random() < 0.5 else "")
    (Path.home() / "mine").write_text(rules(dice))
    return paths


def git(top: Path, *arguments: str, stdin: Iterable[str] = ()) -> list[str]:
    text = "".join(f"{path}\0" for path in stdin)
    process = subprocess.run(["git", *arguments], cwd=top, input=text, capture_output=True, text=True, check=False)
    assert process.returncode in (0, 1), process.stderr
    return process.stdout.split("\0")[:-1]


def ignored(root: Path, paths: Iterable[str]) -> list[str]:
    with ConfinedFolder(root, links=True) as tree:
        rules = GitIgnore(tree, lambda: None)
        ignored_paths = []
        for path in paths:
            parts = tuple(path.split("/"))
            prefixes = [(parts[:end], end < len(parts) or (root / path).is_dir()) for end in range(1, len(parts) + 1)]
            if any(rules.ignore_reason(prefix, is_folder) for prefix, is_folder in prefixes):
                ignored_paths.append(path)
        return ignored_paths


@pytest.mark.finding("FZ12")
@pytest.mark.parametrize("seed", range(TREES))
def test_the_same_paths_are_ignored_as_by_git(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    top = tmp_path / "top"
    top.mkdir()
    paths = create_tree(dice, top)
    expected = sorted(git(top, "check-ignore", "--no-index", "--stdin", "-z", stdin=paths))
    assert sorted(ignored(top, paths)) == expected


@pytest.mark.finding("FZ12")
def test_rules_of_parent_folders_apply_up_to_the_top_of_the_working_tree(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "inner" / "deep").mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("b\n")
    git(top, "init", "-q")
    (top / ".gitignore").write_text("/inner/deep/a\n*.log\n")
    (top / "inner" / ".gitignore").write_text("!x.log\n")
    (top / ".git" / "info" / "exclude").write_text("c\n")
    for name in ("a", "b", "c", "x.log", "y.log"):
        (top / "inner" / "deep" / name).write_text("")
    assert ignored(top / "inner" / "deep", ["a", "b", "c", "x.log", "y.log"]) == ["a", "c", "y.log"]


@pytest.mark.finding("FZ12")
def test_a_linked_working_tree_uses_the_rules_of_its_repository_and_a_nested_one_its_own(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q")
    git(top, "-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m", "first")
    git(top, "worktree", "add", "-q", "../linked")
    (top / ".git" / "info" / "exclude").write_text("secret\n")
    (tmp_path / "linked" / "inside").mkdir()
    git(tmp_path / "linked" / "inside", "init", "-q")
    (tmp_path / "linked" / "inside" / ".git" / "info" / "exclude").write_text("own\n")
    assert ignored(tmp_path / "linked", ["secret", "own", "inside/own", "inside/x"]) == ["secret", "inside/own"]


def test_the_default_ignore_file_and_included_settings_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    (tmp_path / "xdg" / "git").mkdir(parents=True)
    (tmp_path / "xdg" / "git" / "ignore").write_text("usual\n")
    assert ignored(top, ["usual", "more"]) == ["usual"]
    (Path.home() / ".gitconfig").write_text("[include]\n  path = more.inc\n")
    (Path.home() / "more.inc").write_text(f"[core] excludesfile={tmp_path / 'more'}\n[include]path=more.inc\n")
    (tmp_path / "more").write_text("more\n")
    assert ignored(top, ["usual", "more"]) == ["more"]


WORKTREE = "[extensions]\n worktreeConfig = true\n"
SETTINGS = {
    "conditional include": {"home": '[includeIf "gitdir:~/**/top/"]\n path = more.inc\n'},
    "conditional include of another folder": {"home": '[includeIf "gitdir:~/none/"]\n path = more.inc\n'},
    "conditional include, case ignored": {"home": '[includeIf "gitdir/i:TOP/"]\n path = more.inc\n'},
    "conditional include by branch": {"home": '[includeIf "onbranch:ma*"]\n path = more.inc\n'},
    "conditional include in the repository": {"own": '[includeIf "gitdir:./"]\n path = MORE\n'},
    "settings of the working tree": {"own": WORKTREE, "tree": "[core]\nexcludesFile=RULES\n"},
    "unused settings of the working tree": {"tree": "[core]\nexcludesFile=RULES\n"},
    "ignored case": {"own": "[core]\n ignoreCase\n", "home": "[core]\n excludesFile = RULES\n"},
    "ignored case of the user": {"home": "[core]\n excludesFile = RULES\n ignorecase = yes\n"},
    "case not ignored": {"own": "[core]\n ignoreCase = off\n", "home": "[core]\n excludesFile=RULES\n ignorecase=1\n"},
    "the last value": {"own": "[core]\n excludesFile = RULES\n", "home": "[core]\n excludesFile = SYSTEM\n"},
}  # fmt: skip
VARIABLES = {
    "count": {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.excludesFile", "GIT_CONFIG_VALUE_0": "RULES"},
    "system": {"GIT_CONFIG_SYSTEM": "SYSTEM"},
    "no system": {"GIT_CONFIG_SYSTEM": "SYSTEM", "GIT_CONFIG_NOSYSTEM": "1"},
    "global": {"GIT_CONFIG_GLOBAL": "SYSTEM"},
    "parameters": {"GIT_CONFIG_PARAMETERS": "'core.excludesfile'='RULES' 'core.ignorecase'='true'"},
    "old parameters": {"GIT_CONFIG_PARAMETERS": "'core.excludesfile=RULES'"},
    "another repository": {"GIT_DIR": "OTHER", "GIT_WORK_TREE": "TOP"},
}
PATHS = ["secret", "SECRET", "keep", "More", "OTHER"]


def fill(text: str, folder: Path) -> str:
    """Replace the names of places in a text."""
    places = {"RULES": "rules", "SYSTEM": "system", "OTHER": "other/.git", "MORE": "home/more.inc", "TOP": "top"}
    for name, place in places.items():
        text = text.replace(name, str(folder / place))
    return text


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository below the home folder, files with rules and settings, and another repository."""
    folder = tmp_path / "home"
    for name in ("home", "top", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "rules").write_text("secret\nm[[:lower:]]re\n")
    (tmp_path / "system").write_text(fill("[core]\nexcludesFile = RULES\n", tmp_path))
    for place in (tmp_path, folder):
        (place / "more.inc").write_text(fill("[core]\nexcludesFile = RULES\n", tmp_path))
    for name in ("top", "other"):
        git(tmp_path / name, "-c", "init.defaultBranch=main", "init", "-q")
    (tmp_path / "other/.git/info/exclude").write_text("other\nOTHER\n")
    monkeypatch.chdir(tmp_path / "top")
    return tmp_path / "top"


@pytest.mark.finding("FS16")
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_settings_have_the_effect_that_they_have_in_git(settings: dict[str, str], top: Path) -> None:
    files = {"home": top.parent / ".gitconfig", "own": top / ".git/config", "tree": top / ".git/config.worktree"}
    for place, text in settings.items():
        with files[place].open("a") as file:
            file.write(fill(text, top.parent))
    assert ignored(top, PATHS) == git(top, "check-ignore", "--no-index", "--stdin", "-z", stdin=PATHS)


@pytest.mark.finding("FS16")
@pytest.mark.parametrize("variables", VARIABLES.values(), ids=VARIABLES)
def test_gits_environment_has_the_effect_that_it_has_in_git(
    variables: dict[str, str], top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, fill(value, top.parent))
    assert ignored(top, PATHS) == git(top, "check-ignore", "--no-index", "--stdin", "-z", stdin=PATHS)


@pytest.mark.finding("FS16")
def test_a_condition_that_cannot_be_decided_counts_as_met(top: Path) -> None:
    (top.parent / ".gitconfig").write_text('[includeIf "hasconfig:remote.*.url:https://a.example/**"]\npath=more.inc\n')
    assert ignored(top, PATHS) == ["secret"]


@pytest.mark.finding("FS16")
@pytest.mark.parametrize("name", ["info/exclude", "config", "commondir"])
@pytest.mark.parametrize("kind", ["pipe", "large", "device", "socket"])
def test_unusable_files_of_a_repository_ignore_everything_in_it(name: str, kind: str, top: Path) -> None:
    path = top / ".git" / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        path.write_text("#" * 300_000)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(path.parent):
            server.bind(path.name)
    assert ignored(top, PATHS) == PATHS


@pytest.mark.finding("FS16")
def test_the_null_device_and_a_folder_have_no_rules(top: Path) -> None:
    (top / ".git/info/exclude").unlink()
    (top / ".git/info/exclude").mkdir()
    (top.parent / ".gitconfig").write_text("[core]\nexcludesFile = /dev/null\n")
    assert ignored(top, PATHS) == []


@pytest.mark.row("Z6")
def test_unusable_rules_ignore_everything_they_could_apply_to(tmp_path: Path) -> None:
    for name, content in (("large", b"x\n" * 200_000), ("many", b"x\n" * 20_000), ("long", b"*" * 5000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".gitignore").write_bytes(content)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / ".gitignore")
    names = ("large", "many", "long", "pipe")
    assert ignored(tmp_path, [f"{name}/file" for name in names]) == [f"{name}/file" for name in names]
    assert ignored(tmp_path, names) == []


def test_rules_are_bytes_and_a_linked_rule_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfe\nb\xe9\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "rules").write_text("x\n")
    (tmp_path / "sub" / ".gitignore").symlink_to("../rules")
    names = [os.fsdecode(b"b\xe9"), "bé", "sub/x"]
    assert ignored(tmp_path, names) == names[:1]


@pytest.mark.row("Z6")
@pytest.mark.parametrize("line", ["*a" * 60 + "b", "**/a/" * 400 + "b", "[a-z]*" * 100 + "1", "?*" * 100 + "b"])
def test_matching_a_rule_is_fast(tmp_path: Path, line: str) -> None:
    (tmp_path / ".gitignore").write_text(f"{line}\n")
    started = time.monotonic()
    assert ignored(tmp_path, ["a" * 250, "a/" * 200 + "a"]) == []
    assert time.monotonic() - started < 5
