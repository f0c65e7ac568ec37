"""Builds the Pydantic AI model for each kind of provider, with the protocol and the features it supports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from pydantic_ai.models import Model
    from pydantic_ai.models.openai import OpenAIChatModel

    from skillrun.models.entries import ProviderConfig

TOTAL_TOKENS_KEY = "total_tokens"
ERROR_STATUSES = range(400, 600)


def build_model(provider: ProviderConfig, client: Any, name: str) -> Model[Any]:
    """Return the Pydantic AI model for the provider's protocol; the imports take about a second."""
    if provider.kind == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        known = AnthropicProvider.model_profile(name) or {}
        mode: Literal["native", "tool"] = "native" if known.get("supports_json_schema_output") else "tool"
        claude = AnthropicProvider(anthropic_client=client)
        return AnthropicModel(name, provider=claude, profile={"default_structured_output_mode": mode})
    from pydantic_ai.models.openai import OpenAIResponsesModel
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
    return _chat_model_class()(name, provider=compatible, profile=plain)


def _chat_model_class() -> type[OpenAIChatModel]:
    """Return Pydantic AI's chat completions model, extended to include the reported total of tokens in replies.

    An error with HTTP status 200 is raised with the code in its body: gateways such as OpenRouter send these when the
    upstream provider fails.
    """
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.models.openai import OpenAIChatModel

    class Chat(OpenAIChatModel):
        def _validate_completion(self, response: ChatCompletion) -> Any:
            error = (response.model_extra or {}).get("error")
            code = error.get("code") if isinstance(error, dict) else None
            if not response.choices and type(code) is int and code in ERROR_STATUSES:
                raise ModelHTTPError(code, self.model_name, error)
            return super()._validate_completion(response)

        def _process_provider_details(self, response: ChatCompletion) -> dict[str, Any] | None:
            details = super()._process_provider_details(response) or {}
            total = response.usage.total_tokens if response.usage is not None else None
            return {**details, TOTAL_TOKENS_KEY: total} if total is not None else details

    return Chat
