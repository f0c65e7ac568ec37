"""Converts errors of model calls to messages for the user: kind, cause and next step. Messages never contain a key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from skillrun.models.messages import ErrorKind, ModelError

if TYPE_CHECKING:
    from skillrun.models.entries import ProviderConfig
    from skillrun.models.redaction import Redactor

LONGEST = 300
MAX_VALIDATION_ERRORS = 3  # listed per reply
_MAX_SCAN = 20_000  # characters of an error's text that are scanned for keys; only the first LONGEST are shown
_MESSAGES: dict[ErrorKind, tuple[str, str]] = {
    "auth": ("{provider} rejects the key in {key}", "Check {key}; without any key, the small embedded model is used."),
    "not_found": ("{provider} does not know the model `{model}`", "`skillrun models` shows what each name means."),
    "rate_limit": ("{provider} limits the rate of calls", "Resume later with `skillrun resume RUN`."),
    "overloaded": ("{provider} is overloaded or failing", "Resume later with `skillrun resume RUN`."),
    "connection": (
        "{provider} cannot be reached at {url}",
        "Check the network, and the provider's base_url in config/models.yaml.",
    ),
    "timeout": (
        "{provider} did not reply in time",
        "Resume later with `skillrun resume RUN`, or raise the provider's `timeout` in config/models.yaml.",
    ),
    "too_long": ("the request is longer than the window of `{model}`", "Choose a larger model or shorten the prompt."),
    "budget": ("the account at {provider} has no credit left", "Add credit, or choose another model."),
}
_TOO_LONG = re.compile(
    r"exceed\w*[^.]{0,60}\bcontext|context (?:window|length|size)[^.]{0,60}exceed|context_length_exceeded"
    r"|exceed_context_size|exceeds the maximum number of tokens|maximum context length"
    r"|(?:prompt|input) is too long|(?:larger|greater) than the context",
    re.IGNORECASE,
)
"""The words in which servers refuse a request that exceeds the window."""
_TRANSIENT_STATUSES = frozenset({409, 425})  # of the statuses 4xx: the same request can succeed later
_REFUSAL_KEYS = ("param", "error", "errors", "detail", "message", "msg", "reason")
_SECONDS = re.compile(r"(\d{1,6}(?:\.\d+)?)s")
_BY_STATUS: dict[int, ErrorKind] = {
    400: "invalid_request", 401: "auth", 402: "budget", 403: "auth", 404: "not_found", 408: "timeout", 413: "too_long",
    429: "rate_limit",
}  # fmt: skip
"""The kind of each error for which Pydantic AI reports only the HTTP status."""
_UNREADABLE_MESSAGE = "the response of {provider} to a request for `{model}` cannot be read"
_BASE_URL_HINT = "Check which server responds at the provider's base_url, which `skillrun models` shows."


def model_error(error: Exception, provider: ProviderConfig, model: str, redactor: Redactor) -> ModelError:
    """Return the `ModelError` for an error raised by an SDK, by Pydantic AI, or while reading a response. Its `wait` is
    the number of seconds that the provider asks to wait."""
    import httpx2

    from skillrun.models.transport import ResponseRejected

    refused = _find_cause(error, ResponseRejected)
    if refused is not None:
        return ModelError("other", f"the response of {provider.name} {refused}", next_step=_BASE_URL_HINT)
    status = getattr(error, "status_code", None)
    kind = _classify_error(error)
    template, step = _MESSAGES.get(kind, ("{provider} does not accept the request to `{model}`", ""))
    if kind == "other" and status is None:
        template, step = _UNREADABLE_MESSAGE, _BASE_URL_HINT
    names = {"provider": provider.name, "key": provider.key or "its key", "url": provider.base_url, "model": model}
    explanation = redactor.redact_error(_describe_invalid_reply(error)) if template == _UNREADABLE_MESSAGE else ""
    detail = ": ".join(
        part for part in (f"HTTP {status}" if status else "", explanation or _provider_message(error, redactor)) if part
    )
    message = redactor.redact_error(template.format(**names)) + (f" ({detail})" if detail else "")
    failure = ModelError(kind, message, next_step=step.format(**names))
    failure.wait = _retry_delay(error)
    failure.is_unreachable = _find_cause(error, httpx2.ConnectError) is not None
    return failure


def _find_cause(error: BaseException | None, kind: type[Exception]) -> Exception | None:
    for _ in range(20):
        if error is None or isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None


def _body(error: Exception) -> Any:
    """Return the error object in a response body: the `error` field, or the body itself. Google sends the object inside
    a list."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    return body.get("error", body) if isinstance(body, dict) else body


def describe_refusal(body: Any) -> str:
    """Return the texts of an error's body that say what is refused: messages, parameters and places. Texts that quote
    the request are left out."""
    if isinstance(body, list):
        return "; ".join(map(describe_refusal, body[:10]))
    if isinstance(body, dict):
        places = body.get("loc")
        parts = [".".join(map(str, places)) if isinstance(places, list) else ""]
        parts += [describe_refusal(body.get(key)) for key in _REFUSAL_KEYS]
        return ": ".join(part for part in parts if part)
    return body[:_MAX_SCAN] if isinstance(body, str) else ""


def _details(error: Exception) -> list[dict[str, Any]]:
    """Return the details of an error from Google. They contain a reason and the time to wait."""
    body = _body(error)
    details = body.get("details") if isinstance(body, dict) else None
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []


def _retry_delay(error: Exception) -> float | None:
    """Return the seconds to wait, taken from a header or from a detail in the body (`"retryDelay": "38s"`)."""
    if (seconds := getattr(error, "retry_after", None)) is not None:
        return float(seconds)
    delays = (detail.get("retryDelay") for detail in _details(error))
    matches = (_SECONDS.fullmatch(delay) for delay in delays if isinstance(delay, str))
    return next((float(match[1]) for match in matches if match), None)


def _classify_error(error: Exception) -> ErrorKind:
    import httpx2
    from pydantic_ai import exceptions as ai

    status = getattr(error, "status_code", 0)
    if status != 429 and _TOO_LONG.search(str(getattr(error, "body", ""))[:_MAX_SCAN]):
        return "too_long"
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in _details(error)):
        return "auth"  # Google reports it with status 400
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
    for kind, types in kinds.items():
        if isinstance(error, types):
            return kind
    # An SDK that is called directly, for the list of models, raises this error.
    if _find_cause(error, httpx2.TransportError) is not None:
        return "timeout" if _find_cause(error, httpx2.TimeoutException) is not None else "connection"
    if status in range(400, 500) and status not in _TRANSIENT_STATUSES:
        return _BY_STATUS.get(status, "invalid_request")
    return "overloaded" if status in range(500, 600) else "other"


def _describe_invalid_reply(error: Exception) -> str:
    """Explain an invalid response to the user, given the Python or Pydantic error that the response caused."""
    from pydantic import ValidationError

    invalid = _find_cause(error, ValidationError)
    if isinstance(invalid, ValidationError):
        wrong = invalid.errors(include_url=False, include_context=False, include_input=False)[:MAX_VALIDATION_ERRORS]
        places = (".".join(map(str, detail["loc"])) or "a value in it" for detail in wrong)
        return "; ".join(f"{place}: {detail['msg']}" for place, detail in zip(places, wrong, strict=True))[:LONGEST]
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it does not follow its protocol" if type(error).__module__ == "builtins" else ""


def _provider_message(error: Exception, redactor: Redactor) -> str:
    """Return the provider's message, taken from the error's body if possible. Keys are removed before the message is
    shortened."""
    body = _body(error)
    if isinstance(body, dict):
        body = body.get("message")
    if not isinstance(body, str | None):
        body = repr(body) if isinstance(body, int | float | bool) else ""
    words = " ".join((body or str(error))[:_MAX_SCAN].split()) or type(error).__name__
    text = redactor.redact_error(words)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
