"""`skillrun trust`: shows what this project's files want beyond what any project may have, and keeps the consent.

Also asks for it before a run that needs it. What the wishes are is for `language.wishes`, where a consent lies for
`people.consent`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from skillrun.cli.formatting import counted
from skillrun.cli.loading import NOTHING, Loaded, open_catalogue, open_library, problems_here, refuse
from skillrun.cli.options import as_json
from skillrun.cli.output import Output
from skillrun.library.privileged_settings import Wish, consent_digest, wishes
from skillrun.questions import consent
from skillrun.questions.responder import has_terminal

if TYPE_CHECKING:
    from skillrun.library.library import Library
    from skillrun.models.entries import Provider, Resolved

NONE = "this project wants nothing that any project may not have; there is nothing to trust"


@click.command(help="Show what this project's files may do only if you trust them, and trust them.")
@click.option("--yes", is_flag=True, help="Trust without asking for confirmation.")
@click.option("--show", is_flag=True, help="Only show it, and whether the project is trusted.")
@click.option("--revoke", is_flag=True, help="Stop trusting this project.")
@as_json
def trust(yes: bool, show: bool, revoke: bool, json: bool) -> int:
    out = Output(json)
    if yes + show + revoke > 1:
        raise click.UsageError("Use only one of --yes, --show and --revoke.")
    library = open_library()
    if revoke:
        gone = consent.revoke(library.project)
        out.line("this project is not trusted any more" if gone else "this project was not trusted")
        return _report((), out, trusted=False)
    wanted = _wanted(library, out)
    if not wanted:
        out.line(NONE)
        return _report(wanted, out, trusted=True)
    trusted = consent.has_consent(library.project, consent_digest(wanted))
    _show(library, wanted, out)
    if show or trusted:
        out.line("It is trusted." if trusted else "It is not trusted: `skillrun trust` asks.")
        return _report(wanted, out, trusted=trusted)
    if not yes and not has_terminal():
        out.note("error: nobody is there to be asked, and nothing was changed")
        out.note("hint: `skillrun trust --yes` agrees to what stands above")
        _report(wanted, out, trusted=False)
        return 1
    if not yes and not _agreed(wanted):
        out.line("Nothing was changed.")
        _report(wanted, out, trusted=False)
        return 1
    _keep(library, wanted, out)
    return _report(wanted, out, trusted=True)


def trusted(loaded: Loaded, models: Mapping[str, Resolved], out: Output, *, unattended: bool, given: bool) -> Loaded:
    """The same workflow, once somebody has agreed to where calls to these models go.

    Asks where it has to, or ends the command. `given`: agreed to for this command.
    """
    library, used = loaded.program.library, {model.provider for model in models.values()}
    if given:
        return Loaded(loaded.program, open_catalogue(library, trusted=True))
    barred = [provider for name, provider in loaded.catalogue.providers.items() if name in used and provider.barred]
    if not barred:
        return loaded
    wanted = wishes(library)
    _show(library, wanted, out)
    if not unattended and has_terminal() and _agreed(wanted):
        _keep(library, wanted, out)
        return Loaded(loaded.program, open_catalogue(library))
    reasons = [f"nothing is sent to {provider.name}: {provider.barred}" for provider in sorted(barred, key=_named)]
    out.note(f"error: {'; '.join(reasons)}. {NOTHING}")
    out.note("hint: `skillrun trust` agrees to it until it changes, --trust-project for one command")
    out.data({"status": "refused", "reasons": reasons})
    raise click.exceptions.Exit(1)


def _named(provider: Provider) -> str:
    return provider.name


def _wanted(library: Library, out: Output) -> tuple[Wish, ...]:
    """What the project wants; ends the command where its files cannot be read."""
    library.config("models")
    refuse([problem for problem in problems_here(library) if problem.severity == "error"], out, "Nothing was changed.")
    return wishes(library)


def _show(library: Library, wanted: Sequence[Wish], out: Output) -> None:
    """Where each provider would be and which key it would get, and which lines of which file say so."""
    out.line(f"{library.project} wants more than any project may have:")
    for name in dict.fromkeys(wish.provider for wish in wanted):
        of_it = [wish for wish in wanted if wish.provider == name]
        out.line(f"  {meaning_of(of_it[0])}")
        for wish in of_it:
            out.line(f"    {wish.place}: {wish.key} = {wish.value}")


def meaning_of(wish: Wish) -> str:
    """What a wish comes to: `x: calls and the key in X_API_KEY go to https://…, and not to https://…`."""
    goes, went = wish.endpoint, wish.otherwise
    key = f" and the key in {goes.key}" if goes.key else ""
    instead = f", and not to {went.base_url}" if went is not None and went.base_url != goes.base_url else ""
    before = f", and not that in {went.key}" if went is not None and went.key and went.key != goes.key else ""
    spoken = f", spoken to as {goes.kind}" if went is not None and went.kind != goes.kind else ""
    return f"{wish.provider}: calls{key}{before} go to {goes.base_url or 'this process'}{instead}{spoken}"


def _agreed(wanted: Sequence[Wish]) -> bool:
    import asyncio

    from skillrun.questions.answers import Question
    from skillrun.questions.terminal import Terminal

    places = {wish.endpoint.base_url for wish in wanted}
    keys = {wish.endpoint.key for wish in wanted if wish.endpoint.key}
    many = f"{len(places)} addresses" if len(places) > 1 else "this address"
    with_keys = f" with {counted(len(keys), 'key')} of yours" if keys else ""
    text = f"Trust {many}{with_keys}?"
    question: Question = {"id": "trust", "text": text, "choices": ["no", "yes"], "default": "no"}
    return asyncio.run(Terminal().ask([question])) == [{"answer": "yes"}]


def _keep(library: Library, wanted: Sequence[Wish], out: Output) -> None:
    lines = [f"{wish.span.path}: {wish.key} = {wish.value}" for wish in wanted]
    path = consent.keep_consent(library.project, consent_digest(wanted), lines)
    out.line(f"Trusted, until one of these settings changes ({path}). `skillrun trust --revoke` takes it back.")


def _report(wanted: Sequence[Wish], out: Output, *, trusted: bool) -> int:
    rows: list[dict[str, Any]] = [
        {
            "path": wish.span.path,
            "line": wish.span.line,
            "key": wish.key,
            "value": wish.value,
            "means": meaning_of(wish),
        }
        for wish in wanted
    ]
    out.data({"trusted": trusted, "wants": rows})
    return 0
