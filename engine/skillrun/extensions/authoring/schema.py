"""`skillrun schema`: prints the output format of a template as JSON Schema, for use by programs that read artifacts."""

from __future__ import annotations

import json as encoding
from typing import Final

import click

from skillrun.cli.formatting import format_columns
from skillrun.cli.loading import exit_on_errors, open_library, problems_for_display
from skillrun.cli.options import as_json
from skillrun.cli.output import Output
from skillrun.definitions.definitions import TextFile
from skillrun.library.library import Library
from skillrun.syntax.diagnostics import UsageError, allowed_hint, did_you_mean

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@click.command(
    help="Print the output format of the template NAME as JSON Schema. Without NAME, list the templates that have one."
)
@click.argument("name", required=False)
@as_json
def schema(name: str | None, json: bool) -> int:
    out, library = Output(json), open_library()
    if name is None:
        templates = {skill: text for skill in library.skills() if (text := _template(library, skill)) is not None}
        out.line(format_columns((skill, text.description) for skill, text in templates.items()))
        out.data({skill: text.description for skill, text in templates.items()})
        return 0
    text = _template(library, name)
    exit_on_errors(problems_for_display(library), out)
    if text is None or text.output is None:
        known = [skill for skill in library.skills() if _template(library, skill) is not None]
        raise UsageError(f"no template named `{name}` has a schema", did_you_mean(name, known) or allowed_hint(known))
    document = {"$schema": DIALECT, "title": name, "description": text.description, **text.output.static_schema}
    out.line(encoding.dumps(document, indent=2, ensure_ascii=False))
    out.data(document)
    return 0


def _template(library: Library, name: str) -> TextFile | None:
    """Return the template `name`; None if it does not exist or has no schema."""
    text = library.text(name) if "/" in name and library.kind(name) == "template" else None
    return text if text is not None and text.output is not None else None
