"""A session of `skillrun dev` at which somebody sits: keys, and the line at the foot that names them.

Owns what a key brings about, and who has the terminal. Reading keys is for `dev.keys`, drawing the foot for `foot`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from skillrun.cli.editing import edited
from skillrun.cli.formatting import counted, duration
from skillrun.cli.inbox_answers import Begun, answer_here
from skillrun.runtime.rerun import Rerun
from skillrun.store.inbox import WaitingQuestions, waiting_questions
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.watch.evaluation_report import change_lines
from skillrun.watch.keys import Keys
from skillrun.watch.session import DevSession
from skillrun.watch.status_bar import FootedOutput, can_move


class KeyedSession(DevSession):
    """A session in a terminal."""

    can_say_yes = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.out = FootedOutput(self.job.json, foot=self.foot, moves=can_move())
        self.keys = Keys(self._key, self.out.erase, self.out.draw)
        self._begun: dict[str, Begun] = {}

    @contextmanager
    def around(self) -> Iterator[None]:
        try:
            with self.keys.read():
                yield
        finally:
            self.out.erase()

    def say_watching(self) -> None:
        if not self.out.moves:
            self.out.line(f"watching; Ctrl-C ends; keys: {self._keys_line()}")
        self.out.draw()

    def _key(self, key: str) -> None:
        self.later(partial(self._pressed, key.lower()))

    async def _pressed(self, key: str) -> None:
        actions: dict[str, Callable[[], Awaitable[None]]] = {
            "s": partial(self._again, step=True),
            "p": partial(self._again, step=False),
            "a": self._answer,
            "e": self._edit,
            "d": self._show_difference,
            " ": self._pause,
            "q": partial(self.end, 0),
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
        await self.begin()

    def _place(self, *, step: bool) -> str:
        """The step, or the phase, of the call that was asked last."""
        under_way = self.calls.under_way
        address = under_way[-1][0] if under_way else self.cycle.heard.last
        path = address.partition("/")[2].rpartition("/")[0].rpartition("/")[0]
        return path if step else path.partition("/")[0]

    async def _answer(self) -> None:
        if self.cycle.running is not None:
            self.waiting = waiting_questions(self.events)
        if not self.waiting:
            self.out.line("no question waits")
            return
        self.beside(self._away(partial(self._answered, self.waiting[0])))

    async def _answered(self, waiting: WaitingQuestions) -> None:
        await answer_here(waiting, self.inbox, self.out, self._begun.setdefault(waiting.fingerprint, {}))

    async def _edit(self) -> None:
        if not (name := self._artifact()):
            self.out.line("nothing was written yet")
            return
        self.beside(self._away(partial(self._edited, name)))

    async def _edited(self, name: str) -> None:
        if await edited(self.folder.path / name):
            self.out.line(f"\nedited: {name}")
            self.later(self.begin)

    def _artifact(self) -> str:
        """The artifact that was written last."""
        return next(reversed(self.cycle.heard.wrote), "")

    async def _away(self, work: Callable[[], Awaitable[None]]) -> None:
        """Leave the terminal to a question or an editor; what happens meanwhile is said behind it."""
        self.is_lent = True
        try:
            with self.keys.lent(), self.out.lent():
                await work()
        except SkillrunError as error:
            self.out.note(f"error: {error.message}")
            self.out.note(f"hint: {error.next_step}")
        finally:
            self.is_lent = False
        self.later(self.look)

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
            self.began = time.monotonic()
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
        passed = duration(time.monotonic() - self.began).replace(".0 ", " ")
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
