"""The runs in a folder, `runs/` of a project as a rule: each in a folder of its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from skillrun.repository.confined_folder import Tree
from skillrun.repository.paths import PathRefused
from skillrun.store.local.local_run import RunFolder
from skillrun.store.local.run_names import existing, is_run, new_folder, new_slug
from skillrun.store.run_data import run_argument
from skillrun.store.stored_run import Line
from skillrun.syntax.diagnostics import SkillrunError


class RunFolders:
    """The `Runs` in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> str:
        return str(self.path)

    def new(self, name: str, *, shared: bool) -> RunFolder:
        """A run that begins; its folder is made where it is not there. Raises PathRefused where it is a link."""
        return RunFolder(new_folder(self.path, name, shared=shared))

    def existing(self, name: str) -> RunFolder:
        """A run that has begun. Raises UsageError where there is none, PathRefused where it is a link."""
        return RunFolder(existing(self.path, name))

    def listed(self) -> Iterator[tuple[str, RunFolder | Exception]]:
        """The runs that have begun; or why one cannot be looked at."""
        runs = self.path.resolve()
        for name, kind in Tree(runs, links=True).entries() if runs.is_dir() else []:
            if kind == "link" and is_run(runs / name):
                yield name, PathRefused(f"{runs / name} is a symbolic link")
            elif kind == "folder":
                try:
                    run = RunFolder(runs / name)
                    if run.has_state:
                        yield name, run
                except (SkillrunError, OSError) as error:
                    yield name, error

    def overview(self, status: str = "", most: int = 0) -> list[Line]:
        """The newest runs, each looked at: a folder has no other order."""
        lines = [_line(name, run) for name, run in self.listed()]
        lines.sort(key=lambda line: line.started_at, reverse=True)
        return [line for line in lines if status in ("", line.status)][: most or None]

    def take_name(self, words: str, *, shared: bool = False) -> str:
        """A name that no run has yet, made from the request; its folder is made too."""
        return new_slug(self.path, words, shared=shared)

    def give_back(self, name: str) -> None:
        """Remove the folder of a name that no run was begun under."""
        with suppress(OSError):
            (self.path / name).rmdir()

    def has(self, name: str) -> bool:
        return is_run(self.path / name)

    def place_of(self, name: str) -> str:
        """Where people find that run, also when it is there no more."""
        return str(self.path.resolve() / name)

    def called(self, name: str, project: Path) -> str:
        """What a command takes for that run when it is typed in the project."""
        return run_argument(self.path.resolve() / name, project)


def _line(name: str, run: RunFolder | Exception) -> Line:
    try:
        if isinstance(run, Exception):
            raise run
        state = run.state()
        return Line.of(name, run.status(state), state)
    except (SkillrunError, OSError) as error:
        return Line(name, "unreadable", unreadable=str(error).splitlines()[0])
