"""The runs in a folder, usually `runs/` of a project: each in a folder of its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.run_names import create_run_folder, find_run_folder, is_run, reserve_run_name
from skillrun.store.run_data import format_run_argument
from skillrun.store.stored_run import RunListing
from skillrun.syntax.diagnostics import SkillrunError


class LocalStore:
    """The `Store` in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def location(self) -> str:
        return str(self.path)

    def create_run(self, name: str, *, shared: bool) -> LocalRun:
        """Return a run to start; its folder is created if missing. Raises PathRefused for a link."""
        return LocalRun(create_run_folder(self.path, name, shared=shared))

    def open_run(self, name: str) -> LocalRun:
        """Return a run that has started. Raises UsageError if it does not exist, PathRefused for a link."""
        return LocalRun(find_run_folder(self.path, name))

    def list_runs(self) -> Iterator[tuple[str, LocalRun | Exception]]:
        """Yield the runs that have started, or the error of one that cannot be read."""
        runs = self.path.resolve()
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
        """Return the newest runs. Reads all of them, since a folder has no other order."""
        lines = [_run_listing(name, run) for name, run in self.list_runs()]
        lines.sort(key=lambda line: line.started_at, reverse=True)
        return [line for line in lines if status in ("", line.status)][: most or None]

    def reserve_name(self, request: str, *, shared: bool = False) -> str:
        """Create a folder under a free name made from the request, and return the name."""
        return reserve_run_name(self.path, request, shared=shared)

    def release_name(self, name: str) -> None:
        """Remove the folder of a name under which no run has started."""
        with suppress(OSError):
            (self.path / name).rmdir()

    def has(self, name: str) -> bool:
        return is_run(self.path / name)

    def run_location(self, name: str) -> str:
        """Return the location of that run, even if it no longer exists."""
        return str(self.path.resolve() / name)

    def command_argument(self, name: str, project: Path) -> str:
        """Return the argument for that run in a command that is run in the project."""
        return format_run_argument(self.path.resolve() / name, project)


def _run_listing(name: str, run: LocalRun | Exception) -> RunListing:
    try:
        if isinstance(run, Exception):
            raise run
        state = run.state()
        return RunListing.from_state(name, run.status(state), state)
    except (SkillrunError, OSError) as error:
        return RunListing(name, "unreadable", unreadable=str(error).splitlines()[0])
