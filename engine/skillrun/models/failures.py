"""What went wrong with a call, in a user's words: the kind, the cause, what to do. No key ever stands in a message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from skillrun.models.messages import ErrorKind, ModelError

if TYPE_CHECKING:
    from skillrun.models.catalogue import Provider

LONGEST = 300
_SECRETS = re.compile(r"(?i)\b(?:sk|rk|pk|key|gsk|xai|AIza)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|(?<=bearer )\S+")
_NEXT: dict[ErrorKind, str] = {
    "auth": "Check {key}; without any key set, the small embedded model is used.",
    "not_found": "`skillrun models` shows what each name means; the base_url is in config/models.yaml.",
    "rate_limit": "Go on later with `skillrun resume`, or lower `concurrency` of {provider} in config/models.yaml.",
    "overloaded": "Go on later with `skillrun resume`.",
    "connection": "Check the network and the base_url of {provider} in config/models.yaml.",
    "timeout": "Go on with `skillrun resume`, or raise `timeout` of {provider} in config/models.yaml.",
    "too_long": "Choose a model with a larger window, or make the prompt shorter.",
    "budget": "Top up the account, or choose another model.",
}


def model_error(error: Exception, provider: Provider, model: str, key: str) -> ModelError:
    """The `ModelError` for what an SDK or Pydantic AI raised; `wait` is the provider's own hint in seconds."""
    kind = _kind(error)
    status = getattr(error, "status_code", None)
    said = _said(error)
    what = {
        "auth": f"{provider.name} refuses the key in {provider.key or 'its configuration'}",
        "not_found": f"{provider.name} does not know the model `{model}`",
        "rate_limit": f"{provider.name} limits the rate of calls",
        "overloaded": f"{provider.name} is overloaded or failing",
        "connection": f"{provider.name} cannot be reached at {provider.base_url}",
        "timeout": f"{provider.name} did not answer in time",
        "too_long": f"the request is longer than the window of `{model}`",
        "budget": f"the account at {provider.name} has no credit left",
    }.get(kind, f"{provider.name} does not accept the request to `{model}`")
    detail = ": ".join(part for part in (f"HTTP {status}" if status else "", said) if part)
    step = _NEXT.get(kind, "").format(key=provider.key or "the key", provider=provider.name)
    found = ModelError(kind, redact(f"{what} ({detail})" if detail else what, key), next_step=step)
    found.wait = getattr(error, "retry_after", None)
    return found


def no_key(provider: Provider) -> ModelError:
    step = f"Set {provider.key}, or choose another model; without any key set, the small embedded model is used."
    return ModelError("auth", f"{provider.key} is not set, and {provider.name} needs it", next_step=step)


def out_of_time(provider: Provider, seconds: float) -> ModelError:
    step = _NEXT["timeout"].format(provider=provider.name)
    return ModelError("timeout", f"{provider.name} did not answer within {seconds:g} seconds", next_step=step)


def redact(text: str, key: str = "") -> str:
    """The text without the key and without whatever looks like one."""
    if key:
        text = text.replace(key, "[key]")
    return _SECRETS.sub("[key]", text)


def _kind(error: Exception) -> ErrorKind:
    from pydantic_ai import exceptions as ai

    kinds: list[tuple[tuple[type[Exception], ...], ErrorKind]] = [
        ((ai.ModelContextWindowExceededError,), "too_long"),
        ((ai.ModelAuthenticationError,), "auth"),
        ((ai.ModelNotFoundError,), "not_found"),
        ((ai.ModelQuotaExceededError,), "budget"),
        ((ai.ModelRateLimitError,), "rate_limit"),
        ((ai.ModelUnavailableError, ai.ModelServerError), "overloaded"),
        ((ai.ModelTimeoutError, ai.ModelRequestTimeout, TimeoutError), "timeout"),
        ((ai.ModelConnectionError,), "connection"),
        ((ai.ModelRequestRejectedError, ai.UserError), "invalid_request"),
    ]
    found = next((kind for types, kind in kinds if isinstance(error, types)), None)
    if found == "invalid_request" and "exceed_context_size" in str(getattr(error, "body", "")):
        return "too_long"  # llama.cpp's word for it
    return found or _kind_of_status(getattr(error, "status_code", None), error)


def _kind_of_status(status: int | None, error: Exception) -> ErrorKind:
    by_status: dict[int, ErrorKind] = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 413: "too_long"}
    if status is None:
        return "connection" if "Connection" in type(error).__name__ else "other"
    if status in by_status:
        return by_status[status]
    return "overloaded" if status >= 500 else "rate_limit" if status == 429 else "invalid_request"


def _said(error: Exception) -> str:
    """The provider's own sentence, from the error's body when it has one."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        said = inner.get("message") if isinstance(inner, dict) else inner
    else:
        said = body or str(error)
    text = " ".join(str(said or "").split())
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
