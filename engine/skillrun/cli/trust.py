"""`skillrun trust`: shows the settings of a project that need the user's trust, and saves the user's consent.

A run that needs consent asks for it before starting. `library.privileged_settings` finds the settings and
stores the consent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

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
from skillrun.library.privileged_settings import (
    PrivilegedSetting,
    consent_digest,
    find_privileged_settings,
    has_consent,
    revoke_consent,
    save_consent,
)
from skillrun.questions.answers import Question
from skillrun.questions.responder import has_terminal
from skillrun.questions.terminal import Terminal

if TYPE_CHECKING:
    from skillrun.library.library import Library
    from skillrun.models.entries import ResolvedModel


@click.command(help="Show the settings of this project that need your trust, and trust them.")
@click.option("--yes", is_flag=True, help="Trust without asking for confirmation.")
@click.option("--show", is_flag=True, help="Only show the settings, and whether they are trusted.")
@click.option("--revoke", is_flag=True, help="Stop trusting this project.")
@as_json
def trust(yes: bool, show: bool, revoke: bool, out: Output) -> int:
    if yes + show + revoke > 1:
        raise click.UsageError("Use only one of --yes, --show and --revoke.")
    library = open_library()
    if revoke:
        gone = revoke_consent(library.project)
        out.line("this project is no longer trusted" if gone else "this project was not trusted")
        _print_data((), out, trusted=False)
        return 0
    library.config("models")
    errors = [problem for problem in problems_for_display(library) if problem.severity == "error"]
    exit_on_errors(errors, out, "Nothing was changed.")
    settings = find_privileged_settings(library)
    trusted = not settings or has_consent(library.project, consent_digest(settings))
    code = 0
    if not settings:
        out.line("no settings of this project need your trust")
    else:
        _print_settings(library, settings, out)
        if show or trusted:
            state = "trusted." if trusted else "not trusted; `skillrun trust` asks."
            out.line(f"These settings are {state}")
        elif not yes and not has_terminal():
            out.note("error: confirmation needs a terminal; nothing was changed")
            out.note("hint: `skillrun trust --yes` trusts the settings above")
            code = 1
        elif yes or _confirm_trust(settings):
            _save_consent(library, settings, out)
            trusted = True
        else:
            out.line("Nothing was changed.")
            code = 1
    _print_data(settings, out, trusted=trusted)
    return code


def require_trust(
    loaded: LoadedWorkflow, models: Mapping[str, ResolvedModel], out: Output, *, unattended: bool, is_granted: bool
) -> LoadedWorkflow:
    """Return the workflow if the user trusts the addresses to which calls to `models` are sent.

    If necessary, ask the user, and exit if the user does not consent. `is_granted` says if `--trust-project` is set.
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
        f"calls to {provider.name} are blocked: {provider.blocked_reason}"
        for provider in sorted(barred, key=attrgetter("name"))
    ]
    out.note(f"error: {'; '.join(reasons)}. {NOTHING_RUN}")
    out.note(
        "hint: `skillrun trust` trusts these settings until they change; `--trust-project` trusts them for one command"
    )
    out.data({"status": "refused", "reasons": reasons})
    raise click.exceptions.Exit(1)


def _print_settings(library: Library, settings: Sequence[PrivilegedSetting], out: Output) -> None:
    """Print where the calls and key of each provider go, and the settings that cause this."""
    out.line(f"{library.project} has settings that need your trust:")
    for name in dict.fromkeys(wish.provider for wish in settings):
        of_it = [wish for wish in settings if wish.provider == name]
        out.line(f"  {describe_setting(of_it[0])}")
        out.lines(f"    {wish.location}: {wish.key} = {wish.value}" for wish in of_it)


def describe_setting(setting: PrivilegedSetting) -> str:
    """Return the effect of a setting: `x: calls and the key in X_API_KEY go to https://…, not to https://…`."""
    endpoint, default = setting.endpoint, setting.baseline
    key = f" and the key in {endpoint.key}" if endpoint.key else ""
    address_note = key_note = protocol_note = ""
    if default is not None:
        address_note = f", not to {default.base_url}" if default.base_url != endpoint.base_url else ""
        key_note = f", not the key in {default.key}," if default.key and default.key != endpoint.key else ""
        protocol_note = f", with the API of {endpoint.kind}" if default.kind != endpoint.kind else ""
    target = endpoint.base_url or "this process"
    return f"{setting.provider}: calls{key}{key_note} go to {target}{address_note}{protocol_note}"


def _confirm_trust(settings: Sequence[PrivilegedSetting]) -> bool:
    places = {wish.endpoint.base_url for wish in settings}
    keys = {wish.endpoint.key for wish in settings if wish.endpoint.key}
    many = f"{len(places)} addresses" if len(places) > 1 else "this address"
    with_keys = f" with {count_noun(len(keys), 'key')} of yours" if keys else ""
    question: Question = {"id": "trust", "text": f"Trust {many}{with_keys}?", "choices": ["no", "yes"], "default": "no"}
    return asyncio.run(Terminal().ask([question])) == [{"answer": "yes"}]


def _save_consent(library: Library, settings: Sequence[PrivilegedSetting], out: Output) -> None:
    lines = [f"{wish.span.path}: {wish.key} = {wish.value}" for wish in settings]
    path = save_consent(library.project, consent_digest(settings), lines)
    out.line(f"Trusted until one of these settings changes ({path}). `skillrun trust --revoke` undoes this.")


def _print_data(settings: Sequence[PrivilegedSetting], out: Output, *, trusted: bool) -> None:
    rows = [
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
