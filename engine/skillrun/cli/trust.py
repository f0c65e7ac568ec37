"""`skillrun trust`: shows what this project's files want beyond what any project may have, and keeps the consent.

Also asks for it before a run that needs it. What the wishes are is for `language.wishes`, where a consent lies for
`people.consent`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from skillrun.cli.formatting import count_noun
from skillrun.cli.loading import (
    NOTHING_RUN,
    LoadedWorkflow,
    exit_on_errors,
    open_catalogue,
    open_library,
    problems_for_display,
)
from skillrun.cli.options import as_json
from skillrun.cli.output import Output
from skillrun.library.privileged_settings import PrivilegedSetting, consent_digest, find_privileged_settings
from skillrun.questions import consent
from skillrun.questions.responder import has_terminal

if TYPE_CHECKING:
    from skillrun.library.library import Library
    from skillrun.models.entries import ProviderConfig, ResolvedModel

NOTHING_TO_TRUST = "this project wants nothing that any project may not have; there is nothing to trust"


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
        return _print_data((), out, trusted=False)
    settings = _read_settings(library, out)
    if not settings:
        out.line(NOTHING_TO_TRUST)
        return _print_data(settings, out, trusted=True)
    trusted = consent.has_consent(library.project, consent_digest(settings))
    _print_settings(library, settings, out)
    if show or trusted:
        out.line("It is trusted." if trusted else "It is not trusted: `skillrun trust` asks.")
        return _print_data(settings, out, trusted=trusted)
    if not yes and not has_terminal():
        out.note("error: nobody is there to be asked, and nothing was changed")
        out.note("hint: `skillrun trust --yes` agrees to what stands above")
        _print_data(settings, out, trusted=False)
        return 1
    if not yes and not _confirm_trust(settings):
        out.line("Nothing was changed.")
        _print_data(settings, out, trusted=False)
        return 1
    _save_consent(library, settings, out)
    return _print_data(settings, out, trusted=True)


def require_trust(
    loaded: LoadedWorkflow, models: Mapping[str, ResolvedModel], out: Output, *, unattended: bool, is_granted: bool
) -> LoadedWorkflow:
    """The same workflow, once somebody has agreed to where calls to these models go.

    Asks where it has to, or ends the command. `given`: agreed to for this command.
    """
    library, used = loaded.program.library, {model.provider for model in models.values()}
    if is_granted:
        return LoadedWorkflow(loaded.program, open_catalogue(library, trusted=True))
    barred = [
        provider for name, provider in loaded.catalogue.providers.items() if name in used and provider.blocked_reason
    ]
    if not barred:
        return loaded
    settings = find_privileged_settings(library)
    _print_settings(library, settings, out)
    if not unattended and has_terminal() and _confirm_trust(settings):
        _save_consent(library, settings, out)
        return LoadedWorkflow(loaded.program, open_catalogue(library))
    reasons = [
        f"nothing is sent to {provider.name}: {provider.blocked_reason}"
        for provider in sorted(barred, key=_provider_name)
    ]
    out.note(f"error: {'; '.join(reasons)}. {NOTHING_RUN}")
    out.note("hint: `skillrun trust` agrees to it until it changes, --trust-project for one command")
    out.data({"status": "refused", "reasons": reasons})
    raise click.exceptions.Exit(1)


def _provider_name(provider: ProviderConfig) -> str:
    return provider.name


def _read_settings(library: Library, out: Output) -> tuple[PrivilegedSetting, ...]:
    """What the project wants; ends the command where its files cannot be read."""
    library.config("models")
    exit_on_errors(
        [problem for problem in problems_for_display(library) if problem.severity == "error"],
        out,
        "Nothing was changed.",
    )
    return find_privileged_settings(library)


def _print_settings(library: Library, settings: Sequence[PrivilegedSetting], out: Output) -> None:
    """Where each provider would be and which key it would get, and which lines of which file say so."""
    out.line(f"{library.project} wants more than any project may have:")
    for name in dict.fromkeys(wish.provider for wish in settings):
        of_it = [wish for wish in settings if wish.provider == name]
        out.line(f"  {describe_setting(of_it[0])}")
        for wish in of_it:
            out.line(f"    {wish.location}: {wish.key} = {wish.value}")


def describe_setting(setting: PrivilegedSetting) -> str:
    """What a wish comes to: `x: calls and the key in X_API_KEY go to https://…, and not to https://…`."""
    endpoint, default_endpoint = setting.endpoint, setting.baseline
    key = f" and the key in {endpoint.key}" if endpoint.key else ""
    address_note = (
        f", and not to {default_endpoint.base_url}"
        if default_endpoint is not None and default_endpoint.base_url != endpoint.base_url
        else ""
    )
    key_note = (
        f", and not that in {default_endpoint.key}"
        if default_endpoint is not None and default_endpoint.key and default_endpoint.key != endpoint.key
        else ""
    )
    protocol_note = (
        f", spoken to as {endpoint.kind}"
        if default_endpoint is not None and default_endpoint.kind != endpoint.kind
        else ""
    )
    target = endpoint.base_url or "this process"
    return f"{setting.provider}: calls{key}{key_note} go to {target}{address_note}{protocol_note}"


def _confirm_trust(settings: Sequence[PrivilegedSetting]) -> bool:
    import asyncio

    from skillrun.questions.answers import Question
    from skillrun.questions.terminal import Terminal

    places = {wish.endpoint.base_url for wish in settings}
    keys = {wish.endpoint.key for wish in settings if wish.endpoint.key}
    many = f"{len(places)} addresses" if len(places) > 1 else "this address"
    with_keys = f" with {count_noun(len(keys), 'key')} of yours" if keys else ""
    text = f"Trust {many}{with_keys}?"
    question: Question = {"id": "trust", "text": text, "choices": ["no", "yes"], "default": "no"}
    return asyncio.run(Terminal().ask([question])) == [{"answer": "yes"}]


def _save_consent(library: Library, settings: Sequence[PrivilegedSetting], out: Output) -> None:
    lines = [f"{wish.span.path}: {wish.key} = {wish.value}" for wish in settings]
    path = consent.save_consent(library.project, consent_digest(settings), lines)
    out.line(f"Trusted, until one of these settings changes ({path}). `skillrun trust --revoke` takes it back.")


def _print_data(settings: Sequence[PrivilegedSetting], out: Output, *, trusted: bool) -> int:
    rows: list[dict[str, Any]] = [
        {
            "path": wish.span.path,
            "line": wish.span.line,
            "key": wish.key,
            "value": wish.value,
            "means": describe_setting(wish),
        }
        for wish in settings
    ]
    out.data({"trusted": trusted, "wants": rows})
    return 0
