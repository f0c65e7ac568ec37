"""Runs the tools that roles can list: built-in tools, and tools of installed packages.

The built-in tools read one folder, which they can neither leave nor change. Their results are limited in size and
deterministic. Errors are returned to the model as text that starts with `error:`. The functions of the tools are in
separate modules.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from skillrun import registry
from skillrun.repository.confined_folder import LONGEST
from skillrun.repository.file_tools import glob, list_folder, read_lines
from skillrun.repository.outline import outline
from skillrun.repository.readable_folder import SECONDS, ReadableFolder
from skillrun.repository.results import MAX_RESULT, OutputBudget, ToolError
from skillrun.repository.searching import grep
from skillrun.scoring.compaction import clip
from skillrun.scoring.patterns import MAX_PATTERN
from skillrun.syntax.diagnostics import SkillrunError, UsageError
from skillrun.types.schemas import Shape, quote_value

SKILL_PREFIX: Final = "skill:"  # of the paths in an Agent Skill's folder
MAX_ARGUMENTS: Final = 20
MAX_NUMBER: Final = 1_000_000_000
MAX_TOKENS: Final = MAX_RESULT // 3  # limit for the result of a package's tool


@dataclass(frozen=True)
class ToolContext:
    """What a tool gets for one call: how to open the folder that the workflow names as `repository`, or that of an
    Agent Skill by its name, and the maximum size of the result."""

    open_folder: Callable[..., ReadableFolder]
    budget: OutputBudget


@dataclass(frozen=True)
class Tool:
    """A tool that roles can list.

    `run` gets the arguments and returns the result for the model. It runs in a thread, and raises ToolError to report
    an error to the model. The arguments match `parameters`, a JSON Schema.

    If `effect` is `executes`, a call is journaled before it runs, is refused in a dry run, and is not repeated after a
    crash. A tool that `needs_repository` is offered only in workflows with a `repository`.
    """

    description: str
    parameters: Mapping[str, Any]
    run: Callable[[Mapping[str, Any], ToolContext], str]
    effect: Literal["pure", "reads", "executes"] = "executes"
    needs_repository: bool = False


def _folder_tool(run: Callable[..., str], *required: str, **properties: dict[str, Any]) -> Tool:
    """Return a tool that reads the repository, or the folder of an Agent Skill if its path, or else its pattern, starts
    with `skill:NAME/`. Its description is in `skills/system/tools.md`."""
    key = "path" if "path" in properties else "pattern"

    def run_in_folder(arguments: Mapping[str, Any], context: ToolContext) -> str:
        first, _, inner = str(arguments.get(key, "")).partition("/")
        skill = first.removeprefix(SKILL_PREFIX) if first.startswith(SKILL_PREFIX) else ""
        if skill:
            arguments = {**arguments, key: inner or ("." if key == "path" else "*")}
        try:
            with context.open_folder(skill) if skill else context.open_folder() as folder:
                return run(folder, context.budget, **arguments)
        except TimeoutError:
            raise ToolError(f"stopped after {SECONDS:g} seconds; use a narrower path") from None
        except (FileNotFoundError, NotADirectoryError):
            raise ToolError(f"there is no {quote_value(arguments.get('path', '.'))}") from None
        except OSError as error:
            raise ToolError(error.strerror or "it cannot be read") from None

    closed = {"additionalProperties": False}
    parameters = {"type": "object", "properties": properties, "required": list(required), **closed}
    return Tool("", parameters, run_in_folder, "reads", needs_repository=True)


_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 1}
READ: Final = _folder_tool(read_lines, "path", path=_TEXT, offset=_COUNT, limit=_COUNT)
OUTLINE: Final = _folder_tool(outline, path=_TEXT, glob=_TEXT)
GREP: Final = _folder_tool(grep, "pattern", pattern=_TEXT, path=_TEXT, glob=_TEXT)
GLOB: Final = _folder_tool(glob, "pattern", pattern=_TEXT)
LIST: Final = _folder_tool(list_folder, path=_TEXT)
_PARAMETER: Final = re.compile(r"- `(\w+)`: (.*)")


class Repository:
    """Runs tools. For each tool call, `open_folder` opens the folder that the tool may read."""

    def __init__(self, open_folder: Callable[..., ReadableFolder]) -> None:
        self._open_folder = open_folder

    async def run(self, name: str, arguments: Mapping[str, Any], tokens: float = math.inf) -> str:
        """Return a tool's result for the model, limited to about `tokens` tokens. Errors are returned as text.

        Raises UsageError if the tool of a package fails.
        """
        answer = await asyncio.to_thread(self._run_tool, name, arguments, OutputBudget(tokens=tokens))
        return answer.encode("utf-8", "replace").decode("utf-8")

    def _run_tool(self, name: str, arguments: Mapping[str, Any], budget: OutputBudget) -> str:
        is_built_in = name in registry.BUILT_IN["tools"]
        if not is_built_in and not registry.is_registered("tools", name):
            return f"error: there is no tool {quote_value(name)}; allowed: {', '.join(registry.names('tools'))}"
        tool = load_tool(name)
        provided = {key: value for key, value in arguments.items() if value is not None}
        problem = _argument_error(provided) if is_built_in else ""
        if problem or (problem := "; ".join(error.message for error in Shape(dict(tool.parameters)).check(provided))):
            return f"error: {problem}"
        with registry.report_failure("tools", name):
            try:
                text = tool.run(provided, ToolContext(self._open_folder, budget))
            except ToolError as error:
                return f"error: {error}"
            except SkillrunError as error:
                return f"error: {error.message}. {error.next_step}".rstrip(". ") + "."
            return text if is_built_in else clip(text, int(min(MAX_TOKENS, budget.tokens)))


@cache  # every request of a member asks for its tools
def load_tool(name: str) -> Tool:
    """Return a registered tool. Raises UsageError if its package fails to load."""
    tool = registry.load("tools", name)
    if not isinstance(tool, Tool):
        raise UsageError(f"the tool `{name}` of an extension is not an object of the class `Tool`")
    return tool


def _argument_error(arguments: Mapping[str, Any]) -> str:
    """Return an error if there are too many arguments, or if one of them is too large or has the wrong type. Empty if
    all are valid. Arguments are not used before this check."""
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


def tool_spec(name: str, text: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's name, description and parameters. A line "- `path`: …" in `text` describes the parameter
    `path`."""
    descriptions = dict(_PARAMETER.findall(text))
    properties = {
        parameter: {**kind, **({"description": descriptions[parameter]} if parameter in descriptions else {})}
        for parameter, kind in parameters.get("properties", {}).items()
    }
    sentences = "\n".join(line for line in text.splitlines() if not _PARAMETER.fullmatch(line)).strip()
    return {"name": name, "description": sentences, "parameters": {**parameters, "properties": properties}}
