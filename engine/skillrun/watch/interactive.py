"""An interactive session of `skillrun dev`: handles keys and shows them in the status bar.

`KeyReader` reads the keys.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
import sys
import termios
import time
import tty
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from skillrun.cli.answers import PartialAnswers, answer_in_terminal
from skillrun.cli.editing import edit_file
from skillrun.cli.formatting import count_noun, format_duration
from skillrun.runtime.run import Rerun
from skillrun.store.run_history import read_history
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.watch.session import DevSession, StatusBar
from skillrun.watch.watch_loop import change_lines

STANDARD_INPUT: Final = 0
FOREGROUND_POLL_SECONDS: Final = 0.5  # seconds between checks whether the process is in the foreground
_SEQUENCE: Final = re.compile(r"\x1b(?:[\[O][0-?]*[ -/]*[@-~]?|[^\[O]?)")  # arrows, function keys, Alt with a key


class KeyReader:
    """Reads the keys of the terminal, and calls `on_key` with each key in the event loop.

    `on_suspend` is called before Ctrl-Z stops the process, and `on_resume` when the process continues.
    """

    def __init__(
        self, on_key: Callable[[str], None], on_suspend: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        self._on_key, self._on_suspend, self._on_resume = on_key, on_suspend, on_resume
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._saved_mode: list[Any] | None = None  # the terminal's original mode, while the key mode is set
        self._is_released = False
        self._later: asyncio.TimerHandle | None = None

    @contextmanager
    def read(self) -> Iterator[None]:
        """Read keys during the block."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        self._enter_key_mode()
        try:
            yield
        finally:
            self._restore_mode()
            loop.remove_signal_handler(signal.SIGTSTP)

    @contextmanager
    def release_terminal(self) -> Iterator[None]:
        """Leave the terminal to another program during the block."""
        self._restore_mode()
        self._is_released = True
        try:
            yield
        finally:
            self._is_released = False
            self._enter_key_mode()

    def _enter_key_mode(self) -> None:
        """Set the terminal to read single keys. If the process is in the background, try again later."""
        self._later = None
        if self._saved_mode is not None or self._is_released:
            return
        loop = asyncio.get_running_loop()
        if not self._is_in_front():
            self._later = loop.call_later(FOREGROUND_POLL_SECONDS, self._enter_key_mode)
            return
        with suppress(termios.error):
            self._saved_mode = termios.tcgetattr(STANDARD_INPUT)
            tty.setcbreak(STANDARD_INPUT, termios.TCSANOW)
            loop.add_reader(STANDARD_INPUT, self._on_readable)

    def _restore_mode(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        saved_mode, self._saved_mode = self._saved_mode, None
        if saved_mode is None:
            return
        asyncio.get_running_loop().remove_reader(STANDARD_INPUT)
        with suppress(termios.error):  # the terminal is closed
            termios.tcsetattr(STANDARD_INPUT, termios.TCSADRAIN, saved_mode)

    def _is_in_front(self) -> bool:
        try:
            return os.tcgetpgrp(STANDARD_INPUT) == os.getpgrp()
        except OSError:
            return True

    def _on_readable(self) -> None:
        if not self._is_in_front():
            self._saved_mode = None  # the shell has the terminal and sets its mode
            asyncio.get_running_loop().remove_reader(STANDARD_INPUT)
            self._enter_key_mode()
            return
        try:
            data = os.read(STANDARD_INPUT, 1024)
        except OSError:
            data = b""
        if not data:  # the terminal is closed
            asyncio.get_running_loop().remove_reader(STANDARD_INPUT)
            return
        for key in _SEQUENCE.sub("", self._decoder.decode(data)):
            self._on_key(key)

    def _stop(self) -> None:
        """Stop the process, as Ctrl-Z does by default. This function continues when the process continues."""
        is_released = self._is_released
        if not is_released:
            self._on_suspend()
        self._restore_mode()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter_key_mode()
        if not is_released:
            self._on_resume()


class KeyboardSession(DevSession):
    """A session that the user controls with keys in a terminal."""

    can_confirm = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        can_redraw = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
        self.out = StatusBar(self.job.json, status_texts=self.status_texts, can_redraw=can_redraw)
        self.keys = KeyReader(
            lambda key: self.schedule(partial(self._handle_key, key.lower())), self.out.erase, self.out.draw
        )
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
            self.out.line(f"watching for changes, Ctrl-C quits; keys: {self._keys_line()}")
        self.out.draw()

    async def _handle_key(self, key: str) -> None:
        if self.is_lent:
            return
        gate = self.calls.gate
        match key:
            case "s" | "p":
                if path := self._last_call_path(step=key == "s"):
                    self.out.lines(["", f"repeating: {path}"])
                    self.rerun = Rerun([path], reads=True)
                    await self.start_evaluation()
                else:
                    self.out.line("no calls were made yet")
            case "a":
                self._start_answering()
            case "e":
                self._start_editing()
            case "d":
                changes = [] if self.changed is None else ["", *change_lines(self.changed, full=True)]
                for line in changes or ["nothing has changed yet"]:
                    self.out.line(line)
            case " ":
                gate.toggle_pause()
                message = "paused: no new calls are made until you press space again; calls in progress continue"
                self.out.line(message if gate.is_paused else "resumed")
            case "q":
                await self.stop(0)
            case "y" if self.asks_yes is not None:
                self.asks_yes = None
                self.began = time.monotonic()
                gate.open()
            case "?":
                self.out.line(f"keys: {self._keys_line()}")
            case _:
                return
        self.out.draw()

    def _last_call_path(self, *, step: bool) -> str:
        """Return the path of the last call's step or, without `step`, of its phase; empty if no call was made."""
        under_way = self.calls.in_flight
        address = under_way[-1][0] if under_way else self.cycle.evaluation.last_address
        path = address.partition("/")[2].rpartition("/")[0].rpartition("/")[0]
        return path if step else path.partition("/")[0]

    def _start_answering(self) -> None:
        if self.cycle.current_task is not None:
            self.waiting = read_history(self.events).waiting
        if not self.waiting:
            self.out.line("no questions are waiting")
            return
        waiting = self.waiting[0]
        given = self._begun.setdefault(waiting.fingerprint, {})
        self.run_in_background(self._run_in_terminal(partial(answer_in_terminal, waiting, self.inbox, self.out, given)))

    def _start_editing(self) -> None:
        if not (name := next(reversed(self.cycle.evaluation.artifact_rounds), "")):
            self.out.line("no artifacts were written yet")
            return

        async def edit() -> None:
            if await edit_file(self.folder.path / name):
                self.out.lines(["", f"edited: {name}"])
                self.schedule(self.start_evaluation)

        self.run_in_background(self._run_in_terminal(edit))

    async def _run_in_terminal(self, work: Callable[[], Awaitable[object]]) -> None:
        """Lend the terminal to a question or an editor, and hold output back until the question or editor is closed."""
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

    # status bar

    def status_texts(self) -> list[str]:
        """Return the status and the available keys, in a long and a short version."""
        return [f"{self._status_text()} · {self._keys_line(short=short)}" for short in (False, True)]

    def _status_text(self) -> str:
        if self.asks_yes is not None:
            return f"confirm {count_noun(self.asks_yes.totals.calls, 'call')}"
        calls = self.calls.in_flight
        passed = format_duration(time.monotonic() - self.began).replace(".0 ", " ")
        if self.calls.gate.is_paused:
            return "paused" + (f", {len(calls)} in progress" if calls else "")
        if calls:
            more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
            return f"calling {calls[0][0].partition('/')[2].rpartition('/')[0]}{more}, {passed}"
        if self.cycle.current_task is not None:
            return f"running, {passed}"
        return "waiting for answers" if self.waiting else "watching"

    def _keys_line(self, *, short: bool = False) -> str:
        keys = [("y confirm", "")] if self.asks_yes is not None else []
        if path := self._last_call_path(step=True):
            keys += [("s step again", path), ("p phase again", self._last_call_path(step=False))]
        keys += [("a answer", "")] if self.waiting else []
        keys += [("e edit", name) for name in [*self.cycle.evaluation.artifact_rounds][-1:]]
        keys += [("d difference", "")] if self.changed is not None else []
        keys += [("space resume" if self.calls.gate.is_paused else "space pause", ""), ("q quit", "")]
        if short:
            return " · ".join(key.removesuffix(" again") for key, _ in keys)
        return " · ".join(f"{key} ({about})" if about else key for key, about in keys)
