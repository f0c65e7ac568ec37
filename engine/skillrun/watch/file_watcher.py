"""Watches the search path for changed files, and reads the time stamps of the files in a run's folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from skillrun.library.roots import FOLDERS, Root
from skillrun.store.artifacts import SUMMARIES
from skillrun.store.state import STATE
from skillrun.syntax.reading import is_outside

BURST_SECONDS: Final = 0.005  # seconds to wait for another change after a save
SETTLE_SECONDS: Final = 0.15  # seconds to wait if a file is invalid, since editors write in several steps
_SUFFIXES: Final = (".md", ".yaml")

FileStamps = dict[str, tuple[int, int]]
"""The modification time in nanoseconds and the size of each file, keyed by file name."""


class ChangedFiles:
    """Collects changed files until they are drained."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._paths: set[Path] = set()
        self._any = asyncio.Event()

    def add(self, path: Path) -> None:
        """Add a path. Called from the watching thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.put, [path])

    def put(self, paths: Iterable[Path]) -> None:
        """Put files into the collection. Called from the event loop."""
        self._paths.update(paths)
        self._any.set()

    async def wait_for_changes(self) -> set[Path]:
        """Wait for a change, and then until changes stop. Return the changed files."""
        await self._any.wait()
        while await self.wait_for_more(BURST_SECONDS):
            """Wait for the next pause."""
        return self.drain()

    def drain(self) -> set[Path]:
        """Return the changed files and clear the collection."""
        paths, self._paths = self._paths, set()
        self._any.clear()
        return paths

    async def wait_for_more(self, seconds: float) -> bool:
        """Return whether another change occurs within `seconds`."""
        self._any.clear()
        try:
            await asyncio.wait_for(self._any.wait(), seconds)
        except TimeoutError:
            return False
        return True


def read_file_stamps(folder: Path) -> FileStamps:
    """Return the modification time and size of each file that the user may edit in a run's folder."""
    found = {}
    for top, folders, names in os.walk(folder):
        inside = Path(top).relative_to(folder)
        folders[:] = [name for name in folders if not name.startswith(".") and name != SUMMARIES]
        for name in names:
            if name.startswith(".") or name.endswith("~") or name == STATE:
                continue
            with contextlib.suppress(OSError):
                status = (Path(top) / name).stat(follow_symlinks=False)
                found[(inside / name).as_posix()] = (status.st_mtime_ns, status.st_size)
    return found


@contextlib.contextmanager
def watch_files(roots: Iterable[Root], changes: ChangedFiles) -> Iterator[None]:
    """Watch the library's folders below each root. A folder that is a link out of a confined root is not watched."""
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer

    # If a folder is created and filled while watchdog adds it, watchdog warns, and reports the folder's files twice.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="watchdog")
    observer = Observer()

    class LibraryChangeHandler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            if event.is_directory or event.event_type in ("opened", "closed_no_write"):
                return
            for name in (event.src_path, event.dest_path):
                if name:
                    _report_change(Path(str(name)), changes)

    class NewFolderHandler(FileSystemEventHandler):
        """Starts watching a library folder that is created later."""

        def on_created(self, event: FileSystemEvent) -> None:
            path = Path(str(event.src_path))
            if event.is_directory and path.name in FOLDERS:
                observer.schedule(LibraryChangeHandler(), str(path), recursive=True)
                for inside in path.rglob("*"):
                    _report_change(inside, changes)

    for root in roots:
        if root.path.is_dir():
            observer.schedule(NewFolderHandler(), str(root.path), recursive=False)
        for folder in (root.path / name for name in FOLDERS):
            if folder.is_dir() and not is_outside(folder, root.boundary):
                observer.schedule(LibraryChangeHandler(), str(folder), recursive=True)
    observer.start()
    try:
        yield
    finally:
        observer.stop()
        observer.join()


def _report_change(path: Path, changes: ChangedFiles) -> None:
    if path.suffix in _SUFFIXES and not path.name.startswith("."):
        changes.add(path)
