"""Names of runs: made from requests in any script, and listed with the request."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tests.acceptance.conftest import Call, Make

REQUESTS = {
    "给倒推引擎加日志": "给倒推引擎加日志",
    "Добавь тёмный режим!": "добавь-тёмный-режим",
    "ガイド を 書く": "ガイド-を-書く",
    "🙂": "run",
}


@pytest.fixture
def greet(project: Make, skillrun: Call) -> Call:
    project("greeting")
    return lambda *words: skillrun("greeting", *words, "--model", "scripted:default", "--unattended")


@pytest.mark.finding("FX7")
def test_runs_are_named_after_requests_in_any_script_and_list_them(greet: Call, skillrun: Call) -> None:
    for request, name in REQUESTS.items():
        assert f"starting {name} in" in greet(request).out
    listed = {row["run"]: row["request"] for row in skillrun("runs", "--json").json}
    assert listed == {name: request for request, name in REQUESTS.items()}
    shown = skillrun("runs").out
    assert all(request in shown for request in REQUESTS)
    assert sorted(path.name for path in Path("runs").iterdir() if path.is_dir()) == sorted(REQUESTS.values())


@pytest.mark.finding("FX7")
def test_names_that_differ_only_by_case_or_normalization_are_numbered(greet: Call, skillrun: Call) -> None:
    for text in ("Ёлка", "ёлка", unicodedata.normalize("NFD", "ЁЛКА")):
        assert greet(text).code == 0
    assert {row["run"] for row in skillrun("runs", "--json").json} == {"ёлка", "ёлка-2", "ёлка-3"}
    assert skillrun("show", unicodedata.normalize("NFD", "ёлка-2")).code == 0
    assert greet("x", "--name", unicodedata.normalize("NFD", "ёж")).code == 0
    assert Path("runs/ёж").is_dir()


@pytest.mark.finding("FX7")
def test_a_long_request_gives_a_name_that_the_file_system_takes(greet: Call, skillrun: Call) -> None:
    assert greet("\U00020bb7" * 300).code == 0
    assert greet("\U00020bb7" * 300).code == 0
    rows = skillrun("runs", "--json").json
    assert all(len(row["run"].encode()) < 200 for row in rows)
    assert {row["request"] for row in rows} == {"\U00020bb7" * 99 + "…"}


@pytest.mark.finding("FX7")
@pytest.mark.parametrize("name", ["ЁЖ", "ёж.", ".ёж", "-ёж", "ё/ж", "café"])
def test_a_name_that_is_not_a_slug_is_refused(name: str, greet: Call) -> None:
    done = greet("x", "--name", name)
    assert done.code != 0
    assert not Path("runs").exists() or not any(Path("runs").iterdir())
