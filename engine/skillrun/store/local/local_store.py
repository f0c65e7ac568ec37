"""The runs in a folder, `runs/` of a project as a rule: each in a folder of its name."""

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
    """The `Runs` in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def location(self) -> str:
        return str(self.path)

    def create_run(self, name: str, *, shared: bool) -> LocalRun:
        """A run that begins; its folder is made where it is not there. Raises PathRefused where it is a link."""
        return LocalRun(create_run_folder(self.path, name, shared=shared))

    def open_run(self, name: str) -> LocalRun:
        """A run that has begun. Raises UsageError where there is none, PathRefused where it is a link."""
        return LocalRun(find_run_folder(self.path, name))

    def list_runs(self) -> Iterator[tuple[str, LocalRun | Exception]]:
        """The runs that have begun; or why one cannot be looked at."""
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
        """The newest runs, each looked at: a folder has no other order."""
        lines = [_run_listing(name, run) for name, run in self.list_runs()]
        lines.sort(key=lambda line: line.started_at, reverse=True)
        return [line for line in lines if status in ("", line.status)][: most or None]

    def reserve_name(self, request: str, *, shared: bool = False) -> str:
        """A name that no run has yet, made from the request; its folder is made too."""
        return reserve_run_name(self.path, request, shared=shared)

    def release_name(self, name: str) -> None:
        """Remove the folder of a name that no run was begun under."""
        with suppress(OSError):
            (self.path / name).rmdir()

    def has(self, name: str) -> bool:
        return is_run(self.path / name)

    def run_location(self, name: str) -> str:
        """Where people find that run, also when it is there no more."""
        return str(self.path.resolve() / name)

    def command_argument(self, name: str, project: Path) -> str:
        """What a command takes for that run when it is typed in the project."""
        return format_run_argument(self.path.resolve() / name, project)


def _run_listing(name: str, run: LocalRun | Exception) -> RunListing:
    try:
        if isinstance(run, Exception):
            raise run
        state = run.state()
        return RunListing.from_state(name, run.status(state), state)
    except (SkillrunError, OSError) as error:
        return RunListing(name, "unreadable", unreadable=str(error).splitlines()[0])
