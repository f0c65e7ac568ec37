"""A run in a local folder: the operations that are needed to start, resume and view it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from skillrun.checker.program import Program
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.store.artifacts import SUMMARIES, check_artifact_name
from skillrun.store.event_lines import Record
from skillrun.store.files import LARGEST, Files, walk_folders
from skillrun.store.frontmatter import from_frontmatter, to_frontmatter
from skillrun.store.journal import RESTORE_HINT, Journal
from skillrun.store.journal_bodies import body_fits
from skillrun.store.local.journal import SqliteJournal, read_journal
from skillrun.store.local.local_files import LocalFiles, apply_shared_modes, open_tree, write_atomic
from skillrun.store.local.lock import ENGINE_FOLDER, LocalLease
from skillrun.store.local.transcript import LocalTranscript, read_events, read_lines
from skillrun.store.local.verification import JOURNAL, WITNESS, JournalShortened, check_journal_files
from skillrun.store.memory import MemoryJournal
from skillrun.store.outcome import file_error
from skillrun.store.run_data import format_run_argument
from skillrun.store.state import MAX_ROUNDS, SCHEMA_VERSION, STATE, State
from skillrun.store.stored_run import StoredRun
from skillrun.store.summaries import ROUND
from skillrun.syntax.diagnostics import SkillrunError, allowed_hint
from skillrun.syntax.source import MAX_BYTES
from skillrun.types.fields import resolve_inputs
from skillrun.types.records import is_whole
from skillrun.types.schemas import quote_value

BACKUP: Final = "state.v1.md"
MAX_COPY_BYTES: Final = 500_000_000  # bytes
NOT_STARTED_HINT: Final = "nothing was started; fix this and repeat the command"


class LocalRun(StoredRun):
    """A run in a folder."""

    def __init__(self, folder: ConfinedFolder | Path) -> None:
        self._tree = open_tree(folder)
        self.path = self.folder = self._tree.path
        self.lease = LocalLease(self._tree)

    def __exit__(self, *_: object) -> None:
        self._tree.close()

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def location(self) -> str:
        return str(self.path)

    def command_argument(self, project: Path) -> str:
        return format_run_argument(self.path, project)

    @property
    def has_journal(self) -> bool:
        return check_journal_files(self._tree)

    def check(self) -> None:
        """Raises PathRefused if one of the run's own files is a link or not a regular file."""
        for name, kind in self._tree.entries():
            if name in (".run", SUMMARIES) or ROUND.fullmatch(name):
                if kind != "folder":
                    raise PathRefused(
                        f"`{name}` in {self.path} is not a folder", "remove it; skillrun creates a folder there"
                    )
            elif name == STATE:
                self._tree.stat_file(name)
        if self._tree.is_folder(".run"):
            for name, kind in self._tree.entries(".run"):
                if kind != "folder":
                    self._tree.stat_file(f".run/{name}")

    def check_lease(self) -> None:
        self._tree.check()

    def check_engine_files(self) -> None:
        """Raises JournalShortened if the engine's folder was removed.

        Without this check, taking the lock would create a new folder, and the user could no longer restore the old one.
        """
        if self._tree.identity(ENGINE_FOLDER) is None:
            raise JournalShortened(f"{self.path / ENGINE_FOLDER} is missing, including its journal", RESTORE_HINT)

    def open_journal(self, *, create: bool = False) -> Journal:
        is_missing = all(self._tree.stat_file(name) is None for name in (JOURNAL, WITNESS))
        open_or_create = SqliteJournal.create if create and is_missing else SqliteJournal.open
        return open_or_create(self._tree, body_fits)

    def read_journal(self, *, while_held: bool = False) -> MemoryJournal:
        return read_journal(self._tree, body_fits, while_held=while_held)

    def files(self, *, shared: bool = False) -> LocalFiles:
        return LocalFiles(self._tree, shared=shared)

    def status(self, state: State) -> str:
        return "interrupted" if state.status == "running" and not self.lease.is_held() else state.status

    def copy_files(self, target: Files) -> list[str]:
        remaining, left_out = MAX_COPY_BYTES, list[str]()
        for folder in walk_folders(self._tree):
            if folder == ".run" or folder.startswith(".run/"):
                continue
            for name, kind in self._tree.entries(folder):
                path = name if folder == "." else f"{folder}/{name}"
                if kind != "file" or not self._tree.is_file(path):
                    continue
                try:
                    check_artifact_name(path)
                except PathRefused:
                    left_out.append(path)
                    continue
                content = self._tree.read(path, min(remaining, LARGEST))
                remaining -= len(content)
                if remaining < 0 or len(content) > LARGEST:
                    message = f"the files in {self._tree.path} are too large to copy"
                    raise SkillrunError(message, f"move {path} away")
                target.write(path, content)
        return left_out

    def open_transcript(self) -> LocalTranscript:
        return LocalTranscript(self._tree)

    def transcript_lines(self) -> Iterator[str]:
        return (line.decode() for line in read_lines(self._tree))

    def events(self, *, follow: bool = False) -> Iterator[Record]:
        return read_events(self._tree, follow=follow)

    # starting and resuming

    def v1_state(self) -> Mapping[str, Any] | None:
        """Return the state of a run that has schema version 1; None for any other run."""
        content = self._tree.read(STATE, MAX_BYTES) if self.has_state else b""
        data = from_frontmatter(self.path / STATE, content)[0] if content else {}
        return data if data.get("schema_version") == 1 else None

    def migrate_v1_run(self, old: Mapping[str, Any], program: Program, now: str) -> list[str]:
        """Hold this run and migrate it from schema version 1. Return lines that describe the changes.

        If the workflow lacks the phase or an input is missing, raise SkillrunError and change nothing.
        """
        workflow = program.workflow
        phase = _phase(old, program)
        inputs, state = _declared_values(old, "inputs", workflow.inputs), _declared_values(old, "state", workflow.state)
        names: dict[str, Any] = {"config": program.config}
        errors = [*resolve_inputs(workflow.inputs, inputs, names)[1]]
        errors += resolve_inputs(workflow.state, state, {**names, "inputs": inputs})[1] if not errors else []
        if errors:
            raise SkillrunError(f"{self.path / STATE}: {'; '.join(errors)}", "fix it in the frontmatter")
        number = old.get("current_round") or old.get("round") or 1
        if not is_whole(number) or not 1 <= number <= MAX_ROUNDS:
            hint = f"use a round from 1 to {MAX_ROUNDS:,}"
            raise SkillrunError(f"the old state is in round {quote_value(number)}", hint)
        is_over = (
            str(old.get("phase_status", old.get("status", ""))) in ("completed", "done")
            and phase == list(workflow.phases)[-1]
        )
        data = {
            "schema_version": SCHEMA_VERSION,
            "workflow": workflow.name,
            "started_at": str(old.get("started_at") or old.get("created_at") or now),
            "inputs": inputs,
            "state": state,
            "status": "completed" if is_over else "waiting" if old.get("waiting_for_user") else "interrupted",
            "phase": [phase],
            "round": int(number),
            "project": str(old.get("project") or ""),
        }
        with self.lease.hold():
            if self._tree.stat_file(BACKUP) is None:
                write_atomic(self._tree, BACKUP, self._tree.read(STATE, MAX_BYTES))
            if self._tree.stat_file(JOURNAL) is None:
                SqliteJournal.create(self._tree).close()
            write_atomic(self._tree, STATE, to_frontmatter(data, f"# Log\n\n- {now} migrated from schema version 1\n"))
        return [
            f"{STATE} was migrated from schema version 1 to {SCHEMA_VERSION}; the old file is {BACKUP}",
            f"the run is in the phase {phase}",
        ]

    def apply_permissions(self, *, shared: bool) -> None:
        """Make the folder private to its owner or, with `shared`, readable for all users."""
        with suppress(PermissionError):  # network file systems without modes
            if shared:  # the folder may have been private
                apply_shared_modes(self._tree)
            else:
                self._tree.make_private()

    @contextmanager
    def rollback_on_failure(self) -> Iterator[None]:
        is_new = self._tree.stat_file(JOURNAL) is None and self._tree.stat_file(WITNESS) is None
        try:
            yield
        except BaseException as error:
            if not is_new or self.has_state:
                raise
            with suppress(OSError, SkillrunError):
                self._tree.remove(".run")
                self._tree.path.rmdir()
            if isinstance(error, OSError) or type(error) is SkillrunError:
                message = file_error(error).message if isinstance(error, OSError) else error.message
                raise SkillrunError(message, NOT_STARTED_HINT) from error
            raise


def _phase(old: Mapping[str, Any], program: Program) -> str:
    """Return the current name of the phase that the state `old` is in."""
    phases = program.workflow.phases
    current = old.get("current_phase", old.get("current_stage"))
    names = {name: {name, *use.was} for name, use in phases.items()}
    if current is None:
        return next(iter(phases))
    for name, known in names.items():
        if str(current).casefold() in {old_name.casefold() for old_name in known}:
            return name
    every = sorted(old_name for known in names.values() for old_name in known)
    raise SkillrunError(f"the old state is in `{current}`, which is not the name of a phase", allowed_hint(every))


def _declared_values(old: Mapping[str, Any], part: str, fields: Any) -> dict[str, Any]:
    """Return the old values of the declared `fields`. Version 1 stored them under `part` or at the top level."""
    nested = old.get(part)
    given = {**old, **(nested if isinstance(nested, Mapping) else {})}
    return {field.name: given[field.name] for field in fields if given.get(field.name) is not None}
