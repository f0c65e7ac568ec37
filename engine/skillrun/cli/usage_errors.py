"""Messages and hints for command lines that skillrun does not understand, and the report of an internal error."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

import click

from skillrun.cli.options import INPUT_PREFIX
from skillrun.cli.output import Output
from skillrun.cli.registry import COMMANDS, OLD_NAMES
from skillrun.syntax.diagnostics import Suggestion, UsageError, did_you_mean

PROGRAM: Final = "skillrun"
START: Final = "start a run with the name of its workflow: `skillrun {workflow} …`"
RESUME: Final = "`skillrun resume RUN` resumes a run, and repeats calls that failed"
CHECK: Final = "`skillrun validate` checks all files"
RUNS: Final = "`skillrun runs` lists runs, and `skillrun show RUN` shows a run"
NEW: Final = "`skillrun init` creates a project, `skillrun new` a workflow, phase, protocol or role"
STOP: Final = "Ctrl-C pauses a run in this terminal, and `skillrun cancel RUN` cancels a run in the store"
KEYS: Final = "set the key of a provider in the environment; `skillrun doctor` names the variables"
# Commands of other tools, each with a hint about what to use instead. `{workflow}` is the workflow after the command.
OTHER_TOOLS: Final = MappingProxyType(
    {
        **dict.fromkeys(("run", "start", "exec", "execute", "launch", "invoke"), START),
        **dict.fromkeys(("continue", "retry", "restart", "rerun"), RESUME),
        **dict.fromkeys(("lint", "check", "verify", "compile", "build"), CHECK),
        **dict.fromkeys(("ls", "ps", "status", "history", "jobs"), RUNS),
        **dict.fromkeys(("create", "add", "generate", "scaffold"), NEW),
        **dict.fromkeys(("stop", "kill", "abort", "pause"), STOP),
        **dict.fromkeys(("login", "auth", "config", "configure", "setup", "install"), KEYS),
        **dict.fromkeys(("inspect", "describe", "view", "get", "cat"), "`skillrun show RUN` shows a run and its calls"),
        **dict.fromkeys(("rm", "remove", "delete"), "delete the run's folder; `skillrun store prune` cleans a store"),
        **dict.fromkeys(("watch", "serve", "debug"), "`skillrun dev {workflow}` reruns a workflow on every save"),
        **dict.fromkeys(("workflows", "roles", "protocols"), "`skillrun list` lists workflows, protocols and roles"),
        **dict.fromkeys(("update", "upgrade"), "`skillrun outdated` shows which copied files are out of date"),
        **dict.fromkeys(("estimate", "cost", "price"), "`skillrun {workflow} --dry-run` estimates calls and price"),
        "help": "`skillrun {topic}--help` shows the help",
        "version": "`skillrun --version` prints the version",
        "tail": "`skillrun logs --follow RUN` shows the events of a run",
    }
)


def unknown_command(arguments: Sequence[str], workflows: Collection[str]) -> UsageError:
    """Return the error for a first argument that is neither a workflow nor a command."""
    name, *rest = arguments
    following = rest[0] if rest else ""
    if hint := OTHER_TOOLS.get(name.casefold(), ""):
        named = workflow_of_path(following, workflows) or following
        topic = f"{named} " if named in workflows or named in COMMANDS else ""
        hint = hint.format(workflow=named if named in workflows else "WORKFLOW", topic=topic)
    elif not (hint := path_hint(name, workflows)):
        inner = {inner: f"{group} {inner}" for group, entry in COMMANDS.items() for inner in entry.subcommands}
        full_names = {**inner, **OLD_NAMES, **{each: each for each in (*COMMANDS, *workflows)}}
        near = did_you_mean(name, full_names)
        meant = full_names[near.meant] if isinstance(near, Suggestion) else ""
        meant = inner.get(name, meant)
        hint = f"did you mean `{meant}`?" if meant else ""
    return UsageError(
        f"`{name}` is neither a workflow nor a command", hint or "`skillrun --help` lists the workflows and commands"
    )


def path_hint(name: str, workflows: Collection[str]) -> str:
    """Return the hint for a name that is the path of a workflow's file; empty for other names."""
    named = workflow_of_path(name, workflows)
    return f"use the workflow's name, without folder and `.md`: `{named}`" if named and named != name else ""


def workflow_of_path(name: str, workflows: Collection[str]) -> str:
    """Return the workflow in this file, such as `plan` for `workflows/plan.md`; empty if there is none."""
    stem = PurePath(name).name.removesuffix(".md")
    return stem if stem in workflows else ""


def click_error(error: click.ClickException) -> tuple[str, str]:
    """Return the message and the hint for an error that click reports."""
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else PROGRAM
    hint = f"`{path} --help` shows its arguments and options"
    if isinstance(error, click.NoSuchOption):
        return _unknown_option(error, hint)
    if "unexpected extra argument" in message:
        return message, f"put a text of several words in quotes; {hint}"
    if isinstance(error, click.MissingParameter) and error.param is not None and error.param.name == "run":
        return message, f"`skillrun runs` lists the runs; {hint}"
    return message, hint


def _unknown_option(error: click.NoSuchOption, hint: str) -> tuple[str, str]:
    """Return the message for an unknown option, and a hint with a similar option or the inputs."""
    name = error.option_name
    context = error.ctx
    command = context.command_path.removeprefix(PROGRAM).strip() if context is not None else ""
    message = f"`{command or PROGRAM}` has no option `{name}`"
    params = context.command.params if context is not None else []
    inputs = [param for param in params if (param.name or "").startswith(INPUT_PREFIX)]
    first = next((param for param in inputs if isinstance(param, click.Argument)), None)
    if first is not None and first.human_readable_name.casefold() == name.lstrip("-").replace("-", "_").casefold():
        return message, f"this input is the first argument, not an option: `{PROGRAM} {command} {first.metavar}`"
    if not name.startswith("--"):
        escape = f"write a text that begins with `-` after `--`: `{PROGRAM} {command} -- TEXT`; "
        return message, f"{escape if first is not None else ''}{hint}"
    options = [flag for param in params if isinstance(param, click.Option) for flag in param.opts]
    meant = did_you_mean(name.removeprefix("--"), [flag[2:] for flag in options if flag.startswith("--")])
    if isinstance(meant, Suggestion):
        return message, f"did you mean `--{meant.meant}`?"
    flags = [param.opts[0] for param in inputs if isinstance(param, click.Option)]
    named = [f"{first.metavar} (first argument)"] if first is not None else []
    return message, f"inputs: {', '.join([*named, *flags])}; {hint}" if inputs else hint


def write_crash_report(error: Exception) -> tuple[str, str]:
    """Write the traceback to a log file, or print it if that fails; return the message and the hint."""
    import tempfile
    import traceback

    from skillrun.models.redaction import Redactor

    redactor = Redactor.from_environment(os.environ)
    trace = redactor.redact_known_keys("".join(traceback.format_exception(error)))
    summary = redactor.redact_known_keys(traceback.format_exception_only(error)[0].strip().split("\n")[0])
    hint = "please report it"
    try:
        log = tempfile.NamedTemporaryFile(  # noqa: SIM115 (closed below; the file is kept)
            "w", encoding="utf-8", errors="backslashreplace", prefix="skillrun-", suffix=".log", delete=False
        )
        with log:
            log.write(trace)
    except OSError as full:
        Output().note(trace)
        hint += f" with the traceback above, which could not be written to a file ({full.strerror})"
    else:
        hint += f" and attach {log.name}"
    return f"this is a bug in skillrun ({summary})", hint
