"""The folders of runs: where one is, a new one, its journal, a copy to look through; none behind a link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from skillrun.language.files.kinds import OWN_FILES
from skillrun.language.templates.functions import slug
from skillrun.language.text.diagnostics import SkillrunError, UsageError, did_you_mean
from skillrun.runtime.errors import file_trouble
from skillrun.runtime.store.bodies import fits
from skillrun.runtime.store.disk.atomic import SHARED, folder_mode
from skillrun.runtime.store.disk.journal import SqliteJournal
from skillrun.runtime.store.disk.verification import JOURNAL, WITNESS
from skillrun.runtime.store.files import LARGEST, Files, folders
from skillrun.runtime.store.journal import Journal
from skillrun.runtime.store.state import STATE
from skillrun.tools.paths import PathRefused, checked_slug
from skillrun.tools.tree import NO_LINKS, Tree

MOST_COPIED: Final = 500_000_000  # bytes
NOT_BEGUN: Final = "nothing was begun; mend that, and type the command again"


def base_slug(words: str) -> str:
    """The slug of a request; a run that finds it taken has a number behind it."""
    return (slug(words)[:40].strip("-") or "run") if re.search(r"[A-Za-z0-9]", words) else "run"


def new_slug(runs: Path, words: str, *, shared: bool = False) -> str:
    """A slug that no run has yet, made from the request; its folder is made too, so that no other process takes it."""
    base = base_slug(words)
    check_place(runs, base)
    runs.mkdir(SHARED, parents=True, exist_ok=True)
    for number in count(1):
        name = base if number == 1 else f"{base}-{number}"
        with suppress(FileExistsError):
            (runs / name).mkdir(folder_mode(shared=shared))
            return name
    raise AssertionError("numbers have ended")


def new_folder(runs: Path, name: str, *, shared: bool) -> Tree:
    """The folder of a new run, made with that of all runs where they are not there. Raises PathRefused for a link."""
    checked_slug(name)
    check_place(runs, name)
    runs.mkdir(SHARED, parents=True, exist_ok=True)  # also for private runs: a shared one may follow
    with Tree(runs.resolve()) as all_runs:
        all_runs.make(name, folder_mode(shared=shared))
        return all_runs.folder(name)


def check_place(runs: Path, name: str) -> None:
    """Raises UsageError where a run that lies inside another would stand where that one keeps its own."""
    place = runs.resolve() / name
    around = next((folder for folder in place.parents if (folder / JOURNAL).is_file()), None)
    own = place.relative_to(around).parts[0] if around is not None else ""
    if own in OWN_FILES or own.startswith("round-"):
        message = f"`{own}` in {around} is kept for the run there"
        raise UsageError(message, "choose another `--name`, or another folder for `--out`")


@contextmanager
def undone(folder: Tree) -> Iterator[None]:
    """Where beginning a run fails before it has a state, leave nothing of it; what was there before stays."""
    is_new = folder.known(JOURNAL) is None and folder.known(WITNESS) is None
    try:
        yield
    except BaseException as error:
        if not is_new or folder.known(STATE) is not None:
            raise
        with suppress(OSError, SkillrunError):
            folder.remove(".run")
            folder.path.rmdir()
        if isinstance(error, OSError):
            raise SkillrunError(file_trouble(error).message, NOT_BEGUN) from error
        if type(error) is SkillrunError:
            raise SkillrunError(error.message, NOT_BEGUN) from error
        raise


def existing(runs: Path, name: str) -> Path:
    """The folder of a run. Raises UsageError where there is none, PathRefused where its name is a link."""
    path = runs.resolve() / checked_slug(name)
    if path.is_symlink():
        raise PathRefused(f"{path} is a symbolic link", NO_LINKS)
    if not (path / STATE).is_file():
        if (path / ".run").is_dir():
            raise UsageError(f"{path} has no {STATE}", "put it back, or begin the run again under another `--name`")
        known = sorted(p.name for p in runs.iterdir() if (p / STATE).is_file()) if runs.is_dir() else []
        raise UsageError(
            f"there is no run `{name}` in {runs}", did_you_mean(name, known) or "`skillrun runs` lists them"
        )
    return path


def open_journal(folder: Tree) -> Journal:
    """The journal of a run, made when there is none."""
    there = any(folder.known(name) is not None for name in (JOURNAL, WITNESS))
    return SqliteJournal.open(folder, fits) if there else SqliteJournal.create(folder, fits)


def copy_files(source: Tree, target: Files) -> None:
    """Copy what a run has written, without `.run`: regular files only. Raises SkillrunError where they are too many."""
    left = MOST_COPIED
    for folder in folders(source):
        if folder == ".run" or folder.startswith(".run/"):
            continue
        for name, kind in source.entries(folder):
            path = name if folder == "." else f"{folder}/{name}"
            if kind != "file" or not source.is_file(path):
                continue
            content = source.read(path, min(left, LARGEST))
            left -= len(content)
            if left < 0 or len(content) > LARGEST:
                raise SkillrunError(
                    f"the files in {source.path} are too large to be looked through", f"move {path} away"
                )
            target.write(path, content)
