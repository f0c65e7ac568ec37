"""A session of `skillrun dev`: handles saves, answers and signals one at a time and starts evaluations.

`watch_loop` runs the evaluations, `in_flight_calls` keeps their calls.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli.formatting import count_noun, format_pairs
from skillrun.cli.loading import LoadedWorkflow, load
from skillrun.cli.output import Output
from skillrun.cli.preview import estimate_run
from skillrun.cli.run_request import RunRequest
from skillrun.events import Asked, Event, RunStarted, Said
from skillrun.library.library import Library
from skillrun.questions.responder import InteractiveResponder, open_responder
from skillrun.runtime.run import Rerun, Session
from skillrun.runtime.session import ending_signals
from skillrun.store.files import LeaseLost
from skillrun.store.inbox import AnswerInbox, PendingQuestions
from skillrun.store.outcome import HANGUP
from skillrun.store.run_history import read_history
from skillrun.syntax.diagnostics import SkillrunError, make_printable
from skillrun.watch.cost_preview import CostPreview, CostThreshold, preview_cost
from skillrun.watch.file_watcher import SETTLE_SECONDS, ChangedFiles, FileStamps, read_file_stamps
from skillrun.watch.watch_loop import (
    Evaluation,
    WatchLoop,
    change_lines,
    evaluation_data,
    event_line,
    summary_lines,
)

KEEPS_LAST_VALID: Final = "still using the last valid version; fix the file and save it"
POLL_INTERVAL: Final = 0.5  # seconds
INTERRUPTED: Final = 130
ERASE: Final = "\r\x1b[2K"
DIM, RESET = "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True)
class DevOptions:
    """Options of `dev`: phases to rerun at the start, phases that may run, and the confirmation limit."""

    rerun: Collection[str] = ()
    allowed_phases: frozenset[str] = frozenset()
    threshold: CostThreshold = field(default_factory=CostThreshold)


def load_unless_errors(
    name: str, library: Library, out: Output, consequence: str, *, trusted: bool = False
) -> LoadedWorkflow | None:
    """Return the checked workflow. If it has errors, print them with their `consequence` and return None."""
    try:
        return load(name, out, library, consequence, trusted=trusted)
    except click.exceptions.Exit:
        return None
    except SkillrunError as error:  # the workflow's file is missing, possibly while an editor saves it
        out.note(f"error: {error.message}")
        out.note(consequence)
        return None


class DevSession:
    """A session that prints lines and reads no keys.

    Handlers run in the order of their events, one at a time.
    """

    can_confirm = False

    def __init__(
        self,
        request: RunRequest,
        dev_options: DevOptions,
        watch_loop: WatchLoop,
        changes: ChangedFiles,
    ) -> None:
        self.job, self.wishes, self.cycle, self.changes = request, dev_options, watch_loop, changes
        self.folder, self.calls = watch_loop.folder, watch_loop.calls
        self.inbox = AnswerInbox(self.folder.data().files)
        self.loaded = request.loaded
        self.out = StatusBar(request.json)
        self.calls.on_reuse = lambda address: self.out.line(f"kept: {address}, still in progress")
        self.calls.on_cancel = lambda address: self.out.line(f"cancelled: {address}, obsolete")
        self.rerun = Rerun(dev_options.rerun, reads=True)
        self.code: int | None = None
        self.last: Evaluation | None = None
        self.changed: Evaluation | None = None
        """The last evaluation that changed an artifact or reply."""
        self.asks_yes: CostPreview | None = None
        self.waiting: list[PendingQuestions] = []
        self.is_lent = False
        self.events: list[dict[str, Any]] = []
        self._models: dict[str, str] = {}
        """Maps each model name to the model that it last stood for in this session."""
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self.began = time.monotonic()
        self._stamps: FileStamps = {}
        self._moving: FileStamps | None = None
        self._left: set[str] = set()  # addresses of waiting questions whose answers were already found
        self._busy: set[asyncio.Task[None]] = set()

    # lifetime of the session

    def session_context(self) -> AbstractContextManager[object]:
        """Set up the terminal for the session and restore it afterwards."""
        return nullcontext()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()

        def on_signal(number: int) -> None:
            if not (self.is_lent and number == signal.SIGINT):  # Ctrl-C is for the program that has the terminal
                self.schedule(partial(self.stop, HANGUP if number == signal.SIGHUP else INTERRUPTED))

        for number in ending_signals():
            loop.add_signal_handler(number, on_signal, number)

        async def watch_files() -> None:
            while True:
                self.schedule(partial(self._on_save, await self.changes.wait_for_changes()))

        async def poll_folder() -> None:
            while True:
                await asyncio.sleep(POLL_INTERVAL)
                self.schedule(self.check_run_folder)

        self.run_in_background(watch_files())
        self.run_in_background(poll_folder())
        await self.start_evaluation()
        while self.code is None:
            work = await self._work.get()
            try:
                await work()
            except LeaseLost:
                raise
            except SkillrunError as error:  # for example invalid prepared answers, while the user edits them
                self.out.note(f"error: {error.message}")
                self.out.note(KEEPS_LAST_VALID)
                self.print_watching()
        return self.code

    async def close(self) -> None:
        for number in ending_signals():
            asyncio.get_running_loop().remove_signal_handler(number)
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        await self.cycle.cancel()
        if under_way := len(self.calls.in_flight):
            self.out.line(f"cancelled: {count_noun(under_way, 'call')} in progress")
        await self.calls.close()

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in parallel with the handlers."""

        def on_done(task: asyncio.Task[None]) -> None:
            self._busy.discard(task)
            if not task.cancelled() and task.exception() is not None:
                self.schedule(lambda: task)  # raises the exception in the session

        task = asyncio.get_running_loop().create_task(work)
        self._busy.add(task)
        task.add_done_callback(on_done)

    def schedule(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work.put_nowait(work)

    async def stop(self, code: int) -> None:
        self.code = code

    # evaluations

    def build_session(self) -> Session:
        job = self.job
        session = self.loaded.build_session(
            self.calls,
            self._open_responder(),
            model=job.model,
            budget=job.budget,
            given_inputs=job.given_inputs,
            only_phases=self.wishes.allowed_phases,
            rerun=self.rerun,
            share=job.share,
            command_flags=job.script.command_flags if job.script is not None else {},
        )
        session.services.on_replayed = self.calls.on_replayed
        session.services.estimate = lambda state, given: estimate_run(
            self.loaded, state.inputs, state.override, given, job.answer_options.load_prepared_answers
        )
        return session

    def _open_responder(self) -> InteractiveResponder:
        """Return a responder without a terminal: the user answers with a key or from another terminal."""
        presence = self.job.answer_options
        return open_responder(unattended=presence.unattended, answers=presence.answers, terminal=False)

    async def start_evaluation(self) -> None:
        """Start an evaluation; it replaces the current evaluation, if any."""
        is_first = not self.folder.has_state
        earlier_messages = {(event["phase"], event["text"]) for event in self.events if event["event"] == "Said"}
        self.asks_yes = None
        self.events.clear()

        def on_event(event: Event) -> None:
            record = event.to_dict()
            self.events.append(record)
            if isinstance(event, Asked) and self.inbox.has(event.address, event.fingerprint):
                return  # it is already answered
            if isinstance(event, Said) and (event.phase, event.text) in earlier_messages:
                return
            if isinstance(event, RunStarted):
                has_changed = any(self._models.get(name, model) != model for name, model in event.models.items())
                if not is_first and (has_changed or not self._models):  # after a save that has changed a model
                    self.out.line(f"models: {format_pairs(event.models)}")
                self._models |= event.models
            number = self.cycle.evaluation.phase_rounds.get(str(record.get("phase")), 1)
            if line := event_line(event, is_first=is_first, round_number=number):
                self.out.text(line)

        session = self.build_session()
        session.services.listeners = [*session.services.listeners, on_event]
        self.began = time.monotonic()
        running = await self.cycle.begin(session, self.job.inputs)
        running.add_done_callback(lambda task: self.schedule(partial(self._on_evaluation_end, task)))
        self.run_in_background(self._await_first_call(running, is_first))

    async def _await_first_call(self, running: asyncio.Task[Evaluation], is_first: bool) -> None:
        first_call = asyncio.create_task(self.calls.gate.call_waiting.wait())
        try:
            await asyncio.wait([first_call, running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            first_call.cancel()
        if not running.done():
            self.schedule(partial(self._request_confirmation, running, is_first))

    async def _request_confirmation(self, running: asyncio.Task[Evaluation], is_first: bool) -> None:
        """Print the calls of the evaluation and their price, then allow them or wait for confirmation."""
        if running is not self.cycle.current_task:
            return
        session = self.build_session()
        try:
            rules = self.job.script.rules if self.job.script is not None else None
            preview = await preview_cost(
                session, self.folder, self.job.inputs, self._open_responder(), self.calls.in_flight, rules
            )
        except SkillrunError:  # the evaluation itself reports the error
            self.calls.gate.open()
            return
        await self.calls.cancel_obsolete(preview.pending_calls)
        if preview.addresses:
            self.out.line(f"makes {preview}")
        is_implied = is_first and not self.can_confirm  # the command itself is the confirmation
        if is_implied or not self.wishes.threshold.is_exceeded_by(preview):
            self.calls.gate.open()
            return
        self.asks_yes = preview
        message = f"this exceeds `{self.wishes.threshold}`"
        if self.can_confirm:
            self.out.line(f"{message}: press y to confirm, or save a file to start over")
        else:
            self.out.line(f"{message} and cannot be confirmed without a terminal; restart with a higher limit")
            self.out.line("watching for changes, Ctrl-C quits")

    async def _on_evaluation_end(self, task: asyncio.Task[Evaluation]) -> None:
        if task is not self.cycle.current_task:
            return
        self.cycle.current_task = None
        self.asks_yes = None
        self.rerun = Rerun(reads=True)
        seconds = time.monotonic() - self.began
        if task.cancelled():
            self.code = INTERRUPTED
            return
        error = task.exception()
        if error is not None and not isinstance(error, SkillrunError):
            raise error
        if error is not None:
            self.out.note(f"error: {error.message}")
        else:
            self.last = evaluation = task.result()
            if (evaluation.differences or evaluation.changed_replies) and not evaluation.is_first:
                self.changed = evaluation
                for line in change_lines(evaluation, full=False):
                    self.out.line(line)
            for line in summary_lines(evaluation, seconds):
                self.out.line(line)
            self.out.data(evaluation_data(evaluation))
        self.folder.check_lease()  # ends the session if the lease is lost
        self.waiting = read_history(self.events).waiting
        self._stamps = read_file_stamps(self.folder.path)
        self._moving = None
        self.print_watching()

    def print_watching(self) -> None:
        self.out.line("watching for changes, Ctrl-C quits")

    # events

    async def _on_save(self, paths: set[Path]) -> None:
        started = time.monotonic()
        old_library = self.loaded.program.library
        library = Library(old_library.roots, old_library)  # unchanged files are not read again
        with self.out.hold_lines() as lines:
            name, trusted = self.loaded.program.workflow.name, self.job.trust_project
            loaded = load_unless_errors(name, library, self.out, KEEPS_LAST_VALID, trusted=trusted)
            held_lines = [*lines]
            lines.clear()
        if loaded is None and await self.changes.wait_for_more(SETTLE_SECONDS):  # the editor has not finished writing
            self.changes.put(paths)
            return
        self.out.lines(["", f"saved: {', '.join(sorted(path.name for path in paths))}"])
        self.out.write_lines(held_lines)
        self.out.line(f"checked in {(time.monotonic() - started) * 1000:.0f} ms")
        self.folder.check_lease()
        if loaded is None:
            if self.cycle.current_task is None:
                self.print_watching()
            return
        if loaded.catalogue != self.loaded.catalogue and self.job.script is None:
            await self.cycle.cancel()
            await self.calls.change_gateway(loaded.open_gateway(None, self.out.note))
        self.loaded = loaded
        await self.start_evaluation()

    async def check_run_folder(self) -> None:
        """Start an evaluation if an answer arrived, a form was filled in, or files were added."""
        if self.cycle.current_task is not None:
            self.waiting = read_history(self.events).waiting
        answered = {each.address for each in self.waiting if self.inbox.has(each.address, each.fingerprint)}
        new, self._left = answered - self._left, answered
        if new:
            self.out.lines(["", "answered"])
            await self.start_evaluation()
            return
        if self.cycle.current_task is None and self.last is not None and self.last.outcome.status == "waiting":
            current_stamps = read_file_stamps(self.folder.path)
            if current_stamps != self._stamps and current_stamps == self._moving:
                names = sorted(
                    name
                    for name in current_stamps.keys() | self._stamps
                    if current_stamps.get(name) != self._stamps.get(name)
                )
                self.out.lines(["", f"changed in the run's folder: {', '.join(names)}"])
                await self.start_evaluation()
                return
            self._moving = current_stamps
        self.out.draw()


@dataclass(frozen=True)
class StatusBar(Output):
    """An `Output` with a status bar. The bar shows the first of `status_texts()` that fits.

    Lines can be held back while another program has the terminal, or until it is clear whether they are needed.
    """

    status_texts: Callable[[], Sequence[str]] = tuple
    can_redraw: bool = False
    _held_lines: list[list[tuple[bool, str]]] = field(default_factory=list)  # (is_note, text)

    def line(self, text: str = "", *, needs_reader: bool = True) -> None:  # noqa: ARG002 (without a reader, dev ends)
        self.write_lines([(False, text)])

    def note(self, text: str) -> None:
        self.write_lines([(True, text)])

    def write_lines(self, lines: Iterable[tuple[bool, str]]) -> None:
        """Print lines above the status bar, or hold them back."""
        if self._held_lines:
            self._held_lines[-1].extend(lines)
            return
        for is_note, text in lines:
            self.erase()
            if is_note:
                super().note(text)
            else:
                super().line(text, needs_reader=True)
            self.draw()

    def draw(self) -> None:
        """Redraw the status bar with its current text."""
        if self.can_redraw and not self._held_lines:
            sys.stdout.write(ERASE + self._render())
            sys.stdout.flush()

    def erase(self) -> None:
        if self.can_redraw:
            sys.stdout.write(ERASE)
            sys.stdout.flush()

    @contextmanager
    def hold_lines(self) -> Iterator[list[tuple[bool, str]]]:
        """Hold lines back in the yielded list during the block. Then print the lines that are still in the list."""
        lines: list[tuple[bool, str]] = []
        self._held_lines.append(lines)
        try:
            yield lines
        finally:
            self._held_lines.pop()
            self.write_lines(lines)

    @contextmanager
    def release_terminal(self) -> Iterator[None]:
        """Leave the terminal to another program during the block."""
        self.erase()
        with self.hold_lines():
            yield
        self.draw()

    def _render(self) -> str:
        from rich.cells import cell_len, set_cell_size

        room = shutil.get_terminal_size().columns - 1
        texts = [" ".join(make_printable(text).split("\n")) for text in self.status_texts()]
        text = next((text for text in texts if cell_len(text) <= room), texts[-1] if texts else "")
        if cell_len(text) > room:
            text = set_cell_size(text, max(0, room - 1)).rstrip() + "…"
        return f"{DIM}{text}{RESET}" if text and not os.environ.get("NO_COLOR") else text
