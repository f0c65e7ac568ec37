"""Converts the prompts of a recorded run to and from JSON, and compares them with the prompts that a case sends."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillrun.extensions.testing.differences import diff_lines
from skillrun.extensions.testing.recorded_replies import round_sort_key
from skillrun.models.messages import Request
from skillrun.store.files import sha256_of
from skillrun.store.journal import Journal

MAX_PROMPTS_BYTES: Final = 20_000_000
_NAME: Final = 16  # hexadecimal digits of the hash that names a text


@dataclass(frozen=True)
class PromptDifference:
    """A call whose prompt differs from the recorded prompt. `-` marks recorded lines, `+` current lines.

    `status` is `differs`, `new` (only the run of the case makes the call), or `gone` (only the recorded run made it).
    """

    address: str
    status: str
    difference: tuple[str, ...] = ()


RecordedPrompt = tuple[str, list[str]]
"""The address of a call, and the texts of its prompt."""


def recorded_prompts(journal: Journal) -> list[RecordedPrompt]:
    """Return the last prompt that a run sent at each address in each round, sorted by round."""
    last: dict[tuple[str, str], list[str]] = {}
    for entry in journal.entries("sent"):
        last[entry.address, str(entry.body.get("round", "1"))] = list_prompt_texts(Request.from_dict(entry.body))
    ordered = sorted(last, key=lambda key: round_sort_key(key[1]))
    return [(address, last[address, number]) for address, number in ordered]


def list_prompt_texts(request: Request) -> list[str]:
    """Return the texts of a prompt, in order: the system prompt, then the messages."""
    return [block.text for block in request.system] + [b.text for message in request.messages for b in message.blocks]


def dump_prompts(prompts: Iterable[RecordedPrompt]) -> str:
    """Return the prompts as JSON. Each distinct text is stored once, as a list of lines keyed by the text's hash."""
    texts: dict[str, list[str]] = {}
    calls = []
    for address, parts in prompts:
        names = [sha256_of(text.encode("utf-8", "surrogatepass"))[:_NAME] for text in parts]
        texts.update(zip(names, (text.split("\n") for text in parts), strict=True))
        calls.append({"address": address, "texts": names})
    return json.dumps({"prompts": calls, "texts": texts}, indent=1) + "\n"


def load_prompts(text: str) -> list[RecordedPrompt]:
    """Return the prompts that `dump_prompts` wrote to a text. Raises ValueError for any other text."""
    data: Any = json.loads(text)
    try:
        texts = {name: "\n".join(lines) for name, lines in data["texts"].items()}
        return [(str(call["address"]), [texts[name] for name in call["texts"]]) for call in data["prompts"]]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a file of recorded prompts: {error}") from None


def prompt_differences(
    recorded: Iterable[RecordedPrompt], sent: Iterable[tuple[str, Request]]
) -> Iterator[PromptDifference]:
    """Yield the sent prompts that differ from the recorded ones, then the recorded prompts that are no longer sent.

    If an address has several prompts, the first sent is compared with the first recorded, and so on.
    """
    recorded_texts: defaultdict[str, list[list[str]]] = defaultdict(list)
    for address, texts in recorded:
        recorded_texts[address].append(texts)
    for address, request in sent:
        texts = list_prompt_texts(request)
        if not recorded_texts[address]:
            yield PromptDifference(address, "new")
        elif (earlier := recorded_texts[address].pop(0)) != texts:
            yield PromptDifference(address, "differs", tuple(diff_lines(_lines(earlier), _lines(texts))))
    for address, remaining in recorded_texts.items():
        yield from (PromptDifference(address, "gone") for _ in remaining)


def _lines(texts: Sequence[str]) -> list[str]:
    return "\n\n".join(texts).splitlines()
