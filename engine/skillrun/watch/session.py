"""A session of `skillrun dev`: what saves, keys and answers bring about, one after the other.

Owns what happens next; a turn's life is that of `dev.cycle`, its calls are `dev.kept_calls`'.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli.formatting import counted
from skillrun.cli.loading import Loaded, load
from skillrun.cli.output import Output
from skillrun.cli.run_request import Job
from skillrun.events import Asked, Event, Said
from skillrun.library.library import Library
from skillrun.questions.responder import Person, open_person
from skillrun.runtime.rerun import Rerun
from skillrun.runtime.run import Session
from skillrun.store.inbox import Inbox, WaitingQuestions, waiting_questions
from skillrun.store.local.local_run import RunFolder
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.watch.cost_preview import AskAbove, Foretold, foretold
from skillrun.watch.evaluation_report import change_lines, event_line, sum_lines, turn_data
from skillrun.watch.file_watcher import SETTLE, Changes, Stamps, stamps, watch_files
from skillrun.watch.in_flight_calls import KeptCalls
from skillrun.watch.status_bar import FootedOutput
from skillrun.watch.watch_loop import Cycle, Turn

BROKEN: Final = "still using the last valid version; fix the file and save it"
TICK: Final = 0.5  # seconds
INTERRUPTED: Final = 130
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Wishes:
    """What was typed for `dev` alone: what to ask again at first, which phases may begin, what needs a yes."""

    rerun: Collection[str] = ()
    only: frozenset[str] = frozenset()
    ask_above: AskAbove = field(default_factory=AskAbove)


async def watch_run(
    job: Job,
    wishes: Wishes,
    estimate: Mapping[str, Any] | None,
    folder: RunFolder,
    kind: Callable[[Job, Wishes, Mapping[str, Any] | None, Cycle, Changes], DevSession],
) -> int:
    """Run the workflow, and again on every save, until somebody ends it; the exit code.

    Raises SkillrunError where the run is another process's, or lost.
    """
    changes = Changes(asyncio.get_running_loop())
    roots = [root.path for root in job.loaded.program.library.roots]
    with ExitStack() as opened:
        opened.enter_context(folder.lease.hold())
        opened.enter_context(watch_files(roots, changes))
        journal = folder.new_journal()
        opened.callback(journal.close)
        calls = KeptCalls(job.loaded.gateway(job.script, Output(job.json).note), journal)
        session = kind(job, wishes, estimate, Cycle(folder, journal, calls), changes)
        opened.enter_context(session.around())
        try:
            return await session.live()
        finally:
            await session.close()


class DevSession:
    """A session that nobody sits at, in lines.

    Handlers are called in the order in which things happen, and none before the one before it has ended.
    """

    can_say_yes = False

    def __init__(
        self, job: Job, wishes: Wishes, estimate: Mapping[str, Any] | None, cycle: Cycle, changes: Changes
    ) -> None:
        self.job, self.wishes, self.cycle, self.changes = job, wishes, cycle, changes
        self.folder, self.calls = cycle.folder, cycle.calls
        self.inbox = Inbox(self.folder.store().files)
        self.loaded, self.estimate = job.loaded, estimate
        self.out = FootedOutput(job.json)
        self.calls.tell_kept = lambda address: self.out.line(f"kept: {address}, which is under way")
        self.calls.tell_ended = lambda address: self.out.line(f"ended: {address}, which is obsolete")
        self.rerun = Rerun(wishes.rerun)
        self.code: int | None = None
        self.last: Turn | None = None
        self.changed: Turn | None = None
        """The last turn that has changed something."""
        self.asks_yes: Foretold | None = None
        self.waiting: list[WaitingQuestions] = []
        self.is_lent = False
        self.events: list[dict[str, Any]] = []
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self.began = time.monotonic()
        self._stamps: Stamps = {}
        self._moving: Stamps | None = None
        self._left: set[str] = set()  # the questions of which it is known that answers were left
        self._busy: set[asyncio.Task[None]] = set()

    # what runs as long as the session does

    def around(self) -> AbstractContextManager[object]:
        """What is set up for the session, and put back behind it, whatever ends it."""
        return nullcontext()

    async def live(self) -> int:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        self.beside(self._take())
        self.beside(self._tick())
        await self.begin()
        while self.code is None:
            work = await self._work.get()
            await work()
        return self.code

    async def close(self) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        await self.cycle.break_off()
        if under_way := len(self.calls.under_way):
            self.out.line(f"not waited for: {counted(under_way, 'call')} under way")
        await self.calls.close()

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something go on beside the handlers."""
        task = asyncio.get_running_loop().create_task(work)
        self._busy.add(task)
        task.add_done_callback(self._is_over)

    def _is_over(self, task: asyncio.Task[None]) -> None:
        self._busy.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.later(partial(_raise, error))

    def later(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work.put_nowait(work)

    def _signalled(self, number: int) -> None:
        if not (self.is_lent and number == signal.SIGINT):  # it is meant for the program that has the terminal
            self.later(partial(self.end, INTERRUPTED))

    async def end(self, code: int) -> None:
        self.code = code

    async def _take(self) -> None:
        while True:
            paths = await self.changes.take()
            self.later(partial(self._saved, paths))

    async def _tick(self) -> None:
        """Time that passes is shown; what was left for the run in its folder is looked for."""
        while True:
            await asyncio.sleep(TICK)
            self.later(self.look)

    # turns

    def turn_session(self) -> Session:
        job = self.job
        return replace(
            self.loaded.session(self.calls, self._person()),
            override=job.model,
            budget=job.budget,
            keeps_reads=False,
            typed=job.typed,
            rerun=self.rerun,
            only=self.wishes.only,
            share=job.share,
            estimate=self.estimate,
            replayed=self.calls.replayed,
        )

    def _person(self) -> Person:
        """Nobody is asked during a turn: what waits is answered by a key, or from another terminal."""
        presence = self.job.presence
        return open_person(unattended=presence.unattended, answers=presence.answers, terminal=False)

    async def begin(self) -> None:
        """Begin a turn, in place of the one that goes on."""
        is_first = not self.folder.has_state
        said_before = {(event["phase"], event["text"]) for event in self.events if event["event"] == "Said"}
        self.asks_yes = None
        self.events.clear()

        def heard(event: Event) -> None:
            record = event.to_dict()
            self.events.append(record)
            if isinstance(event, Asked) and self.inbox.has(event.address, event.fingerprint):
                return  # it was answered, and is taken now
            if isinstance(event, Said) and (event.phase, event.text) in said_before:
                return
            number = self.cycle.heard.rounds.get(str(record.get("phase")), 1)
            if line := event_line(event, is_first=is_first, number=number):
                self.out.line(line)

        session = self.turn_session()
        session.listeners = [*session.listeners, heard]
        self.began = time.monotonic()
        running = await self.cycle.begin(session, self.job.inputs)
        running.add_done_callback(lambda task: self.later(partial(self._ended, task)))
        self.beside(self._knock(running, is_first))

    async def _knock(self, running: asyncio.Task[Turn], is_first: bool) -> None:
        knocked = asyncio.create_task(self.calls.gate.knocked.wait())
        try:
            await asyncio.wait([knocked, running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            knocked.cancel()
        if not running.done():
            self.later(partial(self._knocked, running, is_first))

    async def _knocked(self, running: asyncio.Task[Turn], is_first: bool) -> None:
        """A call wants to go out: say what the turn asks and costs, and let it, or wait for a yes."""
        if running is not self.cycle.running:
            return
        session = self.turn_session()
        try:
            rules = self.job.script.rules if self.job.script is not None else None
            ahead = await foretold(session, self.folder, self.job.inputs, self._person(), self.calls.under_way, rules)
        except SkillrunError:  # the turn says it itself
            self.calls.gate.open()
            return
        await self.calls.keep_only(ahead.wanted)
        if ahead.addresses:
            self.out.line(f"asks {ahead}")
        typed = is_first and not self.can_say_yes  # whoever has typed it wants it
        if typed or not self.wishes.ask_above.is_passed(ahead):
            self.calls.gate.open()
            return
        self.asks_yes = ahead
        above = f"that is above `{self.wishes.ask_above}`"
        if self.can_say_yes:
            self.out.line(f"{above}: y asks it; another save asks what is then to be asked")
        else:
            self.out.line(f"{above}, and nobody is here to say yes: nothing is asked; begin again with a higher one")
            self.out.line("watching; Ctrl-C ends")

    async def _ended(self, task: asyncio.Task[Turn]) -> None:
        if task is not self.cycle.running:
            return
        self.cycle.running = None
        self.asks_yes = None
        self.rerun = Rerun()
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
            self._tell(task.result(), seconds)
        self.folder.check_here()  # a run that is lost is not watched any longer
        self.waiting = waiting_questions(self.events)
        self._stamps = stamps(self.folder.path)
        self._moving = None
        self.say_watching()

    def _tell(self, turn: Turn, seconds: float) -> None:
        self.last = turn
        if turn.has_changed and not turn.is_first:
            self.changed = turn
            for line in change_lines(turn, full=False):
                self.out.line(line)
        for line in sum_lines(turn, seconds):
            self.out.line(line)
        self.out.data(turn_data(turn))

    def say_watching(self) -> None:
        self.out.line("watching; Ctrl-C ends")

    # what happens

    async def _saved(self, paths: set[Path]) -> None:
        """Check what was saved; a good version begins a turn."""
        started = time.monotonic()
        before = self.loaded.program.library
        library = Library(before.roots, before)  # what was not saved is not read again
        with self.out.held() as lines:
            loaded = self._checked(library)
            told = [*lines]
            lines.clear()
        if loaded is None and await self.changes.more(SETTLE):  # the editor is not done yet
            self.changes.put_back(paths)
            return
        self.out.line(f"\nsaved: {', '.join(sorted(path.name for path in paths))}")
        self.out.say(told)
        self.out.line(f"checked in {(time.monotonic() - started) * 1000:.0f} ms")
        self.folder.check_here()
        if loaded is None:
            if self.cycle.running is None:
                self.say_watching()
            return
        if loaded.catalogue != self.loaded.catalogue and self.job.script is None:
            await self.cycle.break_off()
            await self.calls.change_gateway(loaded.gateway(None, self.out.note))
        self.loaded = loaded
        await self.begin()

    def _checked(self, library: Library) -> Loaded | None:
        try:
            return load(self.loaded.program.workflow.name, self.out, library, BROKEN, trusted=self.job.trust_project)
        except click.exceptions.Exit:
            return None
        except SkillrunError as error:  # the workflow's own file is gone, perhaps while an editor saves it
            self.out.note(f"error: {error.message}")
            self.out.note(BROKEN)
            return None

    async def look(self) -> None:
        """Begin a turn where an answer was left, or a form was filled in, or files were brought."""
        if self.cycle.running is not None:
            self.waiting = waiting_questions(self.events)
        left = {each.where for each in self.waiting if self.inbox.has(each.where, each.fingerprint)}
        new, self._left = left - self._left, left
        if new:
            self.out.line("\nanswered")
            await self.begin()
            return
        if self.cycle.running is None and self.last is not None and self.last.outcome.status == "waiting":
            now = stamps(self.folder.path)
            if now != self._stamps and now == self._moving:
                names = sorted(name for name in now.keys() | self._stamps if now.get(name) != self._stamps.get(name))
                self.out.line(f"\nchanged in the run's folder: {', '.join(names)}")
                await self.begin()
                return
            self._moving = now
        self.out.draw()


async def _raise(error: BaseException) -> None:
    raise error
