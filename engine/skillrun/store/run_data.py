"""The data of a run besides its journal: artifacts, summaries and state.

Contains the operations that affect several kinds of data: end a round, reset the run, match files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from copy import copy
from pathlib import Path
from shlex import quote
from typing import Final

from skillrun.repository.paths import PathRefused
from skillrun.store.artifacts import SUMMARIES, Artifacts, Refusals
from skillrun.store.files import Files, read_content, walk_folders
from skillrun.store.journal import Journal
from skillrun.store.state import STATE, State, format_state, parse_state
from skillrun.store.summaries import Summaries, past_round_folders
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import MAX_BYTES

LIST_RUNS_HINT: Final = "`skillrun runs` lists the runs"
REPORT: Final = "report.html"
"""The file name of the report, which the user may create."""


class StateFile:
    """`state.md`, with the status of a run."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._last = ""  # as last written

    def write(self, state: State, log: Iterable[str]) -> None:
        text = format_state(state, log)
        if text != self._last:
            self._files.write(STATE, text)
            self._last = text

    def read(self) -> tuple[State, list[str]]:
        """Read the state and its log. Raises SkillrunError if the file is missing, invalid or has another version."""
        if not self._files.has(STATE):
            raise SkillrunError(f"{self._files.path} is not a run: it has no {STATE}", LIST_RUNS_HINT)
        return parse_state(self._files.path / STATE, self._files.read(STATE, MAX_BYTES))


class RunData:
    """The files of one run, and the journal's records about them. Without a journal, the files are read-only."""

    def __init__(self, files: Files, journal: Journal | None = None) -> None:
        self.files, self.refusals = files, Refusals()
        self.artifacts = Artifacts(files, journal, self.refusals)
        self.summaries = Summaries(files, journal, self.refusals)
        self.state = StateFile(files)

    def inline(self, address: str) -> RunData:
        """Return the data of the inline workflow at `address`: the same artifacts, but separate summaries."""
        inner = copy(self)
        inner.summaries = self.summaries.inline(address)
        return inner

    @property
    def name(self) -> str:
        return self.files.path.name

    def location(self, name: str = "") -> str:
        """Return the location of the run, or of one of its files, for messages."""
        return str(self.files.path / name)

    def command_argument(self, project: Path) -> str:
        """Return the argument that names the run in a command executed in `project`."""
        return format_run_argument(self.files.path, project)

    def matching(self, pattern: str) -> list[str]:
        """Return the sorted names of the matching files that this evaluation or a user wrote.

        Leaves out files of the engine and of other runs. Leaves out files of an earlier evaluation, because it is
        unknown whether this evaluation will write them again. Includes a user's report only if `pattern` is the name of
        the report. As in a shell, a wildcard does not match a leading dot: files such as `._a.md` belong to an editor
        or the system.
        """
        current = self._current_artifacts()
        hidden = pattern.startswith(".") or "/." in pattern
        return [
            name
            for name in self.files.matching(pattern)
            if name != STATE
            and not name.startswith(".run/")
            and (name in current or not self.artifacts.is_unmodified(name))
            if hidden or not any(part.startswith(".") for part in name.split("/"))
            if name != REPORT or name in current or pattern == REPORT
            if not any(self.files.is_folder(f"{name[:at]}/.run") for at, sign in enumerate(name) if sign == "/")
        ]

    def content(self, name: str) -> bytes:
        """Return the bytes of a file that `matching` has found."""
        content = read_content(self.files, name)
        if content is None:
            raise SkillrunError(f"the file `{name}` no longer exists in {self.files.path}")
        return content

    def edited_files(self) -> list[str]:
        """Return the files that were edited outside the run: artifacts, and summaries of any round."""
        return [*self.artifacts.list_edited(), *self.summaries.list_edited()]

    def missing_artifacts(self) -> list[str]:
        """Return the artifacts that this round's summaries name but that no longer exist."""
        summaries = filter(None, map(self.summaries.find_readable, self.summaries.phases()))
        missing = []
        for name in dict.fromkeys(name for summary in summaries for name in summary.artifacts):
            with suppress(PathRefused, IsADirectoryError):  # another kind of entry has the name
                if not self.files.has(name):
                    missing.append(name)
        return missing

    def prune(self) -> None:
        """Remove the artifacts that only earlier evaluations wrote. Artifacts that a user has changed stay."""
        current = self._current_artifacts()
        for name in self.artifacts.list_names():
            if name not in current and self.artifacts.is_unmodified(name):
                self.files.remove(name)

    def end_round(self, number: int, phases: Iterable[str], retained: Iterable[str]) -> list[str]:
        """Move the summaries and artifacts of `phases` to `round-<number>/`. Idempotent.

        The artifacts of an inline workflow stay in place, and the next round overwrites them. An artifact is copied if
        `keep_user_version` was called for it, or if one of the `retained` phases wrote it too, because these phases are
        not evaluated again. Returns the edited artifacts that were moved.
        """
        if self.summaries.inline_rounds is not None:
            self.summaries.end_round(number, phases)
            return []
        retained_artifacts = {
            name for summary in self.summaries.completed_summaries(retained).values() for name in summary.artifacts
        }
        edited = set(self.artifacts.list_edited())
        for phase, summary in self.summaries.completed_summaries(phases).items():
            for name in summary.artifacts:
                self.artifacts.move(name, f"round-{number}/{name}", copy=name in retained_artifacts)
            self.summaries.end_round(number, [phase])
        return sorted(name for name in edited if not self.artifacts.has(name))

    def reset(self) -> None:
        """Remove summaries and rounds, so that all phases are evaluated again. Artifacts stay.

        A file of a finished round that a user has changed becomes the artifact again. If the user has changed the
        current artifact too, the file gets another name.
        """
        rounds = past_round_folders(self.files)
        for past in sorted(rounds, key=lambda name: -int(name.rpartition("-")[2])):
            for folder in [name for name in walk_folders(self.files) if name == past or name.startswith(f"{past}/")]:
                for leaf, _ in self.files.entries(folder):
                    self.artifacts.restore_from_round(f"{folder}/{leaf}", past)
        for name in (SUMMARIES, *rounds):
            self.summaries.remove(name)

    def _current_artifacts(self) -> set[str]:
        """Return the artifacts that this evaluation has written so far, including those of finished phases."""
        return self.artifacts.put_now | self.summaries.artifacts()


def format_run_argument(folder: Path, project: Path) -> str:
    """Return the argument that names a run in a command executed in `project`: the run's name, or its folder's path."""
    return folder.name if folder.parent == Path(os.path.realpath(project)) / "runs" else quote(str(folder))
