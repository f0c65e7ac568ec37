"""Packs a project's readable files into an archive named by its hash, and unpacks the archive on a worker.

Leaves out files that git ignores, files that hold secrets, and files that runs have written.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.repository.readable_folder import MAX_FILES, PathWithheld, ReadableFolder
from skillrun.store.files import sha256_of
from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.schemas import quote_value

LARGEST: Final = 200_000_000  # bytes of all files together
LEVEL: Final = 6
EXECUTABLE: Final = 0o100
READ_TIMEOUT: Final = 600.0  # seconds for reading the listed files
RESUBMIT_HINT: Final = "submit the run again; nothing was sent"


@dataclass(frozen=True)
class Bundle:
    """An archive of a project's files, and the names of the files. The same files always give the same bytes."""

    sha: str
    content: bytes
    names: list[str]
    size: int


def pack_project(project: Path, secrets: tuple[str, ...]) -> Bundle:
    """Pack the project's files, except those that match `secrets`. Raises UsageError if the files are too large."""
    sizes: Counter[str] = Counter()
    written = io.BytesIO()
    with (
        ReadableFolder(ConfinedFolder(project.resolve(), links=True), secrets) as readable,
        gzip.GzipFile(fileobj=written, mode="wb", compresslevel=LEVEL, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        names = sorted(list_files(readable, project, "let git ignore files that the run does not need"))
        readable.deadline += READ_TIMEOUT
        for name in names:
            content, status = _content(readable, name, project, sizes)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if status.st_mode & EXECUTABLE else 0o644
            archive.addfile(entry, io.BytesIO(content))
    content = written.getvalue()
    return Bundle(sha256_of(content), content, names, sizes.total())


def _content(readable: ReadableFolder, name: str, project: Path, sizes: Counter[str]) -> tuple[bytes, os.stat_result]:
    """Return the content and status of a file, and add its size to `sizes`.

    Raises UsageError if the file changes while it is read, or if the total of `sizes` exceeds the limit.
    """
    try:
        with readable.open_path(name, is_checked=True) as opened, os.fdopen(os.dup(opened.descriptor), "rb") as file:
            status = os.fstat(file.fileno())
            sizes[name.partition("/")[0]] += status.st_size
            if sizes.total() > LARGEST:
                largest = ", ".join(f"{name} ({size / 1e6:,.0f} MB)" for name, size in sizes.most_common(3))
                message = f"the files of {project} exceed {LARGEST / 1e6:,.0f} MB; largest so far: {largest}"
                raise UsageError(message, "let git ignore files that the run does not need; nothing was sent")
            content = file.read(status.st_size + 1)
            after = os.fstat(file.fileno())
    except (OSError, PathRefused, PathWithheld, TimeoutError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name} changed while the project was packed: {why}", RESUBMIT_HINT) from error
    if len(content) != status.st_size or after.st_mtime_ns != status.st_mtime_ns:
        raise UsageError(f"{name} changed while the project was packed", RESUBMIT_HINT)
    return content, status


def list_files(readable: ReadableFolder, folder: Path, hint: str) -> list[str]:
    """Return the names of all files. Raises UsageError if there are too many, or if listing takes too long."""
    try:
        names = list(readable.files())
    except TimeoutError:
        raise UsageError(f"listing {folder} takes too long", hint) from None
    if len(names) >= MAX_FILES:
        raise UsageError(f"{folder} has more than {MAX_FILES:,} files", hint)
    return names


def unpack_project(sha: str, content: bytes, folder: Path) -> Path:
    """Return the folder `folder/<sha>` with the unpacked project. Unpack only if the folder does not exist.

    A failure leaves no partly unpacked project. Raises SkillrunError if the archive does not match its hash or cannot
    be read.
    """
    place = folder / sha
    if place.is_dir():
        return place
    if sha256_of(content) != sha:
        raise SkillrunError(f"the archive {sha[:12]} of the run does not match its hash", "submit the run again")
    try:
        with fill_folder(place) as made:
            _extract(content, made)
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        message = f"the archive {sha[:12]} of the run cannot be unpacked: {error}"
        raise SkillrunError(message, f"inspect {folder}") from error
    return place


@contextmanager
def fill_folder(place: Path) -> Iterator[Path]:
    """Yield an empty folder, which becomes `place` when the block ends, unless another process was faster.

    A failure leaves nothing. Raises SkillrunError if the parent folder cannot be written.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    except OSError as error:
        message = f"{place.parent} cannot be written: {error.strerror}"
        raise SkillrunError(message, "check the free space and the permissions") from error
    try:
        yield made
        made.replace(place)
    except OSError:
        if not place.is_dir():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _extract(content: bytes, folder: Path) -> None:
    """Write the files of an untrusted archive. Raises ValueError for an entry that `pack_project` never writes."""
    remaining = LARGEST
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        for number, entry in enumerate(archive):
            remaining -= entry.size
            if remaining < 0 or number >= MAX_FILES:
                raise ValueError("it exceeds the limits of a project")
            parts = PurePosixPath(entry.name).parts
            file = archive.extractfile(entry) if entry.isreg() else None
            if file is None or not parts or ".." in parts or PurePosixPath(entry.name).is_absolute():
                raise ValueError(f"{quote_value(entry.name)} is not a valid path in a project")
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as written:
                shutil.copyfileobj(file, written)
            path.chmod(entry.mode & 0o755 | 0o600)
