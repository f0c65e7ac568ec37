"""Runs the read-only tools on one folder, which they can neither leave nor change. Results are limited in size and
deterministic.

Errors are returned to the model as text that starts with `error:`. The tools are in separate modules.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from skillrun.repository.confined_folder import LONGEST
from skillrun.repository.file_tools import glob, list_folder, read_lines
from skillrun.repository.outline import outline
from skillrun.repository.readable_folder import SECONDS, ReadableFolder
from skillrun.repository.results import OutputBudget, ToolError
from skillrun.repository.searching import grep
from skillrun.scoring.patterns import MAX_PATTERN
from skillrun.syntax.diagnostics import SkillrunError
from skillrun.types.schemas import Shape, quote_value

MAX_ARGUMENTS: Final = 20
MAX_NUMBER: Final = 1_000_000_000
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 1}
_TOOL_FUNCTIONS: Final[Mapping[str, Callable[..., str]]] = {
    "Read": read_lines,
    "Outline": outline,
    "Grep": grep,
    "Glob": glob,
    "List": list_folder,
}
_PARAMETER: Final = re.compile(r"- `(\w+)`: (.*)")


def _parameters(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


TOOLS: Final[Mapping[str, dict[str, Any]]] = {
    "Read": _parameters("path", path=_TEXT, offset=_COUNT, limit=_COUNT),
    "Outline": _parameters(path=_TEXT, glob=_TEXT),
    "Grep": _parameters("pattern", pattern=_TEXT, path=_TEXT, glob=_TEXT),
    "Glob": _parameters("pattern", pattern=_TEXT),
    "List": _parameters(path=_TEXT),
}
"""The parameters of each tool, as JSON Schema."""


class Repository:
    """The tools for one folder; `open_folder` opens it for each tool call."""

    def __init__(self, open_folder: Callable[[], ReadableFolder]) -> None:
        self._open_folder = open_folder

    async def run(self, name: str, arguments: Mapping[str, Any], tokens: float = math.inf) -> str:
        """Return a tool's result for the model, limited to about `tokens` tokens. Errors are returned as text."""
        answer = await asyncio.to_thread(self._run_tool, name, arguments, OutputBudget(tokens=tokens))
        return answer.encode("utf-8", "replace").decode("utf-8")

    def _run_tool(self, name: str, arguments: Mapping[str, Any], budget: OutputBudget) -> str:
        if name not in _TOOL_FUNCTIONS:
            return f"error: there is no tool {quote_value(name)}; allowed: {', '.join(TOOLS)}"
        provided = {key: value for key, value in arguments.items() if value is not None}
        if problem := _argument_error(provided) or "; ".join(
            error.message for error in Shape(TOOLS[name]).check(provided)
        ):
            return f"error: {problem}"
        try:
            with self._open_folder() as folder:
                return _TOOL_FUNCTIONS[name](folder, budget, **provided)
        except ToolError as error:
            return f"error: {error}"
        except SkillrunError as error:
            return f"error: {error.message}. {error.next_step}".rstrip(". ") + "."
        except TimeoutError:
            return f"error: stopped after {SECONDS:g} seconds; use a narrower path"
        except (FileNotFoundError, NotADirectoryError):
            return f"error: there is no {quote_value(provided.get('path', '.'))}"
        except OSError as error:
            return f"error: {error.strerror or 'it cannot be read'}"


def tool_specs(
    descriptions: Mapping[str, str], parameters: Mapping[str, Mapping[str, Any]] = TOOLS
) -> list[dict[str, Any]]:
    """Return the name, description and parameters of each tool. A line "- `path`: …" in a description describes the
    parameter `path`."""
    specs = []
    for name, text in descriptions.items():
        known = dict(_PARAMETER.findall(text))
        properties = {
            parameter: {**kind, **({"description": known[parameter]} if parameter in known else {})}
            for parameter, kind in parameters[name]["properties"].items()
        }
        sentences = "\n".join(line for line in text.splitlines() if not _PARAMETER.fullmatch(line)).strip()
        schema = {**parameters[name], "properties": properties}
        specs.append({"name": name, "description": sentences, "parameters": schema})
    return specs


def _argument_error(arguments: Mapping[str, Any]) -> str:
    """Return an error if there are too many arguments, or if one is too large or has the wrong type; empty if they are
    valid. Arguments are not used before this check."""
    if len(arguments) > MAX_ARGUMENTS:
        return f"{len(arguments)} arguments are too many"
    for name, value in arguments.items():
        if isinstance(value, (dict, list)):
            return f"{quote_value(name)} must be a text or a number"
        if isinstance(value, (int, float)) and not abs(value) <= MAX_NUMBER:
            return f"{quote_value(name)} is too large"
        if len(name) > MAX_PATTERN or (isinstance(value, str) and len(value) > LONGEST):
            return f"{quote_value(name)} is longer than {LONGEST:,} characters"
    return ""
