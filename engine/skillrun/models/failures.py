"""What went wrong with a call, in a user's words: the kind, the cause, what to do. No key ever stands in a message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from skillrun.models.messages import ErrorKind, ModelError

if TYPE_CHECKING:
    from skillrun.models.catalogue import Provider

LONGEST = 300
_SECRETS = re.compile(r"(?i)\b(?:sk|rk|pk|key|gsk|xai|AIza)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|(?<=bearer )\S+")
_WORDS: dict[ErrorKind, tuple[str, str]] = {
    "auth": ("{provider} refuses the key in {key}", "Check {key}; without any key, the small embedded model is used."),
    "not_found": ("{provider} does not know the model `{model}`", "`skillrun models` shows what each name means."),
    "rate_limit": ("{provider} limits the rate of calls", "Go on later with `skillrun resume`."),
    "overloaded": ("{provider} is overloaded or failing", "Go on later with `skillrun resume`."),
    "connection": (
        "{provider} cannot be reached at {url}",
        "Check the network and its base_url in config/models.yaml.",
    ),
    "timeout": (
        "{provider} did not answer in time",
        "`skillrun resume`, or raise its `timeout` in config/models.yaml.",
    ),
    "too_long": ("the request is longer than the window of `{model}`", "Choose a larger model or shorten the prompt."),
    "budget": ("the account at {provider} has no credit left", "Top it up, or choose another model."),
}


def model_error(error: Exception, provider: Provider, model: str, key: str) -> ModelError:
    """The `ModelError` for what an SDK or Pydantic AI raised; `wait` is the provider's own hint in seconds."""
    kind = _kind(error)
    what, step = _WORDS.get(kind, ("{provider} does not accept the request to `{model}`", ""))
    names = {"provider": provider.name, "key": provider.key or "its key", "url": provider.base_url, "model": model}
    status = getattr(error, "status_code", None)
    detail = ": ".join(part for part in (f"HTTP {status}" if status else "", _said(error)) if part)
    message = what.format(**names) + (f" ({detail})" if detail else "")
    found = ModelError(kind, redact(message, key), next_step=step.format(**names))
    found.wait = getattr(error, "retry_after", None)
    return found


def redact(text: str, key: str = "") -> str:
    """The text without the key and without whatever looks like one."""
    if key:
        text = text.replace(key, "[key]")
    return _SECRETS.sub("[key]", text)


def _kind(error: Exception) -> ErrorKind:
    from pydantic_ai import exceptions as ai

    if "exceed_context_size" in str(getattr(error, "body", "")):
        return "too_long"  # llama.cpp's word for it
    kinds: dict[ErrorKind, tuple[type[Exception], ...]] = {
        "too_long": (ai.ModelContextWindowExceededError,),
        "auth": (ai.ModelAuthenticationError,),
        "not_found": (ai.ModelNotFoundError,),
        "budget": (ai.ModelQuotaExceededError,),
        "rate_limit": (ai.ModelRateLimitError,),
        "overloaded": (ai.ModelUnavailableError, ai.ModelServerError),
        "timeout": (ai.ModelTimeoutError, TimeoutError),
        "connection": (ai.ModelConnectionError,),
        "invalid_request": (ai.ModelRequestRejectedError, ai.UserError),
    }
    by_status: dict[int, ErrorKind] = {408: "timeout", 413: "too_long"}
    for kind, types in kinds.items():
        if isinstance(error, types):
            return kind
    return by_status.get(getattr(error, "status_code", 0), "other")


def _said(error: Exception) -> str:
    """The provider's own sentence, from the error's body when it has one."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message") if isinstance(inner, dict) else inner
    text = " ".join(str(body or error).split())
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
