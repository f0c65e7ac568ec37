"""The SDKs' clients: what they would look for in the environment is given, and their HTTP is held to `transport`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from skillrun.library.addresses import parse_address
from skillrun.models.messages import ModelError
from skillrun.models.redaction import strip_userinfo

if TYPE_CHECKING:
    from skillrun.models.entries import ProviderConfig

PLATFORMS: Final = {"linux": "Linux", "darwin": "MacOS"}
PLACEHOLDER_KEY = "no-key"  # the SDKs refuse an empty one


def sdk_client(provider: ProviderConfig, key: str) -> Any:
    """The provider's SDK with everything given that it would look for in the environment. Raises `ModelError`."""
    import httpx2

    _check_key(provider, key)
    try:
        return _build_client(provider, key)
    except (ValueError, ImportError, httpx2.InvalidURL) as error:  # of a proxy: an address that is none, SOCKS
        reason = strip_userinfo(str(error)).split(" Make sure")[0]
        message = f"no way to {provider.name} can be set up: {reason}"
        raise ModelError(
            "invalid_request", message, next_step="Look at HTTP_PROXY, HTTPS_PROXY and ALL_PROXY."
        ) from None


def _build_client(provider: ProviderConfig, key: str) -> Any:
    from skillrun.models.transport import build_http_client

    is_local = parse_address(provider.base_url).is_local
    if provider.kind == "anthropic":
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        # No time-out of its own: with the SDK's, a call for a long reply is streamed; the gateway keeps the clock.
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
    client._custom_headers = {}  # noqa: SLF001 -- those of the environment, for which the SDKs have no switch
    client._platform = PLATFORMS.get(sys.platform, "Unknown")  # noqa: SLF001 -- they start `uname` to find it out
    return client


def _check_key(provider: ProviderConfig, key: str) -> None:
    """Raises `ModelError` for a key that HTTP cannot carry, without showing it; addresses are the catalogue's."""
    if not all("!" <= character <= "~" for character in key):
        step = f"Set {provider.key} again: it is printable ASCII, without blanks and line ends."
        raise ModelError("auth", f"{provider.key} holds a character that no key has", next_step=step)
