"""Which files changed on the search path, after they have settled. Knows nothing of runs."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from skillrun.language.library.listing import FOLDERS

SETTLE: Final = 0.05  # seconds without another change; editors write a file in several steps
_SUFFIXES: Final = (".md", ".yaml")


class Changes:
    """The changed files, collected until somebody takes them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._paths: set[Path] = set()
        self._any = asyncio.Event()

    def add(self, path: Path) -> None:
        """Called from the watching thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._add, path)

    def _add(self, path: Path) -> None:
        self._paths.add(path)
        self._any.set()

    async def take(self) -> set[Path]:
        """Wait for a change, and until changes stop coming; the files."""
        await self._any.wait()
        while True:
            self._any.clear()
            try:
                await asyncio.wait_for(self._any.wait(), SETTLE)
            except TimeoutError:
                break
        paths, self._paths = self._paths, set()
        return paths


@contextlib.contextmanager
def watch_files(roots: Iterable[Path], changes: Changes) -> Iterator[None]:
    """Watch the library's folders below each root."""
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer

    # A folder that is made and filled while it is being added is told twice; watchdog warns of it and goes on.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="watchdog")
    observer = Observer()

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            if event.is_directory or event.event_type in ("opened", "closed_no_write"):
                return
            for name in (event.src_path, event.dest_path):
                if name:
                    _tell(Path(str(name)), changes)

    class NewFolders(FileSystemEventHandler):
        """A library folder that is made while watching is watched from then on."""

        def on_created(self, event: FileSystemEvent) -> None:
            path = Path(str(event.src_path))
            if event.is_directory and path.name in FOLDERS:
                observer.schedule(Handler(), str(path), recursive=True)
                for inside in path.rglob("*"):
                    _tell(inside, changes)

    for root in roots:
        if root.is_dir():
            observer.schedule(NewFolders(), str(root), recursive=False)
        for folder in FOLDERS:
            if (root / folder).is_dir():
                observer.schedule(Handler(), str(root / folder), recursive=True)
    observer.start()
    try:
        yield
    finally:
        observer.stop()
        observer.join()


def _tell(path: Path, changes: Changes) -> None:
    if path.suffix in _SUFFIXES and not path.name.startswith("."):
        changes.add(path)
