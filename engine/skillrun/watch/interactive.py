"""A session of `skillrun dev` at which somebody sits: keys, and the line at the foot that names them.

Owns what a key brings about, and who has the terminal. Reading keys is for `dev.keys`, drawing the foot for `foot`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from skillrun.cli.editing import edit_file
from skillrun.cli.formatting import count_noun, format_duration
from skillrun.cli.inbox_answers import PartialAnswers, answer_in_terminal
from skillrun.runtime.rerun import Rerun
from skillrun.store.inbox import PendingQuestions, pending_questions
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.watch.evaluation_report import change_lines
from skillrun.watch.keys import KeyReader
from skillrun.watch.session import DevSession
from skillrun.watch.status_bar import StatusBar, supports_redraw


class KeyboardSession(DevSession):
    """A session in a terminal."""

    can_confirm = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.out = StatusBar(self.job.json, status_texts=self.status_texts, can_redraw=supports_redraw())
        self.keys = KeyReader(self._on_key, self.out.erase, self.out.draw)
        self._begun: dict[str, PartialAnswers] = {}

    @contextmanager
    def session_context(self) -> Iterator[None]:
        try:
            with self.keys.read():
                yield
        finally:
            self.out.erase()

    def print_watching(self) -> None:
        if not self.out.can_redraw:
            self.out.line(f"watching; Ctrl-C ends; keys: {self._keys_line()}")
        self.out.draw()

    def _on_key(self, key: str) -> None:
        self.schedule(partial(self._handle_key, key.lower()))

    async def _handle_key(self, key: str) -> None:
        actions: dict[str, Callable[[], Awaitable[None]]] = {
            "s": partial(self._rerun_last, step=True),
            "p": partial(self._rerun_last, step=False),
            "a": self._start_answering,
            "e": self._start_editing,
            "d": self._print_difference,
            " ": self._toggle_pause,
            "q": partial(self.stop, 0),
            "y": self._confirm_calls,
            "?": self._print_keys,
        }
        if key in actions and not self.is_lent:
            await actions[key]()
            self.out.draw()

    async def _rerun_last(self, *, step: bool) -> None:
        if not (path := self._last_call_path(step=step)):
            self.out.line("nothing was asked yet")
            return
        self.out.line(f"\nagain: {path}")
        self.rerun = Rerun([path])
        await self.start_evaluation()

    def _last_call_path(self, *, step: bool) -> str:
        """The step, or the phase, of the call that was asked last."""
        under_way = self.calls.in_flight
        address = under_way[-1][0] if under_way else self.cycle.recorder.last_address
        path = address.partition("/")[2].rpartition("/")[0].rpartition("/")[0]
        return path if step else path.partition("/")[0]

    async def _start_answering(self) -> None:
        if self.cycle.current_task is not None:
            self.waiting = pending_questions(self.events)
        if not self.waiting:
            self.out.line("no question waits")
            return
        self.run_in_background(self._run_in_terminal(partial(self._ask_questions, self.waiting[0])))

    async def _ask_questions(self, waiting: PendingQuestions) -> None:
        await answer_in_terminal(waiting, self.inbox, self.out, self._begun.setdefault(waiting.fingerprint, {}))

    async def _start_editing(self) -> None:
        if not (name := self._last_artifact()):
            self.out.line("nothing was written yet")
            return
        self.run_in_background(self._run_in_terminal(partial(self._edit_artifact, name)))

    async def _edit_artifact(self, name: str) -> None:
        if await edit_file(self.folder.path / name):
            self.out.line(f"\nedited: {name}")
            self.schedule(self.start_evaluation)

    def _last_artifact(self) -> str:
        """The artifact that was written last."""
        return next(reversed(self.cycle.recorder.artifact_rounds), "")

    async def _run_in_terminal(self, work: Callable[[], Awaitable[None]]) -> None:
        """Leave the terminal to a question or an editor; what happens meanwhile is said behind it."""
        self.is_lent = True
        try:
            with self.keys.release_terminal(), self.out.release_terminal():
                await work()
        except SkillrunError as error:
            self.out.note(f"error: {error.message}")
            self.out.note(f"hint: {error.next_step}")
        finally:
            self.is_lent = False
        self.schedule(self.check_run_folder)

    async def _print_difference(self) -> None:
        if self.changed is None:
            self.out.line("nothing has changed yet")
            return
        self.out.line()
        for line in change_lines(self.changed, full=True):
            self.out.line(line)

    async def _toggle_pause(self) -> None:
        gate = self.calls.gate
        gate.set_paused(paused=not gate.is_paused)
        message = "paused: nothing new is asked until you press space again; what is under way is waited for"
        self.out.line(message if gate.is_paused else "going on")

    async def _confirm_calls(self) -> None:
        if self.asks_yes is not None:
            self.asks_yes = None
            self.began = time.monotonic()
            self.calls.gate.open()

    async def _print_keys(self) -> None:
        self.out.line(f"keys: {self._keys_line()}")

    # the foot

    def status_texts(self) -> list[str]:
        """Where the session stands, and the keys that do something now: with what they are for, and in short."""
        return [f"{self._status_text()} · {self._keys_line(short=short)}" for short in (False, True)]

    def _status_text(self) -> str:
        if self.asks_yes is not None:
            return f"waits for a yes to {count_noun(self.asks_yes.totals.calls, 'call')}"
        calls = self.calls.in_flight
        passed = format_duration(time.monotonic() - self.began).replace(".0 ", " ")
        if self.calls.gate.is_paused:
            return "paused" + (f", {len(calls)} under way" if calls else "")
        if calls:
            more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
            return f"asking {calls[0][0].partition('/')[2].rpartition('/')[0]}{more}, {passed}"
        if self.cycle.current_task is not None:
            return f"running, {passed}"
        return "waits for answers" if self.waiting else "watching"

    def _keys_line(self, *, short: bool = False) -> str:
        keys = [("y ask", "")] if self.asks_yes is not None else []
        if path := self._last_call_path(step=True):
            keys += [("s step again", path), ("p phase again", self._last_call_path(step=False))]
        keys += [("a answer", "")] if self.waiting else []
        keys += [("e edit", name)] if (name := self._last_artifact()) else []
        keys += [("d difference", "")] if self.changed is not None else []
        keys += [("space go on" if self.calls.gate.is_paused else "space pause", ""), ("q quit", "")]
        if short:
            return " · ".join(key.removesuffix(" again") for key, _ in keys)
        return " · ".join(f"{key} ({about})" if about else key for key, about in keys)
