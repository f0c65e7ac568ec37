"""The prompts of the run that a case was recorded from: kept beside it, each text once, and held against what is sent.

Reads and writes no file.
"""

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
_NAME: Final = 16  # digits of a text's hash


@dataclass(frozen=True)
class PromptDifference:
    """A call whose prompt is another than the recorded one: `-` is recorded, `+` is there.

    `status`: `differs`; `new`, where the run of the record has not made it; `gone`, where the case's run does not.
    """

    address: str
    status: str
    difference: tuple[str, ...] = ()


RecordedPrompt = tuple[str, list[str]]
"""An address, and the texts that its prompt is made of."""


def recorded_prompts(journal: Journal) -> list[RecordedPrompt]:
    """What a run has sent last at each address in each round; of one address in the order of the rounds."""
    last: dict[tuple[str, str], list[str]] = {}
    for entry in journal.entries("sent"):
        last[entry.address, str(entry.body.get("round", "1"))] = list_prompt_texts(Request.from_dict(entry.body))
    ordered = sorted(last, key=lambda key: round_sort_key(key[1]))
    return [(address, last[address, number]) for address, number in ordered]


def list_prompt_texts(request: Request) -> list[str]:
    """The texts of a prompt; two of them have an empty line between them."""
    return [block.text for block in request.system] + [b.text for message in request.messages for b in message.blocks]


def dump_prompts(prompts: Iterable[RecordedPrompt]) -> str:
    """What is kept: every text once, as a list of lines, by its hash."""
    texts: dict[str, list[str]] = {}
    calls = []
    for address, parts in prompts:
        names = [sha256_of(text.encode("utf-8", "surrogatepass"))[:_NAME] for text in parts]
        texts.update(zip(names, (text.split("\n") for text in parts), strict=True))
        calls.append({"address": address, "texts": names})
    return json.dumps({"prompts": calls, "texts": texts}, indent=1) + "\n"


def load_prompts(text: str) -> list[RecordedPrompt]:
    """The prompts that `to_json` was given. Raises ValueError for anything else."""
    data: Any = json.loads(text)
    try:
        texts = {name: "\n".join(lines) for name, lines in data["texts"].items()}
        return [(str(call["address"]), [texts[name] for name in call["texts"]]) for call in data["prompts"]]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it holds no prompts: {error}") from None


def prompt_differences(
    recorded: Iterable[RecordedPrompt], sent: Iterable[tuple[str, Request]]
) -> Iterator[PromptDifference]:
    """What is sent otherwise than it was, in the order of what is sent; what is not sent any more comes last.

    Of an address that has several prompts the first stands beside the first.
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
