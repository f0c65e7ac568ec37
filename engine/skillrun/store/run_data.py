"""What a run keeps beside its journal, made of three: the ledger of its artifacts, its summaries and its state.

What concerns more than one of them is here: rounds that end, beginning again, which files a pattern means.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Final

from skillrun.repository.paths import PathRefused
from skillrun.store.artifact_names import SUMMARIES
from skillrun.store.artifacts import Artifacts, Refusals
from skillrun.store.files import Files, read_content, walk_folders
from skillrun.store.journal import Journal
from skillrun.store.state import STATE, State, format_state, parse_state
from skillrun.store.summaries import InlineSummaries, Summaries, SummaryFiles, past_round_folders
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.syntax.source import MAX_BYTES

LIST_RUNS_HINT: Final = "`skillrun runs` lists the runs"
REPORT: Final = "report.html"
"""Where people have the run told, if they want that."""


class StateFile:
    """`state.md`, where a run stands."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._last = ""  # as it was last written

    def write(self, state: State, log: Iterable[str]) -> None:
        text = format_state(state, log)
        if text != self._last:
            self._files.write(STATE, text)
            self._last = text

    def read(self) -> tuple[State, list[str]]:
        """Raises SkillrunError when there is no state, or one of another version."""
        if not self._files.has(STATE):
            raise SkillrunError(f"{self._files.path} is no run: it has no {STATE}", LIST_RUNS_HINT)
        return parse_state(self._files.path / STATE, self._files.read(STATE, MAX_BYTES))


class RunData:
    """The files of one run, and what its journal says of them; without a journal they can be looked at."""

    def __init__(self, files: Files, journal: Journal | None = None) -> None:
        self.files, self.refusals = files, Refusals()
        self.artifacts = Artifacts(files, journal, self.refusals)
        self.summaries = Summaries(SummaryFiles(files, journal, self.refusals))
        self.state = StateFile(files)

    def inline(self, address: str) -> InlineRunData:
        """What the workflow keeps that the step at `address` runs: in the same ledger, with summaries of its own."""
        return InlineRunData(self, InlineSummaries(self.summaries.texts, address))

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.files.path.name

    def location(self, name: str = "") -> str:
        """Where people find the run, or a file of it."""
        return str(self.files.path / name)

    def command_argument(self, project: Path) -> str:
        """What a command takes for this run when it is typed in the project."""
        return format_run_argument(self.files.path, project)

    def matching(self, pattern: str) -> list[str]:
        """The names of the files that a pattern matches, sorted: those of this evaluation and those of other people.

        Not the engine's own or another run's, and nothing that an earlier evaluation wrote and this one may or may not
        write again; the report that a person has made only where it is named. As in a shell, a wildcard stands for no
        dot that a name begins with: `._a.md` is an editor's or a system's own.
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
            if not self._is_in_nested_run(name) and (name != REPORT or name in current or pattern == REPORT)
        ]

    def content(self, name: str) -> bytes:
        """The bytes of a file that `matching` has found."""
        content = read_content(self.files, name)
        if content is None:
            raise SkillrunError(f"there is no file `{name}` in {self.files.path} any more")
        return content

    def edited_files(self) -> list[str]:
        """The artifacts, and the summaries of all rounds, whose present text the run has never written."""
        return [*self.artifacts.list_edited(), *self.summaries.list_edited()]

    def missing_artifacts(self) -> list[str]:
        """The artifacts that this round's summaries name and that are not there any more."""
        summaries = filter(None, map(self.summaries.find_readable, self.summaries.phases()))
        names = dict.fromkeys(name for summary in summaries for name in summary.artifacts)
        return list(filter(self._is_missing, names))

    def prune(self) -> None:
        """Remove the artifacts that an earlier evaluation wrote and this one did not, unless a person changed them."""
        self.artifacts.prune(self._current_artifacts())

    def end_round(self, number: int, phases: Iterable[str], retained: Iterable[str]) -> list[str]:
        """Move the summaries and artifacts of `phases` to `round-<number>/`; doing it again does nothing more.

        An artifact is copied that one of the phases `staying` has written too, because they are not evaluated again, or
        that a person has changed and keeps. Given are those that a person has changed and that were moved all the same.
        """
        retained_artifacts = {
            name for summary in self.summaries.completed_summaries(retained).values() for name in summary.artifacts
        }
        edited = set(self.artifacts.list_edited())
        for phase, summary in self.summaries.completed_summaries(phases).items():
            for name in summary.artifacts:
                self.artifacts.move(name, f"round-{number}/{name}", copy=name in retained_artifacts)
            self.summaries.end_round(phase, number)
        return sorted(name for name in edited if not self.artifacts.has(name))

    def reset(self) -> None:
        """Forget summaries and rounds, so that everything is evaluated from the start; artifacts stay, and so does what
        a person has changed in a round: it becomes the artifact again, or stands beside one that was changed too."""
        rounds = past_round_folders(self.files)
        for past in sorted(rounds, key=lambda name: -int(name.rpartition("-")[2])):
            for folder in [name for name in walk_folders(self.files) if name == past or name.startswith(f"{past}/")]:
                for leaf, _ in self.files.entries(folder):
                    self.artifacts.restore_from_round(f"{folder}/{leaf}", past)
        for name in (SUMMARIES, *rounds):
            self.summaries.texts.remove(name)

    def _current_artifacts(self) -> set[str]:
        """The artifacts that this evaluation has written: so far, and in the phases that are over."""
        return self.artifacts.put_now | self.summaries.artifacts()

    def _is_in_nested_run(self, name: str) -> bool:
        """Whether a file is that of a run that lies inside this one."""
        above = [name[:at] for at, sign in enumerate(name) if sign == "/"]
        return any(self.files.is_folder(f"{folder}/.run") for folder in above)

    def _is_missing(self, name: str) -> bool:
        try:
            return not self.files.has(name)
        except (PathRefused, IsADirectoryError):  # something else stands there
            return False


class InlineRunData(RunData):
    """What a workflow keeps that runs inside a phase: its artifacts stay to be written again, whatever its round."""

    def __init__(self, outer: RunData, summaries: InlineSummaries) -> None:
        self.files, self.refusals, self.artifacts, self.state = (
            outer.files,
            outer.refusals,
            outer.artifacts,
            outer.state,
        )
        self.summaries = self._inline = summaries

    def end_round(self, number: int, phases: Iterable[str], retained: Iterable[str]) -> list[str]:  # noqa: ARG002
        """Remember the summaries of `phases` as those of a round that is over."""
        self._inline.archive_round(number, phases)
        return []


def format_run_argument(folder: Path, project: Path) -> str:
    """What a command takes for a run when it is typed in the project: its name, or the path of its folder."""
    return folder.name if folder.parent == project.resolve() / "runs" else quote(str(folder))
