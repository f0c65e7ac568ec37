"""Reads single keys from a terminal, without Enter.

The terminal's mode is restored at the end, while another program is in the foreground, and while the process is
stopped.
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

FOREGROUND_POLL_SECONDS: Final = 0.5  # seconds between checks whether the process is in the foreground
_SEQUENCE: Final = re.compile(r"\x1b(?:[\[O][0-?]*[ -/]*[@-~]?|[^\[O]?)")  # arrows, function keys, Alt with a key


class KeyReader:
    """Reads the keys of the terminal at `descriptor` and calls `on_key` with each, in the event loop.

    `on_suspend` is called before Ctrl-Z stops the process, `on_resume` once it continues.
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
        self._saved_mode: list[Any] | None = None  # the original mode, while another one is set
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
        """Switch to single keys if the process is in the foreground; otherwise try again later."""
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
        with suppress(termios.error):  # the terminal is closed
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, saved_mode)

    def _is_in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return True

    def _on_readable(self) -> None:
        if not self._is_in_front():
            self._saved_mode = None  # the shell has the terminal and sets its mode
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._enter_key_mode()
            return
        try:
            data = os.read(self._descriptor, 1024)
        except OSError:
            data = b""
        if not data:  # the terminal is closed
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        for key in _SEQUENCE.sub("", self._decoder.decode(data)):
            self._on_key(key)

    def _stop(self) -> None:
        """Stop the process as Ctrl-Z does; it continues here."""
        is_released = self._is_released
        if not is_released:
            self._on_suspend()
        self._restore_mode()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter_key_mode()
        if not is_released:
            self._on_resume()
