"""Removes the machinery of models from replies: thoughts, and tool calls that are written as text.

Servers should separate both from the text. Many do not, because they do not know the model's format.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from skillrun.structured_output.values import MAX_DEPTH, is_deeper

_FENCED: Final = r"^(?P<fence>`{3,8}|~{3,8}).*?^(?P=fence)"
_FLAGS: Final = re.DOTALL | re.IGNORECASE | re.MULTILINE
_TAGS: Final = "think(?:ing)?|thoughts?|reasoning|seed:think"
_FIRST_THOUGHTS: Final = re.compile(rf"\A\s*+(?:<(?P<tag>{_TAGS})>.*?</(?P=tag)>\s*+)+", _FLAGS)
_THOUGHTS: Final = re.compile(rf"{_FENCED}|^[ \t]*(?:<(?P<tag>{_TAGS})>.*?(?:</(?P=tag)>\s*|\Z))+", _FLAGS)
_END_OF_THOUGHTS: Final = re.compile(
    rf"{_FENCED}|(?:^[ \t]*|(?<![`'\"]))</(?:{_TAGS})>[ \t]*$\s*|(?<=[.!?:)\]…])</(?:{_TAGS})>\s*", _FLAGS
)
_OTHER_TAGS: Final = (
    (r"◁(?P<slash>/?)think▷", r"<\g<slash>think>"),
    (r"\[(?P<slash>/?)THINK\]", r"<\g<slash>think>"),
    (r"<\|(?:START_THINKING|begin_of_thought)\|>", "<think>"),
    (r"<\|(?:END_THINKING|end_of_thought)\|>", "</think>"),
)
"""Other marks of thoughts, and the tags that they mean."""
_LAST_TOKENS: Final = re.compile(
    r"(?:(?:<\|(?:im_end|eot_id|end|return|endoftext|end_of_text|eom_id|END_RESPONSE)\|>|<end_of_turn>|</s>)\s*+)++"
)
"""Tokens that end a turn. They are no text, and are removed from the end of a reply."""
_START: Final = "<|start|>assistant"
_FIRST_CHANNEL: Final = re.compile(rf"{_FENCED}|(?:\A\s*+|{re.escape(_START)})(?P<channel><\|channel\|>)", _FLAGS)
"""The beginning of the channels in a text of gpt-oss. The same tokens inside a text are quoted."""
_CHANNEL: Final = re.compile(
    r"<\|channel\|>(?P<name>[^<]*)(?:<\|constrain\|>[^<]*)?<\|message\|>(?P<text>.*?)"
    r"(?:<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)|\Z)",
    re.DOTALL,
)
_RECIPIENT: Final = re.compile(r"\bto=(?:functions\.)?([\w.-]+)")
_PLAIN_CHANNELS: Final = re.compile(r"\Aanalysis.*?assistantfinal", re.DOTALL)
"""The channels of gpt-oss after a server has removed their tokens."""
_ANY_MARK: Final = re.compile(r"[<◁]|\[/?THINK\]|\Aanalysis", re.IGNORECASE)
"""The marks of all machinery begin with one of these. Most replies have none, so nothing else is searched."""


def split_thoughts(text: str) -> tuple[str, str]:
    """Return a reply without the thoughts that some models write before it, and the doubtful part of the thoughts: all
    but those in closed tags at the beginning, and in channels.

    A closing tag alone ends thoughts whose opening tag the model's server has removed. Tags inside lines and code
    fences are part of the reply. Thoughts are doubtful because a model can quote tags.
    """
    if not _ANY_MARK.search(text):
        return text, ""
    doubtful: list[str] = []
    first = next((match for match in _FIRST_CHANNEL.finditer(text) if match["channel"]), None)
    if first is not None:
        doubtful.append(text[: first.start()])
        text, rest = _read_channels(text[first.start("channel") :])
        doubtful.append(rest)
    elif (plain := _PLAIN_CHANNELS.match(text)) is not None:
        doubtful.append(plain[0])
        text = text[plain.end() :]
    for pattern, tag in _OTHER_TAGS:

        def replace_tag(match: re.Match[str], tag: str = tag) -> str:
            return match[0] if match["fence"] else match.expand(tag)

        text = re.sub(rf"{_FENCED}|{pattern}", replace_tag, text, flags=_FLAGS)

    def remove(match: re.Match[str]) -> str:
        if match["fence"]:
            return match[0]
        doubtful.append(match[0])
        return ""

    text = _THOUGHTS.sub(remove, _FIRST_THOUGHTS.sub("", text))
    closed = [match.end() for match in _END_OF_THOUGHTS.finditer(text) if not match["fence"]]
    if closed:
        doubtful.append(text[: closed[-1]])
        text = text[closed[-1] :]
    ends = [match.span() for match in _LAST_TOKENS.finditer(text)]
    if ends and ends[-1][1] == len(text):
        text = text[: ends[-1][0]].rstrip()
    return text, "\n".join(filter(str.strip, doubtful))


def _read_channels(text: str) -> tuple[str, str]:
    """Return the final channel of a text of gpt-oss, and its tool calls as they are. All others are thoughts.

    The second text is what the first does not have from the first final channel on, because a model can quote tokens.
    """
    kept: list[str] = []
    doubtful: list[str] = []
    at = 0
    for match in _CHANNEL.finditer(text):
        is_final = match["name"].strip().startswith("final")
        is_kept = is_final or _RECIPIENT.search(match["name"]) is not None
        if kept:
            doubtful += [text[at : match.start()], "" if is_kept else match["text"]]
        if is_kept:
            kept.append(match["text"] if is_final else match[0])
        at = match.end()
    if kept:
        return "".join(kept), "\n".join((*doubtful, text[at:])).replace(_START, "")
    return _CHANNEL.sub("", text).replace(_START, ""), ""


# -- tool calls in the text -------------------------------------------------------------------------------------------


class TextCall(NamedTuple):
    """A tool call that is written in the text of a reply."""

    name: str
    arguments: dict[str, Any]


_MARK: Final = re.compile(
    rf"{_FENCED}|^[ \t]*<(?:\|?(?:tool_calls?|function_?calls?)(?:_begin|_section_begin)?\|?|function=|invoke )"
    r"|\[TOOL_CALLS?\]|<\|python_tag\|>|<\|tool_calls?(?:_section)?_begin\|>|<｜tool▁calls?▁begin｜>"
    r"|<\|channel\|>[^<]*\bto=",
    _FLAGS,
)
"""The marks with which tool calls in a text begin."""
_NAMED: Final = re.compile(
    r"(?:<function=(?P<tag>[\w.-]+)>|<invoke name=\"(?P<invoke>[\w.-]+)\">|to=(?:functions\.)?(?P<to>[\w.-]+)"
    r"|(?<![`\w.-])(?:functions\.)?+(?P<name>[A-Za-z_][\w.-]*+)(?::\d++)?+\s*+"
    r"(?:\[ARGS\]|<\|tool_call_argument_begin\|>|(?=<arg_key>)|(?=\{))|<｜tool▁sep｜>(?P<sep>[\w.-]+)"
    r"|(?<![\w.-])(?!function\b)(?P<before>[A-Za-z_][\w.-]*+)<｜tool▁sep｜>)"
)
_PARAMETER: Final = re.compile(
    r"<parameter(?:=| name=\")(?P<name>[\w.-]++)\"?>|<arg_key>(?P<key>[^<]*+)</arg_key>\s*+<arg_value>"
)
"""The beginning of a parameter."""
_MAX_WASTE: Final = 20_000_000
"""The most characters that are read in vain to find JSON in a text, in all."""
_MAX_NESTED: Final = 8  # lists in which calls may be
_ONE_FENCE: Final = re.compile(r"\A```(?:json|tool_call|tool_code)?\s*\n(?P<inside>.*?)\n```\Z", re.DOTALL)
_NAMES: Final = ("name", "tool", "tool_name", "function")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input", "params")


def find_text_calls(text: str, offered: Collection[str]) -> tuple[str, list[TextCall]] | None:
    """Return the text before the tool calls in a reply, and the calls; None if the text contains no call.

    The list is empty if the text has the mark of a call that cannot be read, or whose arguments are nested too deeply.
    A reply that consists only of JSON is a call if it names an `offered` tool. Marks in code fences are part of the
    reply.
    """
    mark = next((match for match in _MARK.finditer(text) if not match["fence"]), None)
    if mark is not None:
        region = text[mark.start() :]
        calls = list(_iter_calls(region, offered))
        is_readable = not any(is_deeper(call.arguments, MAX_DEPTH) for call in calls)
        return text[: mark.start()].rstrip(), calls if is_readable else []
    stripped = text.strip()
    whole = fence["inside"].strip() if (fence := _ONE_FENCE.match(stripped)) else stripped
    calls = list(_calls_in(_parse(whole), offered)) if whole[:1] in ("{", "[") else []
    is_call = bool(calls) and all(call.name in offered and not is_deeper(call.arguments, MAX_DEPTH) for call in calls)
    return ("", calls) if is_call else None


def _iter_calls(region: str, offered: Collection[str]) -> Iterator[TextCall]:
    """Yield the calls after a mark: JSON that names its tool, or a name with JSON or parameters after it."""
    values = list(_iter_json(region))
    if self_named := [call for _, _, value in values for call in _calls_in(value, ())]:
        yield from self_named
        return
    starts = [start for start, _, _ in values]

    def is_in_json(place: int) -> bool:
        number = bisect_right(starts, place)
        return number > 0 and place < values[number - 1][1]

    names = [match for match in _NAMED.finditer(region) if not is_in_json(match.start())]
    for number, match in enumerate(names):
        name = next(group for group in match.groups() if group)
        end = names[number + 1].start() if number + 1 < len(names) else len(region)
        inside = values[bisect_left(starts, match.end()) : bisect_left(starts, end)]
        found = next((value for _, _, value in inside if isinstance(value, dict)), None)
        parameters = dict(_iter_parameters(region, match.end(), end))
        if found is not None:
            yield TextCall(name, found)
        elif parameters or name in offered:
            yield TextCall(name, parameters)


def _iter_parameters(text: str, start: int, end: int) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the parameters. JSON other than a text is parsed; anything else is a text."""
    while (match := _PARAMETER.search(text, start, end)) is not None:
        closing = "</parameter>" if match["name"] else "</arg_value>"
        stop = text.find(closing, match.end(), end)
        if stop < 0:
            return
        start = stop + len(closing)
        written = text[match.end() : stop]
        written = written.strip() if match["name"] else written
        value = _parse(written)
        name = match["name"] or match["key"].strip()
        yield name, written if value is None or isinstance(value, str) else value


def _calls_in(value: Any, offered: Collection[str], depth: int = _MAX_NESTED) -> Iterator[TextCall]:
    """Yield the calls in a JSON value: an object with a name and arguments, or a list of such objects. If `offered` is
    not empty, only its tools count."""
    if isinstance(value, list) and depth > 0:
        for item in value:
            yield from _calls_in(item, offered, depth - 1)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("tool_calls"), list):
        yield from _calls_in(value["tool_calls"], offered, depth - 1)
        return
    fields = value["function"] if isinstance(value.get("function"), dict) else value
    name = next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), "")
    arguments = next((fields[key] for key in _ARGUMENTS if key in fields), None)
    if isinstance(arguments, str):
        arguments = _parse(arguments)
    if name and isinstance(arguments, dict) and (not offered or name in offered):
        yield TextCall(name.removeprefix("functions."), arguments)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _iter_json(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield the JSON objects and lists in a text, each with its start and end. Stop if very much of it is broken."""
    decoder, at, wasted = json.JSONDecoder(), 0, 0
    while wasted <= _MAX_WASTE and (match := re.compile(r"[{\[]").search(text, at)) is not None:
        try:
            value, at = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError) as error:
            is_at_end = not isinstance(error, json.JSONDecodeError) or error.msg.startswith("Unterminated string")
            wasted += len(text) if is_at_end else getattr(error, "pos", 0)  # the error counts all lines before it
            at = match.end()
        else:
            yield match.start(), at, value
