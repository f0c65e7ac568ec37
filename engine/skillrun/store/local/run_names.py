"""Names and folders of local runs: reserves, creates and finds them. Links are refused."""

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
    """Return a free slug made from the request, and create its folder, so that no other process takes it."""
    base = slug_from_request(request)
    check_location(runs, base)
    _make_runs_folder(runs)
    for number in count(1):
        name = base if number == 1 else f"{base}-{number}"
        with suppress(FileExistsError):
            (runs / name).mkdir(folder_mode(shared=shared))
            return name
    raise AssertionError("unreachable")


def create_run_folder(runs: Path, name: str, *, shared: bool) -> ConfinedFolder:
    """Open the folder of a new run; it and the runs folder are created if missing. Raises PathRefused for a link."""
    require_slug(name)
    check_location(runs, name)
    _make_runs_folder(runs)
    with ConfinedFolder(runs.resolve()) as all_runs:
        all_runs.make_folder(name, folder_mode(shared=shared))
        return all_runs.open_folder(name)


def _make_runs_folder(runs: Path) -> None:
    """Create the folder of the runs if missing, with a file that makes git ignore it."""
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
    """Raises UsageError if a run inside of another one would use a name that is reserved for the files of that run."""
    place = runs.resolve() / name
    enclosing_run = next((folder for folder in place.parents if (folder / JOURNAL).is_file()), None)
    first_part = place.relative_to(enclosing_run).parts[0] if enclosing_run is not None else ""
    if first_part in ENGINE_FILES or first_part.startswith("round-"):
        message = f"`{first_part}` in {enclosing_run} is reserved for that run"
        raise UsageError(message, "choose another `--name`, or another folder for `--out`")


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a started run; follows links."""
    return (folder / STATE).is_file()


def find_run_folder(runs: Path, name: str) -> Path:
    """Return the folder of a run. Raises UsageError if it does not exist, PathRefused for a link."""
    path = runs.resolve() / require_slug(name)
    if path.is_symlink():
        raise PathRefused(f"{path} is a symbolic link", NO_LINKS_HINT)
    if not is_run(path):
        if (path / ".run").is_dir():
            raise UsageError(f"{path} has no {STATE}", "restore it, or start the run again under another `--name`")
        known = sorted(p.name for p in runs.iterdir() if is_run(p)) if runs.is_dir() else []
        raise UsageError(
            f"there is no run `{name}` in {runs}", did_you_mean(name, known) or "`skillrun runs` lists the runs"
        )
    return path
