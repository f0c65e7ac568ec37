"""Options that several commands share, and what their values mean."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

runs_folder: Decorator = click.option(
    "--out",
    "runs",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    metavar="DIR",
    help="The folder of the runs.",
)
as_json: Decorator = click.option("--json", "json", is_flag=True, help="Only JSON on standard output.")
unattended: Decorator = click.option(
    "--unattended", is_flag=True, help="Ask nobody: use prepared answers and defaults."
)
answers: Decorator = click.option(
    "--answers",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Answers to questions, prepared in a file.",
)
script: Decorator = click.option(
    "--script",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Replies of a scripted model, for tests.",
)


def _limits(_context: click.Context, _parameter: click.Parameter, text: str) -> dict[str, float]:
    """`calls=20,price=1.5` as numbers by name."""
    from skillrun.language.diagnostics import allowed, did_you_mean
    from skillrun.runtime.limits import NAMES

    found: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, amount = (piece.strip() for piece in part.partition("="))
        if name not in NAMES:
            raise click.BadParameter(f"`{name}` is no budget; {did_you_mean(name, NAMES) or allowed(NAMES)}")
        try:
            found[name] = float(amount)
        except ValueError:
            raise click.BadParameter(f"`{name}` is `{amount}`; it is a number, as in `{name}=100`") from None
    return found


budget: Decorator = click.option(
    "--budget",
    callback=_limits,
    default="",
    metavar="LIMITS",
    help="What may be spent: calls=…,tokens=…,price=…,minutes=….",
)


def located(run: str, runs: Path) -> tuple[Path, str]:
    """The runs folder and the slug of a run that is given by its slug, or by the path of its folder."""
    if os.sep in run:
        path = Path(run).resolve()
        return path.parent, path.name
    return runs, run
