"""Our requests in a provider's terms and its answers in ours, through Pydantic AI. One attempt a call: no retries here.

Everything heavy is imported when the first call is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skillrun.models.failures import model_error
from skillrun.models.messages import Block, Message, Reply, Request, Stop, ToolCall, Usage
from skillrun.models.schema_limits import Limits, limited

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, UserContent
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.settings import ModelSettings

    from skillrun.models.catalogue import Provider

BREAKPOINTS = 4  # Anthropic takes no more in one request
SYSTEM = -1  # its place among the turns
OUTPUT_TOOL = "reply"
NO_KEY = "no-key"  # the SDKs refuse an empty one
STOPS: Mapping[str | None, Stop] = {"stop": "end", "tool_call": "tool", "length": "length", "content_filter": "refusal"}


class Backend:
    """One provider. `limits` bound the structured replies of a model that would not end by itself."""

    def __init__(self, provider: Provider, key: str, limits: Limits | None = None) -> None:
        self.provider = provider
        self._key = key
        self._limits = limits
        self._client: Any = None
        self._models: dict[str, Model[Any]] = {}

    async def send(self, request: Request) -> Reply:
        """The reply to one attempt, without its price and time. Raises `ModelError`."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior, UserError

        name = request.model.partition(":")[2]
        model = self._model(name)
        schema = limited(request.schema, self._limits, request.max_tokens) if self._limits else request.schema
        try:
            response = await model_request(
                model,
                history(request, caching=self.provider.kind == "anthropic"),
                model_settings=self._settings(request, model.profile),
                model_request_parameters=_parameters(request, schema),
            )
        except (ModelAPIError, UnexpectedModelBehavior, UserError) as error:
            raise model_error(error, self.provider, name, self._key) from None
        return _reply(response, request)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    def prepare(self, name: str) -> None:
        """Imports and sets up what calls to the model need: more than a second, so best done in a thread."""
        self._model(name)

    def own_fields(self, _request: Request) -> dict[str, Any]:
        """What the body of a call holds besides, for a server with settings of its own."""
        return {}

    def _model(self, name: str) -> Model[Any]:
        if name not in self._models:
            if self._client is None:
                self._client = _client(self.provider, self._key)
            self._models[name] = _model(self.provider, self._client, name)
        return self._models[name]

    def _settings(self, request: Request, profile: ModelProfile) -> ModelSettings:
        thinks = profile.get("thinking_enabled_by_default", False)
        # Of the models of other endpoints nothing is known, so there the configuration alone decides.
        room = self.provider.thinking if thinks or self.provider.kind == "openai" else 0
        settings: dict[str, Any] = {"max_tokens": request.max_tokens + room}
        if request.temperature is not None and not thinks and not profile.get("anthropic_disallows_sampling_settings"):
            settings["temperature"] = request.temperature
        extra = self.own_fields(request)
        if self.provider.kind == "anthropic":
            extra["system"] = _anthropic_system(request)
        elif self.provider.kind == "responses":
            settings["openai_store"] = False
        if extra:
            settings["extra_body"] = extra
        return settings  # type: ignore[return-value]


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


def history(request: Request, *, caching: bool) -> list[ModelMessage]:
    """The messages of a request for Pydantic AI. With `caching`, breakpoints and no system prompt, which goes apart."""
    from pydantic_ai import messages as ai

    called = {call.id: call.name for message in request.messages for call in message.calls}
    marked = _breakpoints(request) if caching else frozenset()
    parts: list[ModelRequestPart] = []
    if not caching and any(block.text for block in request.system):
        parts.append(ai.SystemPromptPart(joined(request.system)))
    turns: list[ModelMessage] = []
    for turn, message in enumerate(request.messages):
        places = {place for where, place in marked if where == turn}
        if message.role == "assistant":
            if parts:
                turns.append(ai.ModelRequest(parts))
                parts = []
            said: list[ai.ModelResponsePart] = [ai.TextPart(joined(message.blocks))] if message.text.strip() else []
            said += [ai.ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.calls]
            if said:
                turns.append(ai.ModelResponse(said))
        elif message.role == "tool":
            name = called.get(message.call_id, "tool")
            parts.append(ai.ToolReturnPart(name, joined(message.blocks), tool_call_id=message.call_id))
            if places:
                parts.append(ai.UserPromptPart([ai.CachePoint()]))
        else:
            parts.append(ai.UserPromptPart(_user_content(message, places)))
    if parts:
        turns.append(ai.ModelRequest(parts))
    return turns


def joined(blocks: Sequence[Block]) -> str:
    """Blocks as one text: each is a paragraph of its own."""
    return "\n\n".join(block.text for block in blocks if block.text)


def _user_content(message: Message, places: set[int]) -> str | list[UserContent]:
    if not places:
        return joined(message.blocks)
    from pydantic_ai.messages import CachePoint

    content: list[UserContent] = []
    for place, block in enumerate(message.blocks):
        if block.text:
            content.append(block.text)
        if place in places:
            content.append(CachePoint())
    return content


def _breakpoints(request: Request) -> frozenset[tuple[int, int]]:
    """The blocks that get one, as turn and place: of too many the first, which most calls share, and the longest."""
    turns = [request.system, *(() if m.role == "assistant" else m.blocks for m in request.messages)]
    found = [
        (turn, place)
        for turn, blocks in enumerate(turns, SYSTEM)
        for place, block in enumerate(blocks)
        if block.cache and block.text.strip()
    ]
    return frozenset(found[:1] + found[1:][1 - BREAKPOINTS :])


def _anthropic_system(request: Request) -> list[dict[str, Any]]:
    """The system blocks as Anthropic takes them: Pydantic AI would join them and place a breakpoint of its own."""
    marked = _breakpoints(request)
    return [
        {"type": "text", "text": block.text, "cache_control": {"type": "ephemeral"}}
        if (SYSTEM, place) in marked
        else {"type": "text", "text": block.text}
        for place, block in enumerate(request.system)
        if block.text.strip()
    ]


def _parameters(request: Request, schema: dict[str, Any] | None) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in request.tools
    ]
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
        mode = "native" if known.get("supports_json_schema_output") else "tool"
        return AnthropicModel(
            name,
            provider=AnthropicProvider(anthropic_client=client),
            profile={"default_structured_output_mode": mode},  # type: ignore[arg-type]
        )
    if provider.kind == "responses":
        from pydantic_ai.models.openai import OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIResponsesModel(
            name,
            provider=OpenAIProvider(openai_client=client),
            profile={"default_structured_output_mode": "native"},
        )
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    return OpenAIChatModel(
        name,
        provider=OpenAICompatibleProvider(provider.name, openai_client=client),
        profile=OpenAIModelProfile(
            supports_json_schema_output=True,
            default_structured_output_mode="native",
            json_schema_transformer=None,
            openai_chat_supports_max_completion_tokens=False,
            openai_supports_strict_tool_definition=False,
        ),
    )
