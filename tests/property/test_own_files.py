"""Any content of a `models.yaml`, a script or prepared answers gives problems, never a crash.

Each value of a valid file is replaced by hostile values, one at a time, and the file by bytes in other encodings.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.library.library import Library
from skillrun.library.privileged_settings import origins
from skillrun.library.roots import Root, package_library
from skillrun.models.catalogue import Catalogue
from skillrun.models.messages import ModelError, Usage
from skillrun.models.scripted import ScriptedGateway, read_script
from skillrun.questions.prepared_answers import read_answers
from skillrun.syntax.diagnostics import Problems, SkillrunError, render_problem
from skillrun.syntax.document import read_yaml
from tests.conftest import TIMES
from tests.unit.models.settings import request

HOSTILE: Final = (
    *("", "null", "true", "0", "-1", "1.5", "7" * 400, "7" * 5000, "0x" + "f" * 300, ".inf", "-.inf", ".nan", "1e999"),
    *("1e308", "''", "' '", "x", "strong", "scripted:x", "embedded", ":", "a:", "'*'", "'[a'", "[]", "{}", "[[]]"),
    *("[1, {a: b}]", "{a: {b: [c]}}", "{answer: }", "{1: 2}", "{? [a] : b}", "2024-01-01", "'{{ x }}'", '"{% if %}"'),
    *("!!python/object/apply:os.system [x]", "!!binary aGk=", "&a b", "*a", '"\\uD800"', '"\\0"', '"\\U0010FFFF"'),
    *('"a\\nb"', "x" * 3000, "[" * 60 + "]" * 60, "https://h/v1", "http://10.0.0.1", "sk-ant-secret", "https://u:p@h"),
)
MODELS: Final = {
    "tiers": {"strong": "o:m", "fast": "quick", "critic": "strong"},
    "elsewhere": ["critic"],
    "prefer": ["openai", "o"],
    "aliases": {"quick": "o:n"},
    "intents": {"latest o": {"provider": "o", "match": "m-*", "fallback": "m-1", "tier": "fast"}},
    "providers": {
        "o": {"kind": "openai", "base_url": "http://localhost/v1", "key": "O_API_KEY", "names": "m-*", "strong": "o:m"},
        "openai": {"window": 1000, "max_output": 100, "thinking": 0, "concurrency": 2, "timeout": 3.5, "tools": True},
    },
    "models": {"o:m": {"window": 100, "input": 1, "output": 2.5, "cache_read": 0.1, "above": 5, "long": {"input": 2}}},
    "embedded": {"path": "x", "seed": 3, "sha256": "x"},
    "retry": {"attempts": 2, "seconds": 10.5, "first": 1},
}
SCRIPT: Final = [
    {"address": "a/*", "model": "scripted:*", "text": "a", "stop": "end", "times": 1, "delay": 0},
    {"calls": [{"name": "Read", "arguments": {"path": "x"}, "id": "c"}]},
    {"fail": "overloaded", "message": "m"},
    {"data": {"a": [1]}},
]
ANSWERS: Final = {"a/b": "x", "c": {"answer": ["x"], "confidence": "high"}, "d": ["x", {"answer": "y"}, None]}
BYTES: Final = (
    lambda text: text.encode("utf-16"),
    lambda text: text.encode("utf-8-sig"),
    lambda text: text.replace("\n", "\r\n").encode(),
    lambda text: text.replace("\n", "\r").encode(),
    lambda text: text.encode() + b"\xff\xfe",
    lambda text: text.encode()[: len(text) // 2],
    lambda text: text.replace(" ", "\t", 1).encode(),
    lambda text: text.replace("\n", "\x00\n", 1).encode(),
    lambda text: text.encode() + b"\n---\n- a\n",
    lambda text: text.encode() * 2,
    lambda text: b"",
    lambda text: b"# nothing\n",
)


class Raw(str):
    """YAML that is written unchanged."""

    __slots__ = ()


def replacements(value: Any) -> Iterator[Callable[[Raw], Any]]:
    """For each path in a value, a function that returns the value with that path replaced."""
    yield lambda raw: raw
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for path, part in parts:
        for inner in replacements(part):
            yield partial(_put, value, path, inner)
    if isinstance(value, dict):
        yield lambda raw: {**value, raw: "x"}


def _put(value: Any, path: Any, inner: Callable[[Raw], Any], raw: Raw) -> Any:
    if isinstance(value, dict):
        return {**value, path: inner(raw)}
    return [*value[:path], inner(raw), *value[path + 1 :]]


def yaml(value: Any) -> str:
    match value:
        case Raw():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{yaml(key)}: {yaml(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(yaml, value)) + "]"
    return json.dumps(value)


SHIPPED: Final = Library([Root(package_library(), "skillrun:", "library")])
SHIPPED.config("models")


def check_models(path: Path) -> bool:
    """Whether the file is valid."""
    library = Library([Root(path.parent.parent, "", "user"), *SHIPPED.roots], SHIPPED)
    config = library.config("models")
    for problem in library.problems:
        render_problem(problem)
    if config is None or library.problems.has_errors:
        return False
    catalogue = Catalogue.from_config(config.data, origins(config))
    for symbol in ("strong", "fast", "critic", "quick", "latest o"):
        for environ in ({}, {"OPENAI_API_KEY": "k"}, {"O_API_KEY": "k"}):
            with suppress(SkillrunError):
                catalogue.price(catalogue.resolve(symbol, environ).model, Usage(10**6, 10**6))
    return True


def check_scripts(path: Path) -> bool:
    problems = Problems()
    rules = read_yaml(path, problems, read_script)
    for problem in problems:
        render_problem(problem)
    if rules is None or problems.has_errors:
        return False
    gateway = ScriptedGateway(rules)
    for rule in gateway.rules:
        rule.delay = 0
    loop = asyncio.new_event_loop()
    for _ in range(4):
        with suppress(ModelError):
            loop.run_until_complete(gateway.send(request("scripted:strong"), "a/b")).to_dict()
    loop.close()
    return True


def check_answers(path: Path) -> bool:
    try:
        prepared = read_answers(path)
    except SkillrunError:
        return False
    for key in ("a/b", "c", "d", "d"):
        with suppress(SkillrunError):
            json.dumps(prepared.take(key, {"id": key}))
    return True


FILES: Final = {
    "models": (MODELS, check_models),
    "script": (SCRIPT, check_scripts),
    "answers": (ANSWERS, check_answers),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "models.yaml"
    path.parent.mkdir()
    return path


@pytest.mark.slow
@pytest.mark.finding("FL1")
@pytest.mark.parametrize("name", FILES)
def test_a_hostile_value_at_any_place_is_read_or_reported(name: str, path: Path) -> None:
    valid, check = FILES[name]
    path.write_text(yaml(valid), encoding="utf-8")
    assert check(path)
    step = max(1, 6 // TIMES)
    for number, replace in enumerate(replacements(valid)):
        for raw in HOSTILE[number % step :: step]:
            path.write_text(yaml(replace(Raw(raw))), encoding="utf-8", errors="surrogatepass")
            check(path)


@pytest.mark.finding("FL1")
@pytest.mark.parametrize("name", FILES)
def test_hostile_bytes_are_read_or_reported(name: str, path: Path) -> None:
    valid, check = FILES[name]
    for encode in BYTES:
        path.write_bytes(encode(yaml(valid).replace("}, ", "},\n ")))
        check(path)
    path.write_bytes(b"a: [" * 200_000)
    check(path)
    path.write_bytes(b"- a\n" * 200)
    check(path)


@pytest.mark.slow
@pytest.mark.finding("FL1")
@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_random_text_in_a_file_is_read_or_reported(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    valid, check = FILES[name]
    text = yaml(valid)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    inserted = data.draw(st.text(max_size=8) | st.sampled_from(HOSTILE))
    folder = tmp_path_factory.mktemp("own")
    (folder / "config").mkdir()
    path = folder / "config" / "models.yaml"
    path.write_text(text[:start] + inserted + text[end:], encoding="utf-8", errors="surrogatepass")
    check(path)
