"""A store in a folder, with a subfolder for each run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from skillrun.definitions.verbs import ENGINE_FILES
from skillrun.repository.confined_folder import NO_LINKS_HINT, ConfinedFolder
from skillrun.repository.paths import PathRefused, require_slug
from skillrun.store.local.local_files import SHARED, folder_mode
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.verification import JOURNAL
from skillrun.store.run_data import format_run_argument
from skillrun.store.state import STATE
from skillrun.store.stored_run import RunListing, slug_from_request
from skillrun.syntax.diagnostics import SkillrunError, UsageError, did_you_mean

IGNORE_FILE: Final = ".gitignore"
IGNORE_ALL: Final = "# runs hold prompts and replies; remove this file to have them committed\n*\n"


def _make_runs_folder(runs: Path) -> None:
    """Create the runs folder if it is missing, with a file that makes git ignore the runs."""
    try:
        runs.mkdir(SHARED, parents=True)  # even if this run is private: a shared run may follow
    except FileExistsError:
        return
    try:
        with ConfinedFolder(Path(os.path.realpath(runs))) as folder:
            folder.create(IGNORE_FILE, IGNORE_ALL.encode())
    except OSError:  # for example a full disk: the next run makes both
        (runs / IGNORE_FILE).unlink(missing_ok=True)
        with suppress(OSError):
            runs.rmdir()
        raise


def check_location(runs: Path, name: str) -> None:
    """Raises UsageError if the run would be inside another run, and its name is reserved for that run's files."""
    place = Path(os.path.realpath(runs)) / name
    enclosing_run = next((folder for folder in place.parents if (folder / JOURNAL).is_file()), None)
    first_part = place.relative_to(enclosing_run).parts[0] if enclosing_run is not None else ""
    if first_part in ENGINE_FILES or first_part.startswith("round-"):
        message = f"`{first_part}` in {enclosing_run} is reserved for that run"
        raise UsageError(message, "choose another `--name`, or another folder for `--out`")


def is_run(folder: Path) -> bool:
    """Whether a folder contains a run that has started. Links are followed."""
    return (folder / STATE).is_file()


class LocalStore:
    """The `Store` in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def location(self) -> str:
        return str(self.path)

    def create_run(self, name: str, *, shared: bool) -> LocalRun:
        require_slug(name)
        check_location(self.path, name)
        _make_runs_folder(self.path)
        with ConfinedFolder(Path(os.path.realpath(self.path))) as runs:
            runs.make_folder(name, folder_mode(shared=shared))
            return LocalRun(runs.open_folder(name))

    def open_run(self, name: str) -> LocalRun:
        """Return a run that has started. Raises UsageError if it does not exist, PathRefused if it is a link."""
        path = Path(os.path.realpath(self.path)) / require_slug(name)
        if path.is_symlink():
            raise PathRefused(f"{path} is a symbolic link", NO_LINKS_HINT)
        if is_run(path):
            return LocalRun(path)
        if (path / ".run").is_dir():
            raise UsageError(f"{path} has no {STATE}", "restore it, or start the run again under another `--name`")
        known = sorted(p.name for p in self.path.iterdir() if is_run(p)) if self.path.is_dir() else []
        hint = did_you_mean(name, known) or "`skillrun runs` lists the runs"
        raise UsageError(f"there is no run `{name}` in {self.path}", hint)

    def list_runs(self) -> Iterator[tuple[str, LocalRun | Exception]]:
        runs = Path(os.path.realpath(self.path))
        for name, kind in ConfinedFolder(runs, links=True).entries() if runs.is_dir() else []:
            if kind == "link" and is_run(runs / name):
                yield name, PathRefused(f"{runs / name} is a symbolic link")
            elif kind == "folder":
                try:
                    run = LocalRun(runs / name)
                    if run.has_state:
                        yield name, run
                except (SkillrunError, OSError) as error:
                    yield name, error

    def overview(self, status: str = "", most: int = 0) -> list[RunListing]:
        lines = [_run_listing(name, run) for name, run in self.list_runs()]
        lines.sort(key=lambda line: line.started_at, reverse=True)
        return [line for line in lines if status in ("", line.status)][: most or None]

    def reserve_name(self, request: str, *, shared: bool = False) -> str:
        """Create a folder under a free name made from the request, so that no other process takes the name."""
        base = slug_from_request(request)
        check_location(self.path, base)
        _make_runs_folder(self.path)
        for number in count(1):
            name = base if number == 1 else f"{base}-{number}"
            with suppress(FileExistsError):
                (self.path / name).mkdir(folder_mode(shared=shared))
                return name
        raise AssertionError("unreachable")

    def release_name(self, name: str) -> None:
        with suppress(OSError):
            (self.path / name).rmdir()

    def has(self, name: str) -> bool:
        return is_run(self.path / name)

    def run_location(self, name: str) -> str:
        return str(Path(os.path.realpath(self.path)) / name)

    def command_argument(self, name: str, project: Path) -> str:
        return format_run_argument(Path(os.path.realpath(self.path)) / name, project)


def _run_listing(name: str, run: LocalRun | Exception) -> RunListing:
    try:
        if isinstance(run, Exception):
            raise run
        state = run.state()
        return RunListing.from_state(name, run.status(state), state)
    except (SkillrunError, OSError) as error:
        return RunListing(name, "unreadable", unreadable=str(error).splitlines()[0])
