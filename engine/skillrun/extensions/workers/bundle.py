"""Packs a project's readable files into an archive named by its hash, and unpacks the archive on a worker.

Leaves out files that git ignores, files that hold secrets, and files that runs have written.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENAMETOOLONG
from pathlib import Path
from typing import BinaryIO, Final

from skillrun.repository.confined_folder import LONGEST, ConfinedFolder
from skillrun.repository.paths import PathRefused, fold_name, is_reserved_by_git
from skillrun.repository.readable_folder import DEEPEST, MAX_FILES, MAX_PROJECT_BYTES, PathWithheld, ReadableFolder
from skillrun.store.files import sha256_of
from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.schemas import quote_value

LEVEL: Final = 6
EXECUTABLE: Final = 0o100
BLOCK: Final = tarfile.BLOCKSIZE
MAX_BUNDLE_BYTES: Final = MAX_PROJECT_BYTES + MAX_FILES * 10_000  # incompressible files with long names
MAX_HEADER: Final = 3 * LONGEST  # bytes of a long name with what belongs to it
CHUNK: Final = 1_000_000  # bytes
READ_TIMEOUT: Final = 600.0  # seconds for reading the listed files
RESUBMIT_HINT: Final = "submit the run again; nothing was sent"


class InvalidRun(SkillrunError):
    """No worker can execute the run: its row, its project or its repository is invalid."""


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
        ReadableFolder(ConfinedFolder(Path(os.path.realpath(project)), links=True), secrets) as readable,
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
            if sizes.total() > MAX_PROJECT_BYTES:
                largest = ", ".join(f"{name} ({size / 1e6:,.0f} MB)" for name, size in sizes.most_common(3))
                message = f"the files of {project} exceed {MAX_PROJECT_BYTES / 1e6:,.0f} MB; largest so far: {largest}"
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


def unpack_project(sha: str, content: BinaryIO, folder: Path) -> Path:
    """Return the folder `folder/<sha>` with the unpacked project. Unpack only if the folder does not exist.

    `content` is the archive, which is read from its start.

    A failure leaves no partly unpacked project. Raises InvalidRun if the archive does not match its hash or is invalid,
    and SkillrunError if this machine cannot write it.
    """
    place = folder / sha
    if place.is_dir():
        return place
    digest = hashlib.sha256()
    content.seek(0)
    while piece := content.read(CHUNK):
        digest.update(piece)
    if digest.hexdigest() != sha:
        raise InvalidRun(f"the archive {sha[:12]} of the run does not match its hash", "submit the run again")
    try:
        content.seek(0)
        with fill_folder(place) as made:
            _extract(content, made)
    except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError, *_INVALID_NAMES) as error:
        message = f"the archive {sha[:12]} of the run cannot be unpacked: {error}"
        raise InvalidRun(message, "submit the run again") from error
    except OSError as error:
        if error.errno == ENAMETOOLONG:
            raise InvalidRun(f"the archive {sha[:12]} of the run has a name that is too long") from error
        hint = "check the free space and the permissions"
        raise SkillrunError(f"{folder} cannot be written: {error.strerror}", hint) from error
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


_INVALID_NAMES: Final = (FileExistsError, NotADirectoryError, IsADirectoryError)
"""The errors for two files with the same name, and for a file and a folder with the same name."""


def _extract(content: BinaryIO, folder: Path) -> None:
    """Write the files of an untrusted archive.

    Reads the blocks itself: `tarfile` reads headers of any size, and searches them for quadratic time. Raises
    ValueError, EOFError, OSError, tarfile.TarError and zlib.error for what `pack_project` never writes.
    """
    remaining_bytes, remaining_files, long_name = MAX_PROJECT_BYTES, MAX_FILES, ""
    with gzip.GzipFile(fileobj=content) as stream:
        while (header := _read_block(stream, BLOCK)) != bytes(BLOCK):
            entry = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            if entry.type == tarfile.XHDTYPE and 0 < entry.size <= MAX_HEADER and not long_name:
                long_name = _long_name(_read_block(stream, entry.size))
                _read_block(stream, -entry.size % BLOCK)
                continue
            name, long_name = long_name or entry.name, ""
            remaining_bytes, remaining_files = remaining_bytes - entry.size, remaining_files - 1
            if min(remaining_bytes, remaining_files) < 0:
                raise ValueError("it exceeds the limits of a project")
            if entry.type != tarfile.REGTYPE or entry.size < 0 or not _is_project_path(name):
                raise ValueError(f"{quote_value(name)} is not a valid path in a project")
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as written:
                for start in range(0, entry.size, CHUNK):
                    written.write(_read_block(stream, min(CHUNK, entry.size - start)))
            _read_block(stream, -entry.size % BLOCK)
            path.chmod(0o755 if entry.mode & EXECUTABLE else 0o644)


def _read_block(stream: gzip.GzipFile, size: int) -> bytes:
    """Return the next `size` bytes. Raises EOFError if there are fewer."""
    content = stream.read(size)
    if len(content) != size:
        raise EOFError("it is not complete")
    return content


def _long_name(header: bytes) -> str:
    """Return the path in an extended header, which has records `LENGTH KEY=VALUE` with a line end."""
    name = ""
    while header:
        length = header.partition(b" ")[0]
        record = header[: int(length)]
        key, _, value = record[len(length) + 1 : -1].partition(b"=")
        if key not in (b"path", b"hdrcharset") or int(length) != len(record):
            raise ValueError("it has an invalid header")
        name = value.decode("utf-8", "surrogateescape") if key == b"path" else name
        header = header[len(record) :]
    return name


def _is_project_path(name: str) -> bool:
    """Whether `pack_project` can write the name: a relative path that is not in a folder of git or of a run."""
    parts = name.split("/")
    is_reserved = any(
        part in ("", ".", "..") or is_reserved_by_git(part) or fold_name(part) == ".run" for part in parts
    )
    return not is_reserved and "\0" not in name and len(name) <= LONGEST and len(parts) <= DEEPEST + 1
