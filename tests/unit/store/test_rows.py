"""Bodies are encoded and decoded without change, and shared texts are stored once."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillrun.store.event_lines import parse_event_line
from skillrun.store.rows import BodyDecoder, BodyTooLarge, body_to_bytes, chain_hash

CHARACTERS = st.characters(exclude_categories=())  # including lone surrogates and control characters
STRINGS = st.text(CHARACTERS, max_size=40) | st.builds(
    str.__mul__, st.text(CHARACTERS, max_size=3), st.integers(0, 3000)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | STRINGS,
    lambda values: st.lists(values, max_size=4) | st.dictionaries(STRINGS, values, max_size=4),
    max_leaves=12,
)
BODIES = st.dictionaries(STRINGS, VALUES, max_size=5)


class Texts:
    """The storage for pieces of long strings, as in a journal."""

    def __init__(self) -> None:
        self.stored: list[bytes] = []

    def number_of(self, text: bytes) -> int:
        if text not in self.stored:
            self.stored.append(text)
        return self.stored.index(text)

    def round_trip(self, body: dict[str, Any]) -> dict[str, Any]:
        return BodyDecoder(self.stored.__getitem__).decode(body_to_bytes(body, self.number_of))


@pytest.mark.slow
@given(BODIES)
def test_a_body_survives_encoding_and_decoding(body: dict[str, Any]) -> None:
    assert Texts().round_trip(body) == body


@pytest.mark.slow
@given(BODIES)
def test_the_keys_of_a_body_keep_their_order(body: dict[str, Any]) -> None:
    assert list(Texts().round_trip(body)) == list(body)


def test_keys_that_look_like_text_markers_are_data() -> None:
    body = {"\0": [1, "x"], "\0\0": {"\0": "long" * 1000}, "\0a": None}
    assert Texts().round_trip(body) == body


def test_a_shared_prompt_prefix_is_stored_once() -> None:
    texts = Texts()
    prefix = "".join(f"line {number}\n" for number in range(1200))
    sizes = []
    for call in range(20):
        body_to_bytes({"messages": [{"text": f"{prefix}task {call}"}]}, texts.number_of)
        sizes.append(sum(map(len, texts.stored)))
    assert sizes[-1] - sizes[0] < 19 * 2100


def test_a_long_reply_quoted_in_the_next_turn_is_stored_once() -> None:
    texts = Texts()
    reply = "".join(f"finding {number}; " for number in range(500))
    body_to_bytes({"text": reply}, texts.number_of)
    before = len(texts.stored)
    body_to_bytes({"messages": [{"blocks": [{"text": reply}]}]}, texts.number_of)
    assert len(texts.stored) == before


@given(st.lists(st.text(max_size=5), min_size=3, max_size=3), st.binary(max_size=5), st.data())
def test_the_chain_hash_depends_on_the_boundaries_of_fields(
    fields: list[str], body: bytes, data: st.DataObject
) -> None:
    kind, address, fingerprint = fields
    cut = data.draw(st.integers(0, len(address)))
    shifted = (kind + address[:cut], address[cut:], fingerprint, body)
    same = shifted == (kind, address, fingerprint, body)
    assert (chain_hash(bytes(32), *shifted) == chain_hash(bytes(32), kind, address, fingerprint, body)) is same


MANY = 1_000_001


@pytest.mark.finding("FA9")
@pytest.mark.parametrize("values", [b"{}," * 600_000 + b"{}", b"[" * MANY, b"1," * MANY + b"1", b'{"a":' * MANY])
def test_a_body_with_too_many_values_is_not_parsed(values: bytes) -> None:
    for body in (values, b'"\\u0000",' + values):  # a body that refers to texts is parsed differently
        with pytest.raises(ValueError, match=r"it has more than 1,000,000 values"):
            BodyDecoder([].__getitem__).decode(b'{"data":[' + body + b"]}")


@pytest.mark.finding("FA9")
def test_an_event_with_too_many_values_is_not_an_event() -> None:
    for count, is_event in [(3, True), (MANY, False)]:
        line = '{"event": "Later", "data": [' + "1," * count + "1]}"
        assert (parse_event_line(line) is not None, parse_event_line(line.encode()) is not None) == (is_event, is_event)


@pytest.mark.finding("FA9")
def test_long_texts_and_the_longest_arguments_of_a_call_are_read_again() -> None:
    row = "," * 500
    for body in ({"text": "a, [b], {c}\n" * 1_000_000}, {"calls": [{"arguments": {"rows": [row] * 1_980}}]}):
        assert Texts().round_trip(body) == body


def body(number: int) -> bytes:
    """A body of 600 bytes with a text of 400 KB."""
    return json.dumps({"text": {"\0": [0] * 200 + [str(number)]}}).encode()


@pytest.mark.finding("FD9")
def test_a_body_takes_limited_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of a few kilobytes can refer to one piece of text a million times."""
    monkeypatch.setattr("skillrun.store.rows.MAX_MEMORY", 1_000_000)
    decoder = BodyDecoder([b"x" * 2000].__getitem__)
    text = b'{"\\u0000":[' + b"0," * 199 + b"0]}"
    assert len(decoder.decode(b'{"a":' + text + b',"b":' + text + b"}")["b"]) == 400_000
    for large in (b'{"a":[' + b",".join([text] * 3) + b"]}", b'{"a":{"\\u0000":[' + b"0," * 600 + b"0]}}"):
        with pytest.raises(BodyTooLarge, match="more than 1,000,000 bytes"):
            decoder.decode(large)
        assert "x" not in str(decoder.decode(large, texts=False))


@pytest.mark.finding("FD9")
def test_a_body_with_very_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillrun.store.rows.MAX_MEMORY", 2_000_000)
    with pytest.raises(BodyTooLarge):
        BodyDecoder([].__getitem__).decode(b'{"a":[' + b"0," * 30_000 + b"0]}")


def test_a_journal_of_any_size_is_read_and_few_of_its_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run has thousands of prompts, of hundreds of kilobytes each."""
    monkeypatch.setattr("skillrun.store.rows.MAX_TEXTS", 1_000_000)
    decoder = BodyDecoder([b"x" * 2000].__getitem__)
    tracemalloc.start()
    try:
        for number in range(100):
            assert len(decoder.decode(body(number))["text"]) > 400_000
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()


def test_equal_texts_of_several_bodies_are_one_object() -> None:
    decoder = BodyDecoder([b"x" * 2000].__getitem__)
    assert decoder.decode(body(1))["text"] is decoder.decode(body(1))["text"]
