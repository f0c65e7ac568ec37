"""A session of `skillrun dev`: what saves, keys and answers bring about, one after the other.

Owns what happens next; a turn's life is that of `dev.cycle`, its calls are `dev.kept_calls`'.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from skillrun.cli.answering import answer_here
from skillrun.cli.asking_ahead import AskAbove, Foretold, foretold
from skillrun.cli.dev_report import change_lines, event_line, sum_lines, turn_data
from skillrun.cli.editing import edited
from skillrun.cli.foot import FootedOutput, can_move
from skillrun.cli.job import Job
from skillrun.cli.loading import Loaded, load
from skillrun.cli.printing import Output
from skillrun.cli.words import counted, duration
from skillrun.dev.cycle import Cycle, Turn
from skillrun.dev.kept_calls import KeptCalls
from skillrun.dev.keys import Keys
from skillrun.dev.watch import SETTLE, Changes, Stamps, stamps, watch_files
from skillrun.language.library.library import Library
from skillrun.language.text.diagnostics import SkillrunError
from skillrun.people.person import Person, open_person
from skillrun.runtime.events import Event
from skillrun.runtime.questions.inbox import Inbox, WaitingQuestions, waiting_questions
from skillrun.runtime.rerun import Rerun
from skillrun.runtime.run import Session
from skillrun.runtime.store.disk.run_folder import RunFolder

BROKEN: Final = "the last good version stays in force; mend the file and save it"
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
    job: Job, wishes: Wishes, estimate: Mapping[str, Any] | None, folder: RunFolder, *, has_keys: bool
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
        session = DevSession(job, wishes, estimate, Cycle(folder, journal, calls), changes, has_keys=has_keys)
        opened.callback(session.out.erase)
        if session.keys is not None:
            opened.enter_context(session.keys.read())
        try:
            return await session.live()
        finally:
            await session.close()


class DevSession:
    """Handlers are called in the order in which things happen, and none before the one before it has ended."""

    def __init__(
        self,
        job: Job,
        wishes: Wishes,
        estimate: Mapping[str, Any] | None,
        cycle: Cycle,
        changes: Changes,
        *,
        has_keys: bool,
    ) -> None:
        self.job, self.wishes, self.cycle, self.changes = job, wishes, cycle, changes
        self.folder, self.calls = cycle.folder, cycle.calls
        self.inbox = Inbox(self.folder.store().files)
        self.loaded, self.estimate = job.loaded, estimate
        self.out = FootedOutput(job.json, self.foot, moves=has_keys and can_move())
        self.keys = Keys(self._key, self.out.erase, self.out.draw) if has_keys else None
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
        self._events: list[dict[str, Any]] = []
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._started = time.monotonic()
        self._stamps: Stamps = {}
        self._moving: Stamps | None = None
        self._busy: set[asyncio.Task[None]] = set()

    # what runs as long as the session does

    async def live(self) -> int:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        self._beside(self._take())
        self._beside(self._tick())
        await self._begin()
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

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something go on beside the handlers."""
        task = asyncio.get_running_loop().create_task(work)
        self._busy.add(task)
        task.add_done_callback(self._is_over)

    def _is_over(self, task: asyncio.Task[None]) -> None:
        self._busy.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._later(partial(_raise, error))

    def _later(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work.put_nowait(work)

    def _signalled(self, number: int) -> None:
        if not (self.is_lent and number == signal.SIGINT):  # it is meant for the program that has the terminal
            self._later(partial(self._end, INTERRUPTED))

    async def _end(self, code: int) -> None:
        self.code = code

    async def _take(self) -> None:
        while True:
            paths = await self.changes.take()
            self._later(partial(self._saved, paths))

    async def _tick(self) -> None:
        """Time that passes is shown; what was left for the run in its folder is looked for."""
        while True:
            await asyncio.sleep(TICK)
            self._later(self._look)

    # turns

    def _session(self) -> Session:
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
        )

    def _person(self) -> Person:
        """Nobody is asked during a turn: what waits is answered by a key, or from another terminal."""
        presence = self.job.presence
        return open_person(unattended=presence.unattended, answers=presence.answers, terminal=False)

    async def _begin(self) -> None:
        """Begin a turn, in place of the one that goes on."""
        is_first = not self.folder.has_state
        self.asks_yes = None
        self._events.clear()

        def heard(event: Event) -> None:
            record = event.to_dict()
            self._events.append(record)
            number = self.cycle.heard.rounds.get(str(record.get("phase")), 1)
            if line := event_line(event, is_first=is_first, number=number):
                self.out.line(line)

        session = self._session()
        session.listeners = [*session.listeners, heard]
        self._started = time.monotonic()
        running = await self.cycle.begin(session, self.job.inputs)
        running.add_done_callback(lambda task: self._later(partial(self._ended, task)))
        self._beside(self._knock(running, is_first))

    async def _knock(self, running: asyncio.Task[Turn], is_first: bool) -> None:
        knocked = asyncio.create_task(self.calls.gate.knocked.wait())
        try:
            await asyncio.wait([knocked, running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            knocked.cancel()
        if not running.done():
            self._later(partial(self._knocked, running, is_first))

    async def _knocked(self, running: asyncio.Task[Turn], is_first: bool) -> None:
        """A call wants to go out: say what the turn asks and costs, and let it, or wait for a yes."""
        if running is not self.cycle.running:
            return
        session = self._session()
        try:
            ahead = await foretold(
                session, self.folder, self.job.inputs, self._person(), self.calls.under_way, self.job.script
            )
        except SkillrunError:  # the turn says it itself
            self.calls.gate.open()
            return
        await self.calls.keep_only(ahead.wanted)
        if ahead.addresses:
            self.out.line(f"asks {ahead}")
        typed = is_first and self.keys is None  # whoever has typed it wants it
        if typed or not self.wishes.ask_above.is_passed(ahead):
            self.calls.gate.open()
            return
        self.asks_yes = ahead
        above = f"that is above `{self.wishes.ask_above}`"
        if self.keys is not None:
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
        seconds = time.monotonic() - self._started
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
        self.waiting = waiting_questions(self._events)
        self._stamps = stamps(self.folder.path)
        self._moving = None
        self._say_watching()

    def _tell(self, turn: Turn, seconds: float) -> None:
        self.last = turn
        if turn.has_changed and not turn.is_first:
            self.changed = turn
            for line in change_lines(turn, full=False):
                self.out.line(line)
        for line in sum_lines(turn, seconds):
            self.out.line(line)
        self.out.data(turn_data(turn))

    def _say_watching(self) -> None:
        if not self.out.moves:
            keys = f"; keys: {self._keys_line()}" if self.keys is not None else ""
            self.out.line(f"watching; Ctrl-C ends{keys}")
        self.out.draw()

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
                self._say_watching()
            return
        if loaded.catalogue != self.loaded.catalogue and self.job.script is None:
            await self.cycle.break_off()
            await self.calls.change_gateway(loaded.gateway(None, self.out.note))
        self.loaded = loaded
        await self._begin()

    def _checked(self, library: Library) -> Loaded | None:
        try:
            return load(self.loaded.program.workflow.name, self.out, library, BROKEN, trusted=self.job.trust_project)
        except click.exceptions.Exit:
            return None
        except SkillrunError as error:  # the workflow's own file is gone, perhaps while an editor saves it
            self.out.note(f"error: {error.message}")
            self.out.note(BROKEN)
            return None

    async def _look(self) -> None:
        """Begin a turn where an answer was left, or a form was filled in, or files were brought."""
        if self.cycle.running is not None:
            self.waiting = waiting_questions(self._events)
        if any(self.inbox.has(each.where, each.fingerprint) for each in self.waiting):
            self.out.line("\nanswered")
            self.waiting = []
            await self._begin()
            return
        if self.cycle.running is None and self.last is not None and self.last.outcome.status == "waiting":
            now = stamps(self.folder.path)
            if now != self._stamps and now == self._moving:
                names = sorted(name for name in now.keys() | self._stamps if now.get(name) != self._stamps.get(name))
                self.out.line(f"\nchanged in the run's folder: {', '.join(names)}")
                await self._begin()
                return
            self._moving = now
        self.out.draw()

    # keys

    def _key(self, key: str) -> None:
        self._later(partial(self._pressed, key.lower()))

    async def _pressed(self, key: str) -> None:
        actions: dict[str, Callable[[], Awaitable[None]]] = {
            "s": partial(self._again, step=True),
            "p": partial(self._again, step=False),
            "a": self._answer,
            "e": self._edit,
            "d": self._show_difference,
            " ": self._pause,
            "q": partial(self._end, 0),
            "y": self._yes,
            "?": self._help,
        }
        if key in actions and not self.is_lent:
            await actions[key]()
            self.out.draw()

    async def _again(self, *, step: bool) -> None:
        if not (place := self._place(step=step)):
            self.out.line("nothing was asked yet")
            return
        self.out.line(f"\nagain: {place}")
        self.rerun = Rerun([place])
        await self._begin()

    def _place(self, *, step: bool) -> str:
        """The step, or the phase, of the call that was asked last."""
        under_way = self.calls.under_way
        address = under_way[-1][0] if under_way else self.cycle.heard.last
        path = address.partition("/")[2].rpartition("/")[0].rpartition("/")[0]
        return path if step else path.partition("/")[0]

    async def _answer(self) -> None:
        if self.cycle.running is not None:
            self.waiting = waiting_questions(self._events)
        if not self.waiting:
            self.out.line("no question waits")
            return
        self._beside(self._away(partial(self._answered, self.waiting[0])))

    async def _answered(self, waiting: WaitingQuestions) -> None:
        await answer_here(waiting, self.inbox, self.out)

    async def _edit(self) -> None:
        if not (name := self._artifact()):
            self.out.line("nothing was written yet")
            return
        self._beside(self._away(partial(self._edited, name)))

    async def _edited(self, name: str) -> None:
        if await edited(self.folder.path / name):
            self.out.line(f"\nedited: {name}")
            self._later(self._begin)

    def _artifact(self) -> str:
        """The artifact that was written last."""
        return next(reversed(self.cycle.heard.wrote), "")

    async def _away(self, work: Callable[[], Awaitable[None]]) -> None:
        """Leave the terminal to a question or an editor; what happens meanwhile is said behind it."""
        self.is_lent = True
        try:
            with self.keys.lent() if self.keys is not None else nullcontext(), self.out.lent():
                await work()
        except SkillrunError as error:
            self.out.note(f"error: {error.message}")
            self.out.note(f"hint: {error.next_step}")
        finally:
            self.is_lent = False
        self._later(self._look)

    async def _show_difference(self) -> None:
        if self.changed is None:
            self.out.line("nothing has changed yet")
            return
        self.out.line()
        for line in change_lines(self.changed, full=True):
            self.out.line(line)

    async def _pause(self) -> None:
        gate = self.calls.gate
        gate.pause(on=not gate.is_paused)
        said = "paused: nothing new is asked until you press space again; what is under way is waited for"
        self.out.line(said if gate.is_paused else "going on")

    async def _yes(self) -> None:
        if self.asks_yes is not None:
            self.asks_yes = None
            self._started = time.monotonic()
            self.calls.gate.open()

    async def _help(self) -> None:
        self.out.line(f"keys: {self._keys_line()}")

    # the foot

    def foot(self) -> list[str]:
        """Where the session stands, and the keys that do something now: with what they are for, and in short."""
        return [f"{self._standing()} · {self._keys_line(short=short)}" for short in (False, True)]

    def _standing(self) -> str:
        if self.asks_yes is not None:
            return f"waits for a yes to {counted(self.asks_yes.spent.calls, 'call')}"
        calls = self.calls.under_way
        passed = duration(time.monotonic() - self._started).replace(".0 ", " ")
        if self.calls.gate.is_paused:
            return "paused" + (f", {len(calls)} under way" if calls else "")
        if calls:
            more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
            return f"asking {calls[0][0].partition('/')[2].rpartition('/')[0]}{more}, {passed}"
        if self.cycle.running is not None:
            return f"running, {passed}"
        return "waits for answers" if self.waiting else "watching"

    def _keys_line(self, *, short: bool = False) -> str:
        keys = [("y ask", "")] if self.asks_yes is not None else []
        if place := self._place(step=True):
            keys += [("s step again", place), ("p phase again", self._place(step=False))]
        keys += [("a answer", "")] if self.waiting else []
        keys += [("e edit", name)] if (name := self._artifact()) else []
        keys += [("d difference", "")] if self.changed is not None else []
        keys += [("space go on" if self.calls.gate.is_paused else "space pause", ""), ("q quit", "")]
        if short:
            return " · ".join(key.removesuffix(" again") for key, _ in keys)
        return " · ".join(f"{key} ({about})" if about else key for key, about in keys)


async def _raise(error: BaseException) -> None:
    raise error
