"""Generates the pages of `docs/reference/` from the definitions that the reader, checker and command line use.

Explanations are in the manual, which the pages link to. Writes no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import yaml

from docsite.command_pages import commands
from docsite.tables import key_table, page, table
from skillrun.definitions import definitions
from skillrun.definitions.verbs import BREAKER_KEYS, FEATURE_KEYS, VERBS, Keys
from skillrun.extensions.testing.cases import (
    BOUND_KEYS,
    CASE_KEYS,
    EXPECT_KEYS,
    OUTCOME_KEYS,
    PROMPT_KEYS,
    RUN_KEYS,
    TEXT_KEYS,
)
from skillrun.library.models_yaml import RATES, RECORDS, TABLES
from skillrun.models.scripted import KEYS as RULE_KEYS
from skillrun.syntax.codes import CODES

MANUAL_LINK: Final = "[The manual](../language.md) explains them."
# Kinds of files: name, path, definition, and anchor in the manual.
_FILES: Final = (
    ("workflow", "`workflows/<name>.md`", definitions.Workflow, "workflows"),
    ("phase", "`skills/<area>/<name>.md`, `kind: phase`", definitions.Phase, "phases"),
    ("protocol", "`skills/protocols/<name>.md`, `kind: protocol`", definitions.Protocol, "protocols"),
    ("role", "`roles/<name>.md`", definitions.Role, "roles-and-members"),
    ("question bank", "`skills/<area>/<name>.md`, `kind: questions`", definitions.Skill, "question-banks"),
    (
        "reference", "`skills/<area>/<name>.md`, `kind: reference`", definitions.Skill,
        "templates-references-and-agent-skills",
    ),
    (
        "template", "`skills/<area>/<name>.md`, `kind: template`", definitions.TextFile,
        "templates-references-and-agent-skills",
    ),
    (
        "Agent Skill", "`skills/<name>/SKILL.md`", definitions.AgentSkill,
        "templates-references-and-agent-skills",
    ),
)  # fmt: skip
# Parts of files: name, definition, and anchor in the manual.
_PARTS: Final = (
    ("a phase of a workflow", definitions.PhaseUse, "workflows"),
    ("a check of a workflow", definitions.Check, "workflows"),
    ("a reference of a phase", definitions.Reference, "phases"),
)


def files() -> str:
    """The keys of each kind of markdown file, and of the config entries."""
    parts = [f"The keys of each kind of file. {MANUAL_LINK}"]
    for name, place, definition, anchor in _FILES:
        parts.append(f"## {_capital(name)}\n\n{place} ([more](../language.md#{anchor}))")
        parts.append(_definition_table(definition))
    parts.append("## Parts of files")
    for name, part, anchor in _PARTS:
        parts.append(f"### {_capital(name)}\n\n([more](../language.md#{anchor}))")
        parts.append(_definition_table(part))
    parts.append(
        "## Config\n\nThe keys of `config/<name>.yaml` are free, except these ([more](../language.md#config))."
    )
    parts.append("### An entry of `breakers`\n\n([more](../language.md#breakers))\n\n" + key_table(BREAKER_KEYS))
    parts.append("### An entry of `features`\n\n([more](../language.md#features))\n\n" + key_table(FEATURE_KEYS))
    return page("Files and their keys", parts)


def steps() -> str:
    """The verbs, with their keys and the fields of their ids."""
    verbs = [[f"[`{name}`](#{name})", verb.main.doc, _fields(verb.result_fields)] for name, verb in VERBS.items()]
    parts = [
        "A step has one verb and further keys. [The manual](../language.md#steps) explains them.",
        table(["verb", "its value", "its id gives"], verbs),
        "## Every step",
        key_table(definitions.STEP_KEYS),
        "## A row of `decide`",
        key_table(definitions.ROW_KEYS),
        "## Verbs",
    ]
    for name, verb in VERBS.items():
        section = " It needs a section with the step's id." if verb.section else ""
        results = f" Its id gives {_fields(verb.result_fields)}." if verb.result_fields else ""
        parts.append(f"### {name}\n\n`{name}` takes {verb.main.doc}.{section}{results} ([more](../language.md#{name}))")
        parts.append(key_table({name: verb.main, **verb.keys}, {name}))
    return page("Steps and verbs", parts)


def models() -> str:
    """The keys of `config/models.yaml`."""
    parts = [
        "`config/models.yaml` has `tiers`, `elsewhere`, `prefer`, `aliases`, and these ([more](../running.md#models)).",
    ]
    for name, keys in TABLES.items():
        parts.append(f"## An entry of `{name}`\n\n{key_table(keys, literal=True)}")
        if name == "models":
            parts.append(f"### `long`\n\n{key_table(RATES, literal=True)}")
    parts += [f"## `{name}`\n\n{key_table(keys, literal=True)}" for name, keys in RECORDS.items()]
    return page("Models", parts)


def cases() -> str:
    """The keys of a test case, and of a rule of a script."""
    tables: tuple[tuple[str, Keys], ...] = (
        ("A case", CASE_KEYS),
        ("`run`", RUN_KEYS),
        ("`expect`", EXPECT_KEYS),
        ("`outcome`", OUTCOME_KEYS),
        ("An artifact", TEXT_KEYS),
        ("A prompt", PROMPT_KEYS),
        ("Bounds", BOUND_KEYS),
        ("A rule of `replies`, and of `--script`", RULE_KEYS),
    )
    parts = ["A case is `tests/<workflow>/<case>.md`. [Testing a workflow](../testing.md) explains how to write one."]
    parts += [f"## {title}\n\n{key_table(keys, literal=True)}" for title, keys in tables]
    return page("Cases and scripts", parts)


def problems() -> str:
    """The meaning of each code of the checker."""
    rows = [[f"`{code}`", meaning] for code, meaning in sorted(CODES.items())]
    parts = [
        "Each problem that `skillrun validate` reports has a code: `path:line:column: error[code]: message`.",
        "The message describes the problem; this table describes each code.",
        table(["code", "meaning"], rows),
    ]
    return page("Problems", parts)


def index() -> str:
    """The pages of the reference and related sections."""
    rows = [
        ["[Files and their keys](files.md)", "the keys of workflows, phases, protocols, roles and config"],
        ["[Steps and verbs](steps.md)", "the verbs of steps, their keys and their results"],
        ["[Filters, functions and tests](../language.md#filters-functions-and-tests)", "what templates can call"],
        ["[Names](../language.md#names)", "what templates can read"],
        ["[Types](../language.md#inputs-state-and-outputs), [shapes](../language.md#shapes)", "of inputs and replies"],
        ["[Commands](commands.md)", "all commands and their options"],
        ["[Problems](problems.md)", "the codes of the checker"],
        ["[Models](models.md)", "the keys of `config/models.yaml`"],
        ["[Cases and scripts](cases.md)", "the keys of a case and of scripted replies"],
        ["[Model servers](servers.md)", "the servers that were tested, with the entry for each"],
        ["[Environment variables](../running.md#environment-variables)", "the variables that skillrun reads"],
        ["[Exit codes](../running.md#exit-codes)", "the exit codes of commands"],
        ["[JSON](../running.md#json)", "the output of `--json`"],
        ["[`config/skillrun.yaml`](../../config/skillrun.yaml)", "budgets and limits, with comments"],
    ]
    return page("Reference", ["Tables and lists. Each page links to explanations.", table([], rows)])


def servers() -> str:
    """The model servers that were tested, with the entry for each. Their slow test writes the results."""
    known, tried = (yaml.safe_load((_SERVERS / name).read_text(encoding="utf-8")) for name in _SERVER_FILES)
    rows, parts = [], []
    for name, server in known.items():
        results, key = tried.get(name, {}), name.lower()
        states = [_STATES[results.get(each, "")] for each in _CHECKS]
        rows.append([f"[{name}](#{key.replace('.', '')})", *states])
        tier = f"{key}:{server['name']}"
        lines = {"providers": {key: server["entry"]}, "tiers": {"strong": tier, "fast": tier}}
        entry = "\n".join(
            f"{part}: {yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=200).strip()}"
            for part, value in lines.items()
        )
        adapted = ", ".join(f"`{each}: {value}`" for each, value in results.get("adapted", {}).items())
        change = f" skillrun adapts its requests by itself: {adapted}." if adapted else ""
        parts += [f"## {name}", f"{server['package']}. {server['note']}{change}", f"```yaml\n{entry}\n```"]
    intro = (
        "Servers on your own machine that were tested with skillrun. To test yours, run "
        "[`skillrun doctor --provider NAME`](../running.md#testing-a-server).\n\n"
        "The first four columns are the requests of this command. The workflow has texts, schemas, a panel, tools, a "
        "persistent session. The plan is `skillrun plan --mode rapid`. *accepted* means that the server accepts the "
        "request, but the model does not do what it asks for."
    )
    return page("Model servers", [intro, table(("server", *_CHECKS), rows), *parts])


_SERVERS: Final = Path(__file__).parents[1] / "tests" / "model_servers"
_SERVER_FILES: Final = ("servers.yaml", "results.yaml")
_CHECKS: Final = ("text", "schema", "tool", "conversation", "workflow", "plan")
_STATES: Final = {"ok": "works", "warning": "accepted", "note": "not sent", "missing": "fails", "": "not tested"}

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "README.md": index,
    "files.md": files,
    "steps.md": steps,
    "commands.md": commands,
    "problems.md": problems,
    "models.md": models,
    "cases.md": cases,
    "servers.md": servers,
}
"""The pages of `docs/reference/` by file name."""


def _definition_table(definition: Any) -> str:
    """The keys of a definition, with the defaults of its fields."""
    defaults = {field.name: field.default for field in fields(definition) if isinstance(field.default, str)}
    keys = {field.name: field.metadata["key"] for field in fields(definition) if field.metadata}
    return key_table(keys, {"kind"}, defaults)


def _fields(names: Iterable[str]) -> str:
    return ", ".join(f"`.{name}`" for name in names)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
