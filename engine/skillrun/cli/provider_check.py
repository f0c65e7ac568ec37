"""Tests a model server with four small requests, for `skillrun doctor --provider`.

The texts of the requests are in `skills/system/probe.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from skillrun.cli.formatting import Finding
from skillrun.library.models_yaml import TABLES
from skillrun.models.capabilities import ServerProfile
from skillrun.models.entries import ProviderConfig
from skillrun.models.gateway import ModelGateway
from skillrun.models.messages import Block, Message, ModelError, Reply, Request, ToolSpec
from skillrun.models.providers import list_models
from skillrun.structured_output.values import parse_reply
from skillrun.syntax.diagnostics import SkillrunError, UsageError, allowed_hint, did_you_mean

if TYPE_CHECKING:
    from skillrun.library.library import Library
    from skillrun.models.catalogue import Catalogue

LIST_SECONDS: Final = 10
MAX_TOKENS: Final = 1000  # a model that thinks needs most of them for its thoughts
TOOL: Final = "house_color"
PARAMETERS: Final = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
REQUIRED_KEYS: Final = ("kind", "base_url", "key")


@dataclass(frozen=True)
class ProviderReport:
    """The result of the four requests to a model of a server. `entry` has the lines for `config/models.yaml`
    that describe the server and use the model for every tier."""

    provider: str
    model: str
    address: str
    requests: list[Finding]
    adapted: dict[str, Any]
    entry: str


async def check_provider(
    library: Library, catalogue: Catalogue, text: str, cache: Path, progress: Callable[[str], None]
) -> ProviderReport:
    """Send the requests to the provider and model that `text` (`NAME` or `NAME:MODEL`) selects. What earlier requests
    have taught about the server is deleted first. Raises `SkillrunError`."""
    provider, model = await _choose_model(catalogue, text)
    ServerProfile.read(provider, model, cache).forget()
    gateway = ModelGateway(catalogue, os.environ, cache, progress)
    try:
        findings = [each async for each in _send_requests(library, catalogue, gateway, f"{provider.name}:{model}")]
    finally:
        await gateway.close()
    adapted = _adaptations(ServerProfile.read(provider, model, cache))
    entry = _format_entry(provider, model, adapted)
    return ProviderReport(provider.name, model, provider.base_url, findings, adapted, entry)


async def _choose_model(catalogue: Catalogue, text: str) -> tuple[ProviderConfig, str]:
    """Return the provider and its model: the given one, that of a tier, the provider's own, or the first that the
    server lists."""
    name, _, model = text.partition(":")
    if name not in catalogue.providers:
        hint = did_you_mean(name, catalogue.providers) or allowed_hint(catalogue.providers)
        raise UsageError(f"the provider `{name}` is unknown; {hint}", "`skillrun models` shows the providers.")
    provider = catalogue.providers[name]
    if provider.blocked_reason:
        reason = f"nothing is sent to {provider.location}"
        raise SkillrunError(reason, "Run `skillrun trust` to review what this project requests.")
    if not provider.is_configured(os.environ):
        raise SkillrunError(f"{provider.key} is not set, so {name} cannot be used", f"Set {provider.key}.")
    candidates = filter(None, (*catalogue.tiers, provider.strong))
    resolved = (catalogue.resolve(candidate, os.environ) for candidate in candidates)
    model = model or next((each.model.partition(":")[2] for each in resolved if each.provider == name), "")
    if not model:
        names = await list_models(provider, os.environ.get(provider.key, ""), LIST_SECONDS)
        if not names:
            raise SkillrunError(f"{name} lists no models", f"Name one: `skillrun doctor --provider {name}:MODEL`.")
        model = names[0]
    return provider, model


async def _send_requests(
    library: Library, catalogue: Catalogue, gateway: ModelGateway, name: str
) -> AsyncIterator[Finding]:
    """Send the four requests and yield a finding for each. If the first one fails, the others are not sent."""
    probe, note = library.text("system/probe"), library.text("system/schema")
    if probe is None or probe.output is None or note is None:
        raise SkillrunError("`skills/system/probe.md` or `schema.md` is missing or broken", "Run `skillrun validate`.")
    texts = {section.name: section.text.value.strip() for section in probe.document.sections}
    schema = probe.output.static_schema
    resolved = catalogue.resolve(name, os.environ)
    tools = (ToolSpec(TOOL, texts["tool-description"], PARAMETERS),) if resolved.tools else ()
    system, limit = (Block(texts["system"]),), min(MAX_TOKENS, resolved.max_output)
    turns = [_user_turn(texts["text"])]
    replies: dict[str, Reply | ModelError] = {}

    async def send(what: str, *messages: Message, **more: Any) -> Finding:
        try:
            reply = replies[what] = await gateway.send(Request(name, system, messages, limit, **more), what)
        except ModelError as error:
            replies[what] = error
            return Finding("missing", what, error.message, "" if error.retryable else error.next_step)
        if reply.stop == "length":
            message = f"the reply reached its limit of {limit:,} tokens"
            return Finding("missing" if what == "schema" else "warning", what, message)
        if reply.stop not in ("end", "tool") or not (reply.text.strip() or reply.calls):
            return Finding("missing", what, "the reply is incomplete or empty")
        if what == "schema" and (errors := parse_reply(reply.text, schema)[1]):
            return Finding("missing", what, f"the reply does not match the schema: {errors[0].message}")
        if what == "tool" and not reply.calls:
            return Finding("warning", what, "the model replied with text and did not call the tool")
        return Finding("ok", what, f"works; {reply.usage.output} tokens in {reply.seconds:.1f} s")

    yield (finding := await send("text", *turns))
    if finding.state == "missing":
        return
    schema_note = note.template.render_text({"schema": json.dumps(schema)})
    yield await send("schema", _user_turn(texts["schema"]), schema=schema, schema_note=schema_note)
    if tools:
        yield await send("tool", _user_turn(texts["tool"]), tools=tools)
    else:
        yield Finding("note", "tool", "not sent, because its entry has `tools: false`")
    called = replies.get("tool")
    if isinstance(called, Reply) and called.calls:
        turns = [_user_turn(texts["tool"]), Message("assistant", (Block(called.text),), called.calls)]
        turns += [Message("tool", (Block(texts["tool-result"]),), call_id=call.id) for call in called.calls]
        yield await send("conversation", *turns, tools=tools)
    else:
        first = replies["text"]
        assert isinstance(first, Reply)
        turns += [Message("assistant", (Block(first.text),)), _user_turn(texts["conversation"])]
        yield await send("conversation", *turns)


def _user_turn(text: str) -> Message:
    return Message("user", (Block(text),))


def _adaptations(profile: ServerProfile) -> dict[str, Any]:
    """Return what was learned about a server, as keys of its entry."""
    learned: dict[str, Any] = dict(profile.learned)
    if "omit" in learned:
        learned["omit"] = learned["omit"].split()
    limits = {"window": profile.window, "max_output": profile.learned_output}
    return {**learned, **{key: limit for key, limit in limits.items() if limit}}


def _format_entry(provider: ProviderConfig, model: str, adapted: dict[str, Any]) -> str:
    defaults = {field.name: field.default for field in fields(ProviderConfig)}
    values = {key: adapted.get(key, getattr(provider, key)) for key in TABLES["providers"]}
    entry = {key: value for key, value in values.items() if key in REQUIRED_KEYS or value != defaults[key]}
    tier = f"{provider.name}:{model}"
    lines = {"providers": {provider.name: entry}, "tiers": {"strong": tier, "fast": tier}}
    return "\n".join(
        f"{key}: {yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).strip()}"
        for key, value in lines.items()
    )
