"""Our requests in a provider's terms and its answers in ours, through Pydantic AI. One attempt a call: no retries here.

Everything heavy is imported when the first call is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from skillrun.models.failures import model_error
from skillrun.models.messages import Block, Reply, Request, Stop, ToolCall, Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, UserContent
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.profiles import ModelProfile

    from skillrun.models.catalogue import Provider

OUTPUT_TOOL = "reply"
NO_KEY = "no-key"  # the SDKs refuse an empty one
STOPS: Mapping[str | None, Stop] = {"stop": "end", "tool_call": "tool", "length": "length", "content_filter": "refusal"}


class Backend:
    """One provider."""

    def __init__(self, provider: Provider, key: str) -> None:
        self.provider = provider
        self._key = key
        self._client: Any = None
        self._models: dict[str, Model[Any]] = {}

    async def send(self, request: Request) -> Reply:
        """The reply to one attempt, without its price and time. Raises `ModelError`."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior, UserError

        name = request.model.partition(":")[2]
        model = self.prepare(name)
        try:
            response = await model_request(
                model,
                _history(request, marked=self.provider.kind == "anthropic"),
                model_settings=self.settings(request, model.profile),  # type: ignore[arg-type]
                model_request_parameters=_parameters(request),
            )
        except (ModelAPIError, UnexpectedModelBehavior, UserError) as error:
            raise model_error(error, self.provider, name, self._key) from None
        return _reply(response, request)

    def prepare(self, name: str) -> Model[Any]:
        """Imports and sets up what calls to the model need: more than a second, so best done in a thread first."""
        if name not in self._models:
            self._client = self._client or _client(self.provider, self._key)
            self._models[name] = _model(self.provider, self._client, name)
        return self._models[name]

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    def settings(self, request: Request, profile: ModelProfile) -> dict[str, Any]:
        thinks = profile.get("thinking_enabled_by_default", False)
        # Of the models of other endpoints nothing is known, so there the configuration alone decides.
        room = self.provider.thinking if thinks or self.provider.kind == "openai" else 0
        settings: dict[str, Any] = {"max_tokens": request.max_tokens + room}
        if request.temperature is not None and not thinks and not profile.get("anthropic_disallows_sampling_settings"):
            settings["temperature"] = request.temperature
        if request.answer_now:
            settings["tool_choice"] = "none"
        if self.provider.kind == "anthropic":
            # What goes on, with tools, a repair or a session, is kept up to its end as well, for its next turn.
            settings["anthropic_cache"] = bool(request.tools) or len(request.messages) > 1
        elif self.provider.kind == "responses":
            settings["openai_store"] = False
        return settings


async def list_models(provider: Provider, key: str, seconds: float) -> list[str]:
    """The names of the models that the provider lists, in its order. Raises `ModelError`."""
    import asyncio

    import anthropic
    import openai

    client = _client(provider, key)
    try:
        async with asyncio.timeout(seconds):
            pages = client.models.list(limit=1000) if provider.kind == "anthropic" else client.models.list()
            return [model.id.removeprefix("models/") async for model in pages]
    except (anthropic.APIError, openai.APIError, TimeoutError) as error:
        raise model_error(error, provider, "", key) from None
    finally:
        await client.close()


def _history(request: Request, *, marked: bool) -> list[ModelMessage]:
    """The messages of a request for Pydantic AI, with the cache breakpoints of the user's blocks where `marked`."""
    from pydantic_ai import messages as ai

    called = {call.id: call.name for message in request.messages for call in message.calls}
    parts: list[ModelRequestPart] = []
    if system := _joined(request.system):
        parts.append(ai.SystemPromptPart(system))
    turns: list[ModelMessage] = []
    for message in request.messages:
        if message.role == "assistant":
            if parts:
                turns.append(ai.ModelRequest(parts))
                parts = []
            said: list[ai.ModelResponsePart] = [ai.TextPart(text)] if (text := _joined(message.blocks)) else []
            said += [ai.ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.calls]
            if said:
                turns.append(ai.ModelResponse(said))
        elif message.role == "tool":
            name = called.get(message.call_id, "tool")
            parts.append(ai.ToolReturnPart(name, _joined(message.blocks), tool_call_id=message.call_id))
        else:
            parts.append(ai.UserPromptPart(_marked(message.blocks) if marked else _joined(message.blocks)))
    if parts:
        turns.append(ai.ModelRequest(parts))
    return turns


def _joined(blocks: Sequence[Block]) -> str:
    """Blocks as one text: each is a paragraph of its own."""
    return "\n\n".join(block.text for block in blocks if block.text.strip())


def _marked(blocks: Sequence[Block]) -> list[UserContent]:
    from pydantic_ai.messages import CachePoint

    content: list[UserContent] = []
    for block in blocks:
        if block.text.strip():
            content += [block.text, CachePoint()] if block.cache else [block.text]
    return content


def _parameters(request: Request) -> ModelRequestParameters:
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
    # `auto` is the provider's structured output where the model has it and takes this schema, otherwise a forced tool.
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="auto",
        output_object=OutputObjectDefinition(schema, name=OUTPUT_TOOL),
        output_tools=[ToolDefinition(name=OUTPUT_TOOL, parameters_json_schema=schema, kind="output")],
        allow_text_output=False,
    )


def _reply(response: ModelResponse, request: Request) -> Reply:
    from pydantic_ai.messages import TextPart, ToolCallPart

    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls: list[ToolCall] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_name == OUTPUT_TOOL and request.schema is not None:
            text = part.args if isinstance(part.args, str) else json.dumps(part.args, ensure_ascii=False)
        elif isinstance(part, ToolCallPart):
            calls.append(ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict()))
    stop = STOPS.get(response.finish_reason, "other")
    if stop in {"end", "tool"}:
        stop = "tool" if calls else "end"
    elif stop == "refusal" and not text:
        text = str((response.provider_details or {}).get("refusal", ""))
    used = response.usage
    return Reply(
        text=text,
        calls=tuple(calls) if stop == "tool" else (),
        usage=Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens),
        stop=stop,
        model=f"{request.model.partition(':')[0]}:{response.model_name or request.model.partition(':')[2]}",
    )


def _client(provider: Provider, key: str) -> Any:
    if provider.kind == "anthropic":
        from anthropic import AsyncAnthropic

        # No time-out of its own: with the SDK's, a call for a long reply is streamed; the gateway keeps the clock.
        return AsyncAnthropic(api_key=key or NO_KEY, base_url=provider.base_url, max_retries=0)
    from openai import AsyncOpenAI

    return AsyncOpenAI(
        api_key=key or NO_KEY, base_url=provider.base_url, max_retries=0, timeout=provider.timeout, organization=""
    )


def _model(provider: Provider, client: Any, name: str) -> Model[Any]:
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
