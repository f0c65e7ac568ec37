"""Any text survives being written to and read from the files of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillrun.events import Said
from skillrun.questions.answers import Question
from skillrun.questions.form import UnclearAnswers, read_form, write_form
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.store.frontmatter import from_frontmatter, to_frontmatter
from skillrun.store.local.journal import SqliteJournal
from skillrun.store.local.local_files import LocalFiles
from skillrun.store.local.local_run import LocalRun
from skillrun.store.local.transcript import LocalTranscript
from skillrun.store.state import State
from skillrun.store.summaries import Summary
from skillrun.syntax.diagnostics import sanitize

SPECIAL_CODES = [
    *range(0x300),
    *range(0x2000, 0x2070),
    *(
        0x61C,
        0x180E,
        0x3000,
        0xFEFF,
        0xFDD0,
        *range(0xFFF0, 0x10000),
        0x1FFFE,
        0x1FFFF,
        0x1F600,
        0xE0001,
        0xE007F,
        0x10FFFF,
    ),
]
TEMPLATES = (
    "%s",
    "%sa",
    "a%sb",
    "a %s b",
    "a\n%s\nb",
    "a%s",
    "- %s",
    ": %s",
    "#%s",
    "x" * 130 + " %s " + "y" * 130,
    "%s%s",
)
TEXT = st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("\n\t'\"\\:#-?|>{}[]&*!%@`\u2028\x85\ufeff "))
DATA = st.recursive(
    TEXT | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

pytestmark = [pytest.mark.finding("FZ9", "FM3"), pytest.mark.row("Z4")]


def all_characters() -> Iterator[str]:
    """Return all Unicode characters in chunks."""
    for start in range(0, 0x110000, 0x1000):
        yield "".join(chr(code) for code in range(start, start + 0x1000) if not 0xD800 <= code < 0xE000)


def write_and_read(tmp_path: Path, data: dict[str, Any], body: str = "") -> tuple[dict[str, Any], str]:
    path = tmp_path / "record.md"
    path.write_bytes(to_frontmatter(data, body).encode("utf-8"))
    return from_frontmatter(path)


@pytest.mark.slow
def test_every_character_survives_frontmatter(tmp_path: Path) -> None:
    for text in filter(None, all_characters()):
        assert write_and_read(tmp_path, {"a": text, "b": [text[::-1]]})[0] == {"a": text, "b": [text[::-1]]}


@pytest.mark.slow
def test_special_characters_survive_frontmatter_in_every_position(tmp_path: Path) -> None:
    for start in range(0, len(SPECIAL_CODES), 40):
        texts = [
            template.replace("%s", chr(code)) for code in SPECIAL_CODES[start : start + 40] for template in TEMPLATES
        ]
        data = {"list": texts, "keys": {text: number for number, text in enumerate(texts)}}
        assert write_and_read(tmp_path, data)[0] == data


def test_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    texts = ["46e979573522", "1e400", "-2E9999", "9" * 401, "0x1f", "0o17", ".5", "1.", "true", "~"]
    assert write_and_read(tmp_path, {"a": texts})[0] == {"a": texts}


@pytest.mark.finding("FB1")
@pytest.mark.parametrize("text", ["a\n\n", "a\nb\n\n\n", "...\n\n", "a\n...\n", "a...", "---\n\n", "\n\n", "a\n \n\n"])
def test_a_text_that_ends_with_empty_lines_survives_before_other_entries(tmp_path: Path, text: str) -> None:
    places: list[Any] = [text, [text], {"a": text}, [{"a": text}, text], {text: 1}, {"a": {text: text}}]
    data = {**{f"k{number}": place for number, place in enumerate(places)}, text: text, "last": 1}
    assert write_and_read(tmp_path, data, "body\n\n") == (data, "body\n\n")
    assert write_and_read(tmp_path, {"only": text}) == ({"only": text}, "")


@FIXTURE
@given(st.dictionaries(TEXT, DATA, max_size=4), TEXT)
def test_any_data_survives_frontmatter(tmp_path: Path, data: dict[str, Any], body: str) -> None:
    assert write_and_read(tmp_path, data, sanitize(body)) == (data, sanitize(body))


def test_control_and_invisible_characters_are_escaped_in_frontmatter() -> None:
    frontmatter = to_frontmatter({"a": "\x1b[31m\u202e\u2066\u200b\x9b\U000e0041", "k\u202e": "\ufeff"})
    assert frontmatter == (
        '---\na: "\\e[31m\\U0000202e\\U00002066\\U0000200b\\x9B\\U000E0041"\n"k\\U0000202e": "\\uFEFF"\n---\n'
    )


def test_a_lone_surrogate_does_not_prevent_writing_a_record(tmp_path: Path) -> None:
    assert write_and_read(tmp_path, {"k\ud800": "\udfff"})[0] == {"k\ufffd": "\ufffd"}


@pytest.mark.slow
@FIXTURE
@given(TEXT, TEXT)
def test_any_text_survives_the_state_a_summary_and_the_journal(
    tmp_path_factory: pytest.TempPathFactory, text: str, key: str
) -> None:
    path = tmp_path_factory.mktemp("run")
    store = LocalRun(path).data()
    state = State("w", "2026-01-01", {"i": text}, {key: text}, reason=text)
    store.state.write(state, [text, f"a {text} b"])
    restored, log = LocalRun(path).data().state.read()
    assert (restored.inputs, restored.state, restored.reason) == ({"i": text}, {key: text}, text)
    assert len(log) == 2
    body = (path / "state.md").read_text(encoding="utf-8").partition("\n---\n")[2]
    assert all(line in ("", "# Log") or line.startswith("- ") for line in body.splitlines())
    summary = {"phase": "p", "status": "completed", "summary": sanitize(text), "outputs": {key: text}}
    asyncio.run(store.summaries.put("p", Summary.from_record(summary)))
    restored_summary = LocalRun(path).data().summaries.find_completed("p")
    assert restored_summary is not None
    assert restored_summary.record == summary

    async def record() -> None:
        with closing(SqliteJournal.create(path)) as journal:
            await journal.record("answer", "a", "f", {"answers": text, key: 1})
            assert journal.find("answer", "a", "f") == {"answers": text, key: 1}

    asyncio.run(record())


@FIXTURE
@given(st.text())
def test_any_text_survives_the_ascii_transcript(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".run" / "transcript.ndjson"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)

    async def write_event() -> None:
        with ConfinedFolder(tmp_path) as folder, closing(LocalTranscript(folder)) as transcript:
            transcript.write_event(Said("p", f"{text}\ud83d\u202e\x9b"))

    asyncio.run(write_event())
    assert path.read_bytes().isascii()
    assert json.loads(path.read_text(encoding="ascii"))["text"] == f"{text}\ud83d\u202e\x9b"


@given(TEXT, st.lists(TEXT, max_size=3))
def test_the_questions_of_a_form_are_recognized_whatever_their_text(
    tmp_path_factory: pytest.TempPathFactory, text: str, choices: list[str]
) -> None:
    questions: list[Question] = [{"id": "q", "text": text, "choices": choices, "default": ""}]
    with ConfinedFolder(tmp_path_factory.mktemp("form")) as folder:
        files = LocalFiles(folder)
        assert write_form(files, "form.md", questions)
        try:
            assert read_form(files, "form.md", questions).answers == [{}]
        except UnclearAnswers as unclear:
            raise AssertionError(unclear.message) from unclear
