"""Resolves the tools and models in roles and Agent Skills of other tools, with the table `config/subagents.yaml`.

Also writes the line that tells what of such a file is used and what is not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, Final

from skillrun import registry
from skillrun.definitions.definitions import AgentSkill, Role
from skillrun.definitions.roles import ALL
from skillrun.library.model_names import ModelNames
from skillrun.syntax.diagnostics import Suggestion, near_miss
from skillrun.syntax.foreign import METADATA_KEYS
from skillrun.syntax.source import Span

MAX_NAMES_SHOWN: Final = 12
MAX_SKILL_FILES: Final = 500  # files that are searched for scripts
_SCRIPTS: Final = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".ps1", ".bat", ".R")
_ARGUMENTS: Final = re.compile(r"\s*\(.*\)$", re.DOTALL)
Slip = tuple[Span, str, str, str]
"""The position of a name that is probably misspelt, with code, message and hint."""
_SUFFIX: Final = re.compile(r"\s*(?:\([^()]*\)|\[[^\[\]]*\])$")


@dataclass(frozen=True)
class ImportTable:
    """The names of other tools. `tools` has folded names with the tools here, and `models` has patterns."""

    tools: Mapping[str, tuple[str, ...]]
    models: Mapping[str, str]
    names: ModelNames

    @classmethod
    def of(cls, data: Mapping[str, Any], names: ModelNames) -> ImportTable:
        tools, models = (part if isinstance(part := data.get(key), dict) else {} for key in ("tools", "models"))
        return cls(
            {_fold(name): tuple(map(str, found)) for name, found in tools.items() if isinstance(found, list)},
            {pattern: str(name) for pattern, name in models.items()},
            names,
        )

    def find_tools(self, written: str) -> tuple[str, ...]:
        """Return the tools for a name, which may have arguments, as in `Bash(git:*)`; empty if none is available."""
        name = _ARGUMENTS.sub("", written)
        if name != ALL and registry.is_registered("tools", name):
            return (name,)
        group, _, inner = name.rpartition("/")
        found = self.tools.get(_fold(name))
        if found is None and group and _fold(group) in self.tools:  # as `search/codebase`; not a tool of a server
            found = self.tools.get(_fold(inner), self.tools[_fold(group)])
        return tuple(tool for tool in found or () if registry.is_registered("tools", tool))

    def find_model(self, written: str) -> str | None:
        """Return the model that a name of another tool means; None if there is none."""
        names, folded = self.names, written.casefold()
        known = (names.aliases, names.intents, names.provider_by_name)
        if not names.providers or any(written in part or folded in part for part in known):
            return written
        label = _SUFFIX.sub("", written).strip()
        provider, _, inner = label.rpartition("/")
        fitting = [pattern for pattern in self.models if fnmatchcase(inner, pattern)]
        if fitting:
            return self.models[max(fitting, key=len)]
        provider = provider.rpartition("/")[2]
        hyphenated = re.sub(r"[\s_]+", "-", inner.casefold())
        candidates = (written, f"{provider}:{inner}" if provider else inner, inner, hyphenated)
        return next((name for name in candidates if name and names.check_model(name) is None), None)

    def resolve_role(self, role: Role) -> Role:
        """Return a role with the tools and the model that are available here."""
        rules = [name for name in role.denied_tools if "(" in name]
        denied = {tool for name in role.denied_tools if name not in rules for tool in self.find_tools(name)}
        tools, parts, slips = self._resolve_tools(role.tools, denied)
        if any(map(self.find_tools, rules)):
            parts.append(f"denials that have no effect: {_join(rules)}")
        found = next(((name, model) for name in role.models if (model := self.find_model(name)) is not None), None)
        written, model = found or ("", "strong")
        if found and model not in written.replace("/", ":"):
            parts.insert(0, f"the model {written} is read as `{model}`")
        elif role.models and not found:
            wrong, span = self.names.check_model(role.models[0]), role.document.frontmatter.value_span("model")
            message = f"no model is called {_join(role.models)}, so the role uses `strong`"
            if wrong is not None and isinstance(wrong.hint, Suggestion) and span is not None:
                slips.append((span, "unknown-model", message, wrong.hint))
            else:
                parts.insert(0, message)
        is_exact = model.casefold() not in self.names.aliases
        report = "; ".join([*parts, *_key_part(role)])
        return replace(role, model=model, is_exact_model=is_exact, tools=tools, report=report, slips=tuple(slips))

    def resolve_skill(self, skill: AgentSkill) -> AgentSkill:
        """Return an Agent Skill with its folder, and with the tools that are available here, of those it asks for."""
        tools, parts, slips = self._resolve_tools(skill.tools)
        folder = skill.document.source.path.parent
        files = list(islice(_iter_skill_files(folder), MAX_SKILL_FILES))
        if scripts := [name for name in files if name.endswith(_SCRIPTS)]:
            parts.append(f"scripts that members can read but not run: {_join(scripts)}")
        report = "; ".join([*parts, *_key_part(skill)])
        return replace(skill, tools=tools, folder=folder if files else None, report=report, slips=tuple(slips))

    def _resolve_tools(
        self, written: Mapping[str, Span], denied: Collection[str] = ()
    ) -> tuple[dict[str, Span], list[str], list[Slip]]:
        """Return the available tools, a sentence about names without one, and names that are probably misspelt."""
        found: dict[str, Span] = {}
        missing, slips = list[str](), list[Slip]()
        for name, span in written.items():
            tools = self.find_tools(name)
            found |= {tool: span for tool in tools if tool not in found and tool not in denied}
            if not tools and (close := near_miss(name, registry.names("tools"))):
                message = f"there is no tool `{name}`; the role does not get it"
                slips.append((span, "unknown-tool", message, Suggestion.of(name, close)))
            elif not tools and name != ALL:
                missing.append(name)
        text = f"tools that are not available: {_join(missing)}; tools that remain: {', '.join(found) or 'none'}"
        return found, [text] if missing else [], slips


def _iter_skill_files(folder: Path) -> Iterator[str]:
    """Yield the paths of the files in an Agent Skill's folder, without its own file, its license and hidden files."""
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "node_modules", "__pycache__")))
        for name in sorted(names):
            if not name.upper().startswith((".", "SKILL.MD", "LICENSE")):
                yield (Path(base) / name).relative_to(folder).as_posix()


def _fold(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).casefold()


def _key_part(file: AgentSkill) -> list[str]:
    """Return a sentence about keys that have no effect, if any of them is more than a remark for readers."""
    used = [name for name in file.document.frontmatter.entries if name not in file.ignored_keys]
    if file.ignored_keys.keys() <= METADATA_KEYS:
        return []
    return [f"keys that have no effect: {_join(file.ignored_keys)}; keys that are used: {_join(used) or 'none'}"]


def _join(names: Iterable[str]) -> str:
    listed = [" ".join(name.split())[:60] for name in names]
    more = [f"and {len(listed) - MAX_NAMES_SHOWN} more"] if len(listed) > MAX_NAMES_SHOWN else []
    return ", ".join([*listed[:MAX_NAMES_SHOWN], *more])
