"""Sends requests to a provider through Pydantic AI and converts the responses. Does not retry.

Large dependencies are imported at the first call.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from skillrun.models.capabilities import (
    LIMIT_FIELDS,
    OUTPUT_TOOL,
    REFUSAL_STATUSES,
    ServerProfile,
    find_lower_limit,
)
from skillrun.models.failures import describe_refusal, model_error
from skillrun.models.messages import Block, ModelError, Reply, Request, ToolCall, Usage
from skillrun.models.redaction import Redactor
from skillrun.models.response_bodies import ReadBody
from skillrun.scoring.compaction import estimate_tokens
from skillrun.structured_output.values import MAX_REPLY, contains_json

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, UserContent
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.profiles import ModelProfile

    from skillrun.models.entries import ClientContext, ProviderConfig
    from skillrun.models.transport import WireExchange


def build_model(provider: ProviderConfig, client: Any, name: str) -> Model[Any]:
    """Return the Pydantic AI model for the provider's protocol. The imports take about a second."""
    if provider.kind == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        known = AnthropicProvider.model_profile(name) or {}
        mode: Literal["native", "tool"] = "native" if known.get("supports_json_schema_output") else "tool"
        claude = AnthropicProvider(anthropic_client=client)
        return AnthropicModel(name, provider=claude, profile={"default_structured_output_mode": mode})
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if provider.kind == "responses":
        native = OpenAIModelProfile(default_structured_output_mode="native")
        return OpenAIResponsesModel(name, provider=OpenAIProvider(openai_client=client), profile=native)
    plain = OpenAIModelProfile(
        supports_json_schema_output=True,
        default_structured_output_mode="native",
        json_schema_transformer=None,
        openai_chat_supports_max_completion_tokens=False,
        openai_supports_strict_tool_definition=False,
    )
    compatible = OpenAICompatibleProvider(provider.name, openai_client=client)
    return OpenAIChatModel(name, provider=compatible, profile=plain)


EXTRA_KEY = "extra_content"  # Pydantic AI and Google's API use this field for data that must be sent back with a call
THOUGHTS_KEY: Final = "thoughts"
"""The key of a tool call's extra data that holds thoughts. They go back to the provider before the call."""
ONLY_THOUGHTS: Final = "the reply contains only thoughts"
MODEL_NAME: Final = re.compile(r"[\w.:/@+-]{1,200}", re.ASCII)
"""Matches the model names that are accepted in a response."""
MAX_NAMES: Final = 10_000
MAX_DEPTH: Final = 100
OVERHEAD_TOKENS: Final = 20_000
"""The number of tokens that a provider can add, for instructions about tools and schemas or for hidden thinking."""
MAX_RATIO: Final = 10
BYTES_PER_TOKEN: Final = 4
"""The estimated length of a token in a reply that cannot be read."""


async def open_client(context: ClientContext) -> ProviderClient:
    """Return a client that is ready to send a request to the context's model."""
    client = ProviderClient(context)
    # In a thread: the imports alone take a second, and would block the other branches of a run.
    await asyncio.to_thread(client.prepare_model, context.model)
    return client


class ProviderClient:
    """The client of one provider."""

    def __init__(self, context: ClientContext) -> None:
        self.provider, self._key, self._cache = context.provider, context.key, context.cache
        self._redactor, self._progress = context.redactor, context.progress
        self._limited_models = context.limited_models
        self._profiles: dict[str, ServerProfile] = {}
        self._request_limits: dict[str, int] = {}  # the output limits that single requests need, by fingerprint
        self._has_warned = False
        self._client: Any = None
        self._models: dict[str, Model[Any]] = {}

    async def send(self, request: Request) -> Reply:
        """Make one attempt, and return the reply without its price and duration. Raises `ModelError`."""
        from pydantic_ai.direct import model_request

        from skillrun.models.transport import EXCHANGE, WireExchange

        name = request.model.partition(":")[2]
        model = self.prepare_model(name)
        history = _build_history(request, model.system, use_cache_points=self.provider.kind == "anthropic")
        settings = self.build_settings(request, model.profile)
        parameters = _build_parameters(request)
        profile = self._profile(name)
        limit = self._request_limits.get(request.fingerprint(), 0)
        exchange = WireExchange(profile.protocol, partial(profile.adapt, note=request.schema_note, limit=limit))
        token = EXCHANGE.set(exchange)
        try:
            response = await model_request(
                model,
                history,
                model_settings=settings,  # type: ignore[arg-type]
                model_request_parameters=parameters,
            )
            assert exchange.response is not None
            reply = _build_reply(response, request, self._redactor, exchange.response)
        except Exception as error:  # noqa: BLE001 -- any error from a provider or its SDK fails the call
            failure = error if isinstance(error, ModelError) else None
            if failure is None:
                read, headers = exchange.response, exchange.headers
                failure = model_error(error, self.provider, name, self._redactor, read, headers)
                failure.adaptation = self._adapt_to_refusal(exchange, request, profile)
            if exchange.reply_size is not None:
                estimate = min(settings["max_tokens"], math.ceil(exchange.reply_size / BYTES_PER_TOKEN))
                reported = {"output": estimate, **_sum_usage(exchange.usage, profile.protocol)}
                failure.usage, _ = _clamp_usage(reported, request, Reply(""), settings["max_tokens"])
            raise failure from None
        finally:
            EXCHANGE.reset(token)
        usage, implausible = _clamp_usage(
            _sum_usage(exchange.usage, profile.protocol), request, reply, settings["max_tokens"]
        )
        if implausible and not self._has_warned:
            self._has_warned = True
            self._progress(f"{self.provider.name} {implausible}")
        return replace(reply, usage=usage)

    def _profile(self, model: str) -> ServerProfile:
        if model not in self._profiles:
            self._profiles[model] = ServerProfile.read(self.provider, model, self._cache)
        return self._profiles[model]

    def _adapt_to_refusal(self, exchange: WireExchange, request: Request, profile: ServerProfile) -> str:
        """Learn from a refusal how the request has to change, and return the change; empty if it cannot change."""
        refused = exchange.response
        if refused is None or refused.status not in REFUSAL_STATUSES:
            return ""
        message = describe_refusal(refused.body)
        sent = next((exchange.sent[key] for key in LIMIT_FIELDS if key in exchange.sent), 0)
        lower, window = find_lower_limit(sent, message)
        if lower and not (self.provider.max_output or request.model in self._limited_models):
            if window:  # the limit depends on the length of the prompt
                self._request_limits[request.fingerprint()] = lower
            else:
                profile.learned_output = lower
            profile.window = profile.window or window
            profile.save()
            return f"at most {lower:,} tokens of output"
        return profile.learn(exchange.sent, message, lambda: exchange.adapt(exchange.original))

    def prepare_model(self, name: str) -> Model[Any]:
        """Import and set up everything needed for calls to the model. Run it in a thread before the first call, because
        it takes over a second."""
        if name not in self._models:
            from skillrun.models.transport import sdk_client

            self._client = self._client or sdk_client(self.provider, self._key)
            self._models[name] = build_model(self.provider, self._client, name)
        return self._models[name]

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    def build_settings(self, request: Request, profile: ModelProfile) -> dict[str, Any]:
        is_thinking = profile.get("thinking_enabled_by_default", False)
        # Nothing is known about the models of other endpoints, so only the configuration decides what they support.
        thinking_tokens = self.provider.thinking if is_thinking or self.provider.kind == "openai" else 0
        settings: dict[str, Any] = {"max_tokens": request.max_tokens + thinking_tokens}
        if (
            request.temperature is not None
            and not is_thinking
            and not profile.get("anthropic_disallows_sampling_settings")
        ):
            settings["temperature"] = request.temperature
        if request.answer_now:
            settings["tool_choice"] = "none"
        if self.provider.kind == "anthropic":
            # Cache the whole conversation for the next turn if it has tools, a repair or a session.
            settings["anthropic_cache"] = bool(request.tools) or len(request.messages) > 1
        elif self.provider.kind == "responses":
            settings["openai_store"] = False
        return settings


async def list_models(provider: ProviderConfig, key: str, seconds: float) -> list[str]:
    """Return the names of the models that the provider lists, in the provider's order. Invalid names, and names that
    contain a piece of the key, are left out. Raises `ModelError`."""
    from skillrun.models.transport import sdk_client

    redactor = Redactor([key])
    client = sdk_client(provider, key)
    names: list[str] = []
    try:
        async with asyncio.timeout(seconds):
            pages = client.models.list(limit=1000) if provider.kind == "anthropic" else client.models.list()
            async for model in pages:
                name = model.id.removeprefix("models/")
                if MODEL_NAME.fullmatch(name) and redactor.redact_text(name) == name:
                    names.append(name)
                if len(names) == MAX_NAMES:
                    break
    except Exception as error:  # noqa: BLE001 -- any error from a provider or its SDK
        raise model_error(error, provider, "", redactor) from None
    finally:
        await client.close()
    return names


def _build_history(request: Request, provider_name: str, *, use_cache_points: bool) -> list[ModelMessage]:
    """Return the messages of a request in Pydantic AI's form. `use_cache_points` keeps the cache breakpoints of user
    blocks.

    `provider_name` is Pydantic AI's name for the provider. The extra data of a tool call is sent back only to that
    provider.
    """
    from pydantic_ai import messages as ai

    called = {call.id: call.name for message in request.messages for call in message.calls}
    parts: list[ModelRequestPart] = []
    if system := _join_blocks(request.system):
        parts.append(ai.SystemPromptPart(system))
    turns: list[ModelMessage] = []
    for message in request.messages:
        if message.role == "assistant":
            if parts:
                turns.append(ai.ModelRequest(parts))
                parts = []
            answer: list[ai.ModelResponsePart] = [ai.TextPart(text)] if (text := _join_blocks(message.blocks)) else []
            for call in message.calls:
                extra: dict[str, Any] = {}
                details = dict(call.extra or {})
                for thought in reversed(details.pop(THOUGHTS_KEY, [])):
                    fields = {"content": "", **thought}
                    answer.insert(0, ai.ThinkingPart(**fields, provider_name=provider_name))
                if details:
                    extra = {"provider_name": provider_name, "provider_details": {EXTRA_KEY: details}}
                answer.append(ai.ToolCallPart(call.name, call.arguments, tool_call_id=call.id, **extra))
            if answer:
                turns.append(ai.ModelResponse(answer, provider_name=provider_name))
        elif message.role == "tool":
            name = called.get(message.call_id, "tool")
            parts.append(ai.ToolReturnPart(name, _join_blocks(message.blocks), tool_call_id=message.call_id))
        else:
            content: list[UserContent] = []
            for block in message.blocks if use_cache_points else ():
                if block.text.strip():
                    content += [block.text, ai.CachePoint()] if block.cache else [block.text]
            parts.append(ai.UserPromptPart(content if use_cache_points else _join_blocks(message.blocks)))
    if parts:
        turns.append(ai.ModelRequest(parts))
    return turns


def _join_blocks(blocks: Sequence[Block]) -> str:
    return "\n\n".join(block.text for block in blocks if block.text.strip())


def _build_parameters(request: Request) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in request.tools
    ]
    schema = request.schema
    if schema is None:
        return ModelRequestParameters(function_tools=tools)
    # `auto` uses structured output if the model supports it for this schema, and a forced tool call if not.
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="auto",
        output_object=OutputObjectDefinition(schema, name=OUTPUT_TOOL),
        output_tools=[ToolDefinition(name=OUTPUT_TOOL, parameters_json_schema=schema, kind="output")],
        allow_text_output=False,
    )


def _build_reply(response: ModelResponse, request: Request, redactor: Redactor, body: ReadBody) -> Reply:
    """Convert a response to a reply, without usage and with keys removed. Raises `ModelError` if the reply is too long
    or too deeply nested. `body` is the body of the response."""
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    provider, _, requested_model = request.model.partition(":")
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls: list[ToolCall] = []
    values: list[str] = []  # all outputs are kept; the caller decides which one counts
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_name == OUTPUT_TOOL and request.schema is not None:
            values.append(part.args if isinstance(part.args, str) else json.dumps(part.args, ensure_ascii=False))
        elif isinstance(part, ToolCallPart):
            extra = (part.provider_details or {}).get(EXTRA_KEY)
            provider_extra = extra if isinstance(extra, dict) else {}
            if not calls and (thoughts := list(_thoughts_to_return(response))):
                provider_extra = {**provider_extra, THOUGHTS_KEY: thoughts}
            _check_length(len(part.args) if isinstance(part.args, str) else 0, provider)  # before it is parsed
            calls.append(ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict(), provider_extra or None))
    text = "\n\n".join(values) if values else text
    stop, detail = body.stop, body.word
    if stop == "tool" and not calls:
        stop = "end"
    if not text and not calls:
        hidden = "".join(part.content for part in response.parts if isinstance(part, ThinkingPart))
        detail = ONLY_THOUGHTS if hidden else detail
        if hidden and request.schema is not None and contains_json(hidden, request.schema):
            text = hidden
            stop = "end" if stop == "other" else stop
    size = len(text) + sum(_json_size([call.arguments, call.extra, call.name, call.id]) for call in calls)
    _check_length(size, provider)
    name = response.model_name or requested_model
    return Reply(
        text=redactor.redact_text(text),
        calls=tuple(call.map_fields(redactor.redact_value) for call in calls) if stop == "tool" else (),
        stop=stop,
        stop_detail=redactor.redact_text(detail)[:80] if stop == "other" or detail == ONLY_THOUGHTS else "",
        model=f"{provider}:{redactor.redact_text(name) if MODEL_NAME.fullmatch(name) else requested_model}",
    )


def _thoughts_to_return(response: ModelResponse) -> Iterator[dict[str, str]]:
    """Yield the thoughts of a response that its provider wants back with the tool calls.

    The Responses API is left out: without its thoughts it only thinks anew.
    """
    from pydantic_ai.messages import ThinkingPart

    for part in response.parts:
        if isinstance(part, ThinkingPart) and response.provider_name != "openai" and part.id != "content":
            fields = {"content": part.content, "id": part.id, "signature": part.signature}
            yield {name: value for name, value in fields.items() if value}


def _check_length(size: int, provider: str) -> None:
    if size > MAX_REPLY:
        raise ModelError("other", f"the reply of {provider} is longer than {MAX_REPLY:,} characters and was discarded")


def _json_size(value: Any, depth: int = 0) -> int:
    """Return an estimate of a value's length as JSON. Raises `ModelError` if the value is nested too deeply to be
    stored."""
    if depth > MAX_DEPTH:
        raise ModelError("other", f"the arguments of a tool call are nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        return sum(len(str(key)) + 6 + _json_size(item, depth + 1) for key, item in value.items()) + 2
    if isinstance(value, list):
        return sum(_json_size(item, depth + 1) + 2 for item in value) + 2
    if isinstance(value, str):
        return len(value) + 2
    return 8 + value.bit_length() // 3 if isinstance(value, int) else 24


# -- usage ------------------------------------------------------------------------------------------------------------


def _sum_usage(reported: Mapping[str, int], protocol: str) -> dict[str, int]:
    """Return the reported usage, with all input and output tokens in `input` and `output`.

    Claude reports cached input separately. If the total exceeds the sum of input and output, the difference is
    thinking. Gemini reports usage this way: https://ai.google.dev/gemini-api/docs/thinking (thoughts are billed but not
    returned).
    """
    usage = dict(reported)
    if protocol == "anthropic" and "input" in usage:
        usage["input"] += usage.get("read", 0) + usage.get("written", 0)
    elif usage.get("input", 0) > 0 and "output" in usage:
        usage["output"] += max(0, usage.get("total", 0) - usage["input"] - usage["output"])
    return usage


def _clamp_usage(reported: Mapping[str, int], request: Request, reply: Reply, max_tokens: int) -> tuple[Usage, str]:
    """Return the usage to count, and a warning about what the provider reports; empty if it is plausible.

    A token has at least one byte, so input tokens are limited to the bytes of the request plus a margin. Output tokens
    are limited to a multiple of `max_tokens`, because not every provider counts thinking towards `max_tokens`. If a
    value is missing or above its limit, or is less than a tenth of our estimate, the estimate is used.
    """
    calls = [call.to_dict() for message in request.messages for call in message.calls]
    plain = json.dumps([[vars(tool) for tool in request.tools], request.schema, calls], default=str)
    request_texts = [*(block.text for block in request.blocks), plain]
    reply_texts = [reply.text, *(json.dumps(call.arguments, default=str) for call in reply.calls)]
    highest = 2 * sum(len(text.encode("utf-8", "replace")) for text in request_texts) + OVERHEAD_TOKENS
    implausible: list[str] = []

    def clamp(name: str, texts: list[str], limit: int) -> int:
        number = reported.get(name, 0)
        # The estimate is expensive. It is needed only if the number is small in relation to the length of the text.
        if 0 < number <= limit and number * 2 * MAX_RATIO >= sum(map(len, texts)):
            return number
        estimate = sum(map(estimate_tokens, texts))
        if number > limit or number < estimate / MAX_RATIO:
            implausible.append(f"{name}: {_format_tokens(reported.get(name))}")
            return estimate
        return number

    def clamp_cache(name: str, whole: int) -> int:
        number = reported.get(name, 0)
        if not 0 <= number <= whole:
            implausible.append(f"cache_{name}: {_format_tokens(number)}")
        return max(0, min(number, whole))

    used = clamp("input", request_texts, highest)
    output = clamp("output", reply_texts, MAX_RATIO * max_tokens + OVERHEAD_TOKENS)
    read = clamp_cache("read", used)
    written = clamp_cache("written", used - read)
    if not (reported.get("input") or reported.get("output")):
        warning = "reports no valid usage; tokens and prices are estimated from the length of the texts"
    elif implausible:
        warning = f"reports an implausible usage ({', '.join(implausible)}); using an estimate instead"
    else:
        warning = ""
    return Usage(used, output, read, written), warning


def _format_tokens(number: int | None) -> str:
    return "nothing" if number is None else f"{max(-(10**18), min(number, 10**18)):.3g} tokens"
