"""Redaction of keys: every part of at least eight characters is removed, all other text is kept, and it is fast."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import process_time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skillrun.models.redaction import PIECE, PREFIXES, REDACTED, Redactor, strip_userinfo

KEY = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=PIECE, max_size=60)


@pytest.mark.finding("FZ10")
@given(KEY, st.text(max_size=40), st.text(max_size=40), st.data())
def test_no_part_of_a_key_is_left(key: str, before: str, after: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(key) - PIECE))
    end = data.draw(st.integers(start + PIECE, len(key)))
    assume(not re.fullmatch("[a-z]{1,12}", key) and not any(prefix in key.lower() for prefix in PREFIXES))
    text = Redactor([key]).redact_text(before + key[start:end] + after)
    for part in text.split(REDACTED):
        assert not any(key[index : index + PIECE] in part for index in range(len(key) - PIECE + 1))


@given(st.text(max_size=200))
def test_a_text_without_a_key_is_unchanged(text: str) -> None:
    assert Redactor(["\x00" * 20]).redact_text(text) == text
    assert Redactor([]).redact_text(text) == text


def test_the_text_around_a_key_is_kept() -> None:
    redactor = Redactor(["sk-A1b2C3d4E5f6", "other-key-1234"])
    assert redactor.redact_text("(sk-A1b2C3d4E5f6)") == "([key])"
    assert redactor.redact_text("sk-A1b2C3d4E5f6sk-A1b2C3d4E5f6") == "[key]"
    assert redactor.redact_text("xxsk-A1b2C3d4yyC3d4E5f6zz") == "xx[key]yy[key]zz"
    assert redactor.redact_value({"a": ["other-key-1234", 5, None], "other-key-1234": True}) == {
        "a": ["[key]", 5, None],
        "[key]": True,
    }


def test_a_short_key_is_removed_from_errors_only() -> None:
    redactor = Redactor(["ollama"])
    assert redactor.redact_text("ollama runs") == "ollama runs"
    assert redactor.redact_error("wrong: ollama") == "wrong: [key]"


@pytest.mark.row("Z5")
def test_a_key_that_is_one_lowercase_word_is_removed_from_errors_only() -> None:
    redactor = Redactor(["placeholder"])
    assert redactor.redact_value({"placeholder": ["a placeholder", "cGxhY2Vob2xkZXI="]}) == {
        "placeholder": ["a placeholder", "cGxhY2Vob2xkZXI="]
    }
    assert redactor.redact_error("wrong: placeholder") == "wrong: [key]"
    for secret in ("placeholder1", "Placeholder", "abcdefghijklmnop"):
        assert Redactor([secret]).redact_text(f"a {secret}") == "a [key]"


@pytest.mark.row("Z5")
@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_public_prefix_of_a_key_is_kept_unless_key_characters_follow(prefix: str) -> None:
    key = f"{prefix}A1b2C3d4E5f6G7h8"
    redactor = Redactor([key])
    manual = f"keys begin with `{prefix}`, as {prefix}… or {prefix.upper()}xyz"
    assert redactor.redact_text(manual) == manual
    assert redactor.redact_text(f"is {key}.") == "is [key]."
    assert redactor.redact_text(f"is {prefix}A.") == "is [key]."
    assert redactor.redact_text(f"is {key[len(prefix) :]}.") == "is [key]."
    assert redactor.redact_text(f"`{prefix}` and {key}") == f"`{prefix}` and [key]"


@pytest.mark.finding("FZ10")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("at http://ada:pass@host:80/v1, and", "at http://host:80/v1, and"),
        ("https://token@host", "https://host"),
        ("https://a:b@c@host/x", "https://host/x"),
        ("https://host/a@b", "https://host/a@b"),
        ("mail ada@host", "mail ada@host"),
    ],
)
def test_a_url_is_shown_without_user_and_password(url: str, shown: str) -> None:
    assert strip_userinfo(url) == shown


@pytest.mark.slow
def test_redaction_is_fast() -> None:
    keys = [f"sk-ant-api03-{number}{'aB3dE5gH' * 12}" for number in range(3)]
    text = "The handler reads `session_configuration` from the database_connection; see https://example.org/a/b. " * 100
    redactor = Redactor(keys)
    started = process_time()
    for _ in range(20):
        assert redactor.redact_text(text) == text
    assert (process_time() - started) / 20 < 0.05
    big = "a" * 1_000_000
    started = process_time()
    assert redactor.redact_text(big) == big
    assert process_time() - started < 5


@pytest.mark.finding("FZ10")
@pytest.mark.row("Z5")
@pytest.mark.parametrize(
    "between",
    [
        "\x1b[0m",
        "\x1b]0;x\x07",
        "\x00",
        "\x07",
        "\x7f",
        "\x9b0m",
        "\u202e",
        "\u2066",
        "\u200b",
        "\xad",
        "\ufeff",
        "\\u0000",
    ],
)
def test_a_key_with_invisible_characters_is_found(between: str) -> None:
    key = "sk-CANARYkey-0123456789abcdefXYZ"
    hidden = between.join(key[index : index + 4] for index in range(0, len(key), 4))
    assert Redactor([key]).redact_text(f"HERE {hidden} THERE\n") == "HERE [key] THERE\n"


@pytest.mark.finding("FZ10")
@pytest.mark.row("Z5")
@pytest.mark.parametrize(
    "encode",
    [
        pytest.param(lambda letter: f"\\u{ord(letter):04x}", id="json"),
        pytest.param(lambda letter: f"%{ord(letter):02X}", id="url"),
        pytest.param(lambda letter: chr(ord(letter) + 0xFEE0), id="full width"),
    ],
)
def test_a_key_with_encoded_letters_is_found(encode: Callable[[str], str]) -> None:
    key = "sk-CANARYkey-0123456789abcdefXYZ"
    text = f'{{"title": "{"".join(map(encode, key))}", "n": "a\\nb"}}'
    assert Redactor([key]).redact_text(text) == '{"title": "[key]", "n": "a\\nb"}'
