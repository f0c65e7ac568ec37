"""Creates the SDK clients. All settings are passed explicitly, and the HTTP rules of `transport` apply."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from skillrun.library.addresses import parse_address
from skillrun.models.messages import ModelError
from skillrun.models.redaction import strip_userinfo

if TYPE_CHECKING:
    from skillrun.models.entries import ProviderConfig

PLATFORMS: Final = {"linux": "Linux", "darwin": "MacOS"}
PLACEHOLDER_KEY = "no-key"  # the SDKs reject an empty key


def sdk_client(provider: ProviderConfig, key: str) -> Any:
    """Return the provider's SDK client. The client reads no settings from the environment. Raises `ModelError`."""
    import httpx2

    _check_key(provider, key)
    try:
        return _build_client(provider, key)
    except (ValueError, ImportError, httpx2.InvalidURL) as error:  # an invalid or SOCKS proxy is set
        reason = strip_userinfo(str(error)).split(" Make sure")[0]
        message = f"the connection to {provider.name} cannot be set up: {reason}"
        raise ModelError("invalid_request", message, next_step="Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY.") from None


def _build_client(provider: ProviderConfig, key: str) -> Any:
    from skillrun.models.transport import build_http_client

    is_local = parse_address(provider.base_url).is_local
    if provider.kind == "anthropic":
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        # No timeout here: if one is set, the SDK requires streaming for long replies. The gateway enforces the timeout.
        client: Any = AsyncAnthropic(
            api_key=key or PLACEHOLDER_KEY,
            base_url=provider.base_url,
            max_retries=0,
            open_telemetry=False,
            http_client=build_http_client(DefaultAsyncHttpxClient, key or PLACEHOLDER_KEY, is_local=is_local),
        )
    else:
        from openai import AsyncOpenAI
        from openai import DefaultAsyncHttpxClient as OpenAIClient

        client = AsyncOpenAI(
            api_key=key or PLACEHOLDER_KEY,
            admin_api_key="",
            organization="",
            project="",
            webhook_secret="",
            base_url=provider.base_url,
            max_retries=0,
            timeout=provider.timeout,
            http_client=build_http_client(OpenAIClient, key or PLACEHOLDER_KEY, is_local=is_local),
        )
    client._custom_headers = {}  # noqa: SLF001 -- the SDKs take headers from the environment; no option prevents that
    client._platform = PLATFORMS.get(sys.platform, "Unknown")  # noqa: SLF001 -- the SDKs would run `uname`
    return client


def _check_key(provider: ProviderConfig, key: str) -> None:
    """Raise `ModelError` if the key contains characters that HTTP does not allow. The error does not show the key. The
    catalogue checks addresses."""
    if not all("!" <= character <= "~" for character in key):
        step = f"Set {provider.key} again, in printable ASCII without spaces and line breaks."
        raise ModelError("auth", f"{provider.key} contains a character that is invalid in keys", next_step=step)
