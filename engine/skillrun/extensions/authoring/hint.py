"""`skillrun hint`: prints the hint that a workflow has for a prompt, in one line. Made for prompt hooks.

Errors in the prompt or the library print no hint and exit with 0, because a hook must not block an editor or agent.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from skillrun.cli.output import Output

if TYPE_CHECKING:
    from skillrun.library.library import Library

TIMEOUT: Final = 1.5  # seconds
MAX_PROMPT_BYTES: Final = 1_000_000
MAX_LINE_LENGTH: Final = 300  # characters of a printed hint


@click.command(
    help="Print the `hint` that a workflow has for PROMPT, in one line. Made for prompt hooks.\n\n"
    "Without PROMPT, read text or JSON from standard input."
)
@click.argument("prompt", nargs=-1)
@click.option("--workflow", default="", metavar="NAME", help="Use this workflow. Default: the first that has a hint.")
def hint(prompt: tuple[str, ...], workflow: str) -> int:
    from skillrun.syntax.diagnostics import UsageError

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


def _find_hint(prompt: str, workflow: str) -> str:
    """Return the first hint of a workflow for the prompt; empty without one."""
    from skillrun.cli.loading import open_library

    library = open_library()
    if workflow and library.locate(f"workflows/{workflow}.md") is None:
        raise ValueError(f"the workflow `{workflow}` does not exist")
    for name in [workflow] if workflow else library.names("workflows"):
        line = _workflow_hint(library, name, prompt)
        if line:
            return line
    return ""


def _workflow_hint(library: Library, name: str, prompt: str) -> str:
    from skillrun.types.fields import resolve_inputs

    workflow = library.workflow(name)
    first = workflow.first_input if workflow is not None else None
    if workflow is None or workflow.hint is None or first is None:
        return ""
    config = library.config(workflow.config) if workflow.config else None
    names = {"config": config.data if config is not None else {}}
    inputs, _, _ = resolve_inputs(workflow.inputs, {first.name: prompt}, names)
    lines = str(workflow.hint.evaluate({**names, "inputs": inputs})).split("\n")
    return next((" ".join(line.split())[:MAX_LINE_LENGTH] for line in lines if line.strip()), "")


def _parse_prompt(content: bytes) -> str:
    """Return the prompt from standard input: plain text, or the `prompt` of the JSON that agents send to hooks."""
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
    """Raise TimeoutError in a block that takes too long, even while it reads; only on systems with interval timers."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def raise_timeout(_number: int, _frame: object) -> None:
        raise TimeoutError(f"it took longer than {TIMEOUT} seconds")

    previous_handler = signal.signal(signal.SIGALRM, raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
