"""Single keys from a terminal, without Enter; the terminal is as it was whenever somebody else has it.

Owns the terminal's mode: it is put back at the end, whatever ends it, while another program is in front, and while the
process is stopped. Knows nothing of what a key means.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

BEHIND: Final = 0.5  # seconds until it is looked again whether the process is in front
_SEQUENCE: Final = re.compile(r"\x1b(?:[\[O][0-?]*[ -/]*[@-~]?|[^\[O]?)")  # arrows, function keys, Alt with a key


class Keys:
    """The keys of the terminal at `descriptor`; `pressed` is called with each, within the event loop.

    `stopped` is called before Ctrl-Z stops the process, `back` once it goes on.
    """

    def __init__(
        self,
        pressed: Callable[[str], None],
        stopped: Callable[[], None] = lambda: None,
        back: Callable[[], None] = lambda: None,
        descriptor: int = 0,
    ) -> None:
        self._pressed, self._stopped, self._back = pressed, stopped, back
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._before: list[Any] | None = None  # the terminal's mode, while it is another one
        self._is_lent = False
        self._later: asyncio.TimerHandle | None = None

    @contextmanager
    def read(self) -> Iterator[None]:
        """Read keys until the end of the block."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        self._take()
        try:
            yield
        finally:
            self._give_back()
            loop.remove_signal_handler(signal.SIGTSTP)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Leave the terminal to somebody else for as long as the block takes."""
        self._give_back()
        self._is_lent = True
        try:
            yield
        finally:
            self._is_lent = False
            self._take()

    def _take(self) -> None:
        """Have each key as it is pressed, where the process is in front; otherwise later."""
        self._later = None
        if self._before is not None or self._is_lent:
            return
        loop = asyncio.get_running_loop()
        if not self._is_in_front():
            self._later = loop.call_later(BEHIND, self._take)
            return
        with suppress(termios.error):
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor, termios.TCSANOW)
            loop.add_reader(self._descriptor, self._readable)

    def _give_back(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        before, self._before = self._before, None
        if before is None:
            return
        asyncio.get_running_loop().remove_reader(self._descriptor)
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)

    def _is_in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return True

    def _readable(self) -> None:
        if not self._is_in_front():
            self._before = None  # the shell has the terminal, in a mode of its own
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._take()
            return
        try:
            data = os.read(self._descriptor, 1024)
        except OSError:
            data = b""
        if not data:  # the terminal has gone
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        for key in _SEQUENCE.sub("", self._decoder.decode(data)):
            self._pressed(key)

    def _stop(self) -> None:
        """Stop the process as Ctrl-Z does; it goes on here."""
        lent = self._is_lent
        if not lent:
            self._stopped()
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        if not lent:
            self._back()
