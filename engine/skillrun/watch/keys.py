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

FOREGROUND_POLL_SECONDS: Final = 0.5  # seconds until it is looked again whether the process is in front
_SEQUENCE: Final = re.compile(r"\x1b(?:[\[O][0-?]*[ -/]*[@-~]?|[^\[O]?)")  # arrows, function keys, Alt with a key


class KeyReader:
    """The keys of the terminal at `descriptor`; `pressed` is called with each, within the event loop.

    `stopped` is called before Ctrl-Z stops the process, `back` once it goes on.
    """

    def __init__(
        self,
        on_key: Callable[[str], None],
        on_suspend: Callable[[], None] = lambda: None,
        on_resume: Callable[[], None] = lambda: None,
        descriptor: int = 0,
    ) -> None:
        self._on_key, self._on_suspend, self._on_resume = on_key, on_suspend, on_resume
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._saved_mode: list[Any] | None = None  # the terminal's mode, while it is another one
        self._is_released = False
        self._later: asyncio.TimerHandle | None = None

    @contextmanager
    def read(self) -> Iterator[None]:
        """Read keys until the end of the block."""
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
        """Leave the terminal to somebody else for as long as the block takes."""
        self._restore_mode()
        self._is_released = True
        try:
            yield
        finally:
            self._is_released = False
            self._enter_key_mode()

    def _enter_key_mode(self) -> None:
        """Have each key as it is pressed, where the process is in front; otherwise later."""
        self._later = None
        if self._saved_mode is not None or self._is_released:
            return
        loop = asyncio.get_running_loop()
        if not self._is_in_front():
            self._later = loop.call_later(FOREGROUND_POLL_SECONDS, self._enter_key_mode)
            return
        with suppress(termios.error):
            self._saved_mode = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor, termios.TCSANOW)
            loop.add_reader(self._descriptor, self._on_readable)

    def _restore_mode(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        saved_mode, self._saved_mode = self._saved_mode, None
        if saved_mode is None:
            return
        asyncio.get_running_loop().remove_reader(self._descriptor)
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, saved_mode)

    def _is_in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return True

    def _on_readable(self) -> None:
        if not self._is_in_front():
            self._saved_mode = None  # the shell has the terminal, in a mode of its own
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._enter_key_mode()
            return
        try:
            data = os.read(self._descriptor, 1024)
        except OSError:
            data = b""
        if not data:  # the terminal has gone
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        for key in _SEQUENCE.sub("", self._decoder.decode(data)):
            self._on_key(key)

    def _stop(self) -> None:
        """Stop the process as Ctrl-Z does; it goes on here."""
        is_released = self._is_released
        if not is_released:
            self._on_suspend()
        self._restore_mode()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter_key_mode()
        if not is_released:
            self._on_resume()
