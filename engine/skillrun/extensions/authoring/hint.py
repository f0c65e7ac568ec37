"""`skillrun hint`: prints, in one line, the hint that a workflow has for a prompt. Made for prompt hooks.

If the prompt or the library has errors, the command prints no hint and exits with 0, because a hook must not block an
editor or agent.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from skillrun.cli.output import Output
from skillrun.syntax.diagnostics import UsageError

TIMEOUT: Final = 1.5  # seconds
MAX_PROMPT_BYTES: Final = 1_000_000
MAX_LINE_LENGTH: Final = 300  # characters of a printed hint


@click.command(
    help="Print, in one line, the `hint` that a workflow has for PROMPT. Made for prompt hooks.\n\n"
    "Without PROMPT, read the prompt from standard input, as text or JSON."
)
@click.argument("prompt", nargs=-1)
@click.option(
    "--workflow",
    default="",
    metavar="NAME",
    help="Use the hint of this workflow. Default: the first workflow that has a hint for PROMPT.",
)
def hint(prompt: tuple[str, ...], workflow: str) -> int:
    stdin = sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
    if not prompt and stdin.isatty():
        raise UsageError(
            "the prompt is missing", 'run `skillrun hint "add a login page"`, or pipe a prompt to standard input'
        )
    out = Output()
    try:
        with _time_limit():
            text = " ".join(prompt) or _parse_prompt(stdin.read(MAX_PROMPT_BYTES + 1))
            line = _find_hint(text, workflow) if text.strip() else ""
        if line:
            out.line(line)
    except Exception as error:  # noqa: BLE001 (see the module docstring)
        out.note(f"no hint: {error}".splitlines()[0])
    return 0


def _find_hint(prompt: str, workflow_name: str) -> str:
    """Return the hint of the first workflow that has one for the prompt; empty if none has."""
    from skillrun.cli.loading import open_library
    from skillrun.types.fields import resolve_inputs

    library = open_library()
    if workflow_name and library.locate(f"workflows/{workflow_name}.md") is None:
        raise ValueError(f"the workflow `{workflow_name}` does not exist")
    for name in [workflow_name] if workflow_name else library.names("workflows"):
        workflow = library.workflow(name)
        if workflow is None or workflow.hint is None or workflow.first_input is None:
            continue
        config = library.config(workflow.config) if workflow.config else None
        names = {"config": config.data if config is not None else {}}
        inputs, _, _ = resolve_inputs(workflow.inputs, {workflow.first_input.name: prompt}, names)
        for line in str(workflow.hint.evaluate({**names, "inputs": inputs})).split("\n"):
            if line.strip():
                return " ".join(line.split())[:MAX_LINE_LENGTH]
    return ""


def _parse_prompt(content: bytes) -> str:
    """Return the prompt in the content of standard input.

    The content is plain text, or the JSON object that an agent sends to a hook. From an object, return its `prompt`.
    """
    import json

    if len(content) > MAX_PROMPT_BYTES:
        raise ValueError(f"the prompt is longer than {MAX_PROMPT_BYTES:,} bytes")
    text = content.decode("utf-8-sig")
    try:
        event: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(event, dict):
        return text
    prompt = event.get("prompt", "")
    return prompt if isinstance(prompt, str) else ""


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise TimeoutError if the block takes too long, even while it waits for input."""

    def raise_timeout(_number: int, _frame: object) -> None:
        raise TimeoutError(f"it took longer than {TIMEOUT} seconds")

    previous_handler = signal.signal(signal.SIGALRM, raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
