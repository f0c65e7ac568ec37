"""Where runs are: the name of a new one, its folder, that of one that is there; none behind a link."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from skillrun.definitions.verbs import ENGINE_FILES
from skillrun.repository.confined_folder import NO_LINKS_HINT, ConfinedFolder
from skillrun.repository.paths import PathRefused, require_slug
from skillrun.store.local.atomic import SHARED, folder_mode
from skillrun.store.local.verification import JOURNAL
from skillrun.store.state import STATE
from skillrun.store.stored_run import slug_from_request
from skillrun.syntax.diagnostics import UsageError, did_you_mean

IGNORE_FILE: Final = ".gitignore"
IGNORE_ALL: Final = "# runs hold prompts and replies; remove this file to have them committed\n*\n"


def reserve_run_name(runs: Path, request: str, *, shared: bool = False) -> str:
    """A slug that no run has yet, made from the request; its folder is made too, so that no other process takes it."""
    base = slug_from_request(request)
    check_location(runs, base)
    _make_runs_folder(runs)
    for number in count(1):
        name = base if number == 1 else f"{base}-{number}"
        with suppress(FileExistsError):
            (runs / name).mkdir(folder_mode(shared=shared))
            return name
    raise AssertionError("numbers have ended")


def create_run_folder(runs: Path, name: str, *, shared: bool) -> ConfinedFolder:
    """The folder of a new run, made with that of all runs where they are not there. Raises PathRefused for a link."""
    require_slug(name)
    check_location(runs, name)
    _make_runs_folder(runs)
    with ConfinedFolder(runs.resolve()) as all_runs:
        all_runs.make_folder(name, folder_mode(shared=shared))
        return all_runs.open_folder(name)


def _make_runs_folder(runs: Path) -> None:
    """Make the folder of the runs where it is not there. Git leaves one alone that is made here."""
    try:
        runs.mkdir(SHARED, parents=True)  # also for private runs: a shared one may follow
    except FileExistsError:
        return
    try:
        (runs / IGNORE_FILE).write_text(IGNORE_ALL, encoding="utf-8")
    except OSError:  # a full disk: the next run makes both
        (runs / IGNORE_FILE).unlink(missing_ok=True)
        with suppress(OSError):
            runs.rmdir()
        raise


def check_location(runs: Path, name: str) -> None:
    """Raises UsageError where a run that lies inside another would stand where that one keeps its own."""
    place = runs.resolve() / name
    enclosing_run = next((folder for folder in place.parents if (folder / JOURNAL).is_file()), None)
    first_part = place.relative_to(enclosing_run).parts[0] if enclosing_run is not None else ""
    if first_part in ENGINE_FILES or first_part.startswith("round-"):
        message = f"`{first_part}` in {enclosing_run} is kept for the run there"
        raise UsageError(message, "choose another `--name`, or another folder for `--out`")


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run that has begun, links followed."""
    return (folder / STATE).is_file()


def find_run_folder(runs: Path, name: str) -> Path:
    """The folder of a run. Raises UsageError where there is none, PathRefused where its name is a link."""
    path = runs.resolve() / require_slug(name)
    if path.is_symlink():
        raise PathRefused(f"{path} is a symbolic link", NO_LINKS_HINT)
    if not is_run(path):
        if (path / ".run").is_dir():
            raise UsageError(f"{path} has no {STATE}", "put it back, or begin the run again under another `--name`")
        known = sorted(p.name for p in runs.iterdir() if is_run(p)) if runs.is_dir() else []
        raise UsageError(
            f"there is no run `{name}` in {runs}", did_you_mean(name, known) or "`skillrun runs` lists them"
        )
    return path
