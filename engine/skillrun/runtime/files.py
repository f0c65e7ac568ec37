"""Files that are either the old or the new one, never half of it, whatever happens while they are written."""

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path

from skillrun.runtime.checkpoints import reached

_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


def write_atomic(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replace `path` by a file with this content and exactly this mode; it has reached the disk when this returns."""
    data = _bytes(content)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        reached(f"rename {path.name}: before")
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    reached(f"rename {path.name}: after")
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> list[Path]:
    """Remove and return what killed writes left in a folder. For the holder of the run only: live writes look alike."""
    leftovers = sorted(path for path in folder.iterdir() if _LEFTOVER.fullmatch(path.name) and path.is_file())
    for path in leftovers:
        path.unlink()
    return leftovers


def digest(content: str | bytes) -> str:
    """SHA-256 as 64 hexadecimal digits; of a text, that of the bytes `write_atomic` would write."""
    return hashlib.sha256(_bytes(content)).hexdigest()


def _bytes(content: str | bytes) -> bytes:
    """UTF-8. What is no character (half a surrogate pair, which a model's reply can hold) becomes a question mark."""
    return content.encode("utf-8", "replace") if isinstance(content, str) else content
