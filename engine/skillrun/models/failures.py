"""Converts errors of model calls to messages for the user: kind, cause and next step. Messages never contain a key."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from skillrun.models.messages import ErrorKind, ModelError

if TYPE_CHECKING:
    from skillrun.models.entries import ProviderConfig
    from skillrun.models.redaction import Redactor
    from skillrun.models.response_bodies import ReadBody

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
    "refusal": ("the content filter of {provider} refuses the prompt", "Change the prompt, or choose another model."),
    "budget": ("the account at {provider} has no credit left", "Add credit, or choose another model."),
}


class FailureRule(NamedTuple):
    """A row of the table of failures: HTTP statuses, the words of the body (any, if None), and what the failure is."""

    statuses: range | frozenset[int]
    words: re.Pattern[str] | None
    kind: ErrorKind


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_ERRORS = range(400, 600)
FAILURES: tuple[FailureRule, ...] = (
    FailureRule(
        frozenset(_ERRORS) - {429},
        _words(
            r"exceed\w*[^.]{0,60}\bcontext|context (?:window|length|size)[^.]{0,60}exceed|context_length_exceeded"
            r"|exceed_context_size|exceeds the maximum number of tokens|maximum context length"
            r"|(?:prompt|input) is too long|(?:larger|greater) than the context|context the overflows"
        ),
        "too_long",
    ),
    FailureRule(
        frozenset({400, 403, 422}),
        _words(r"content[_ ]?filter|content management policy|ResponsibleAIPolicy|content_policy|moderation"),
        "refusal",
    ),
    FailureRule(frozenset({400, 403}), _words(r"API_KEY_INVALID"), "auth"),  # Google
    FailureRule(
        frozenset({400, 402, 403, 429}),
        _words(r"insufficient[_ ](?:quota|balance|funds|credit)|credit balance is too low|billing_hard_limit"),
        "budget",
    ),
    FailureRule(frozenset({401, 403}), None, "auth"),
    FailureRule(frozenset({402}), None, "budget"),
    FailureRule(frozenset({404, 405}), None, "not_found"),
    FailureRule(frozenset({408}), None, "timeout"),
    FailureRule(frozenset({409, 423, 425, 498}), None, "overloaded"),
    FailureRule(frozenset({413}), None, "too_long"),
    FailureRule(frozenset({429}), None, "rate_limit"),
    FailureRule(range(400, 500), None, "invalid_request"),
    FailureRule(frozenset({501, 505}), None, "invalid_request"),
    FailureRule(range(500, 600), None, "overloaded"),
)
"""The kind of every failure with an HTTP status; the first row that matches counts. Kinds in `RETRYABLE_ERRORS` are
cured by waiting. The others are cured only by another request, which `models/capabilities.py` finds if the words name a
field that skillrun adds by itself."""
_NAMES_MODEL = _words(r"model|deployment|endpoints found|engine")
_MAX_REFUSAL = 4_000  # characters of a refusal
_REFUSAL_DEPTH = 6
_REFUSAL_KEYS = ("param", "error", "errors", "detail", "message", "msg", "reason")
_SECONDS = re.compile(r"(\d{1,6}(?:\.\d+)?)s")
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d+)?")
_TRY_AGAIN = re.compile(r"(?:try again|retry) (?:in|after) (?:(\d{1,4})m)?(\d{1,6}(?:\.\d+)?)(ms| ?s)", re.IGNORECASE)
_KEY_MISSING = (
    "{provider} requires a key",
    "Set `key` of {provider} in config/models.yaml to the name of the environment variable that holds it.",
)
_WRONG_PATH = (
    "the server of {provider} has nothing at its address {url}",
    "Correct its base_url in config/models.yaml; it often ends in `/v1`.",
)
_UNREADABLE_MESSAGE = "the response of {provider} to a request for `{model}` cannot be read"
_BASE_URL_HINT = "Check which server responds at the provider's base_url, which `skillrun models` shows."


def model_error(
    error: Exception,
    provider: ProviderConfig,
    model: str,
    redactor: Redactor,
    response: ReadBody | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> ModelError:
    """Return the `ModelError` for an error raised by an SDK, by Pydantic AI, or while reading a response. Its `wait` is
    the number of seconds that the provider asks to wait.

    `response` and `headers` are those of the response, if there is one. Otherwise the SDK's error has them.
    """
    import httpx2

    from skillrun.models.transport import ResponseRejected

    refused = _find_cause(error, ResponseRejected)
    if refused is not None:
        message = redactor.redact_error(f"the response of {provider.name} {refused}")
        return ModelError("other", message, next_step=_BASE_URL_HINT)
    body = response.body if response is not None else getattr(error, "body", None)
    status = response.status if response is not None and response.status >= 400 else getattr(error, "status_code", None)
    has_status = isinstance(status, int) and status in _ERRORS
    kind = classify_failure(status, body) if has_status else _classify_error(error)
    template, step = _MESSAGES.get(kind, ("{provider} does not accept the request to `{model}`", ""))
    if kind == "auth" and not provider.key:
        template, step = _KEY_MISSING
    elif kind == "not_found" and not _names_model(body):
        template, step = _WRONG_PATH
    elif kind == "other" and status is None:
        template, step = _UNREADABLE_MESSAGE, _BASE_URL_HINT
    names = {"provider": provider.name, "key": provider.key or "its key", "url": provider.base_url, "model": model}
    explanation = redactor.redact_error(_describe_invalid_reply(error)) if template == _UNREADABLE_MESSAGE else ""
    detail = ": ".join(
        part
        for part in (f"HTTP {status}" if status else "", explanation or _provider_message(body, error, redactor))
        if part
    )
    message = redactor.redact_error(template.format(**names)) + (f" ({detail})" if detail else "")
    failure = ModelError(kind, message, next_step=step.format(**names))
    failure.wait = _retry_delay(headers, body, error)
    failure.is_unreachable = _find_cause(error, httpx2.ConnectError) is not None
    return failure


def classify_failure(status: Any, body: Any) -> ErrorKind:
    """Return the kind of a failure with an HTTP status, by the table `FAILURES`."""
    text = str(body)[:_MAX_SCAN]
    rules = (rule for rule in FAILURES if status in rule.statuses and (rule.words is None or rule.words.search(text)))
    return next(rule.kind for rule in rules)


def _names_model(body: Any) -> bool:
    """Whether the body of a response with status 404 is about the model, and not about the path."""
    return not isinstance(body, str) and _NAMES_MODEL.search(str(body)[:_MAX_SCAN]) is not None


def _find_cause(error: BaseException | None, kind: type[Exception]) -> Exception | None:
    for _ in range(20):
        if error is None or isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None


def _error_fields(body: Any) -> Any:
    """Return the error object in a response body: the `error` field, or the body itself. Google sends the object inside
    a list."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    return body.get("error", body) if isinstance(body, dict) else body


def describe_refusal(body: Any, depth: int = _REFUSAL_DEPTH) -> str:
    """Return the texts of an error's body that say what is refused: messages, parameters and places. Texts that quote
    the request, and those below `depth` levels, are left out."""
    text = body if isinstance(body, str) else ""
    if isinstance(body, list) and depth:
        text = "; ".join(describe_refusal(item, depth - 1) for item in body[:10])
    if isinstance(body, dict) and depth:
        places = body.get("loc")
        named = [place for place in places if isinstance(place, str | int)] if isinstance(places, list) else []
        parts = [".".join(map(str, named))] + [describe_refusal(body.get(key), depth - 1) for key in _REFUSAL_KEYS]
        text = ": ".join(part for part in parts if part)
    return text[:_MAX_REFUSAL]


def _retry_delay(headers: Mapping[str, str], body: Any, error: Exception) -> float | None:
    """Return the seconds to wait. A header names them, a detail of Google's body (`"retryDelay": "38s"`), or the words
    of the error (`try again in 3.2s`)."""
    lowercase = {name.lower(): value for name, value in headers.items()}
    retry_after = lowercase.get("retry-after", "")
    for text, unit in ((lowercase.get("retry-after-ms", ""), 1000), (retry_after, 1)):
        if _NUMBER.fullmatch(text.strip()):
            return max(0.0, float(text)) / unit
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    fields = _error_fields(body)
    details = fields.get("details") if isinstance(fields, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (match := _SECONDS.fullmatch(delay)):
            return float(match[1])
    if match := _TRY_AGAIN.search(str(body)[:_MAX_SCAN]):
        return int(match[1] or 0) * 60 + float(match[2]) / (1000 if match[3] == "ms" else 1)
    return getattr(error, "retry_after", None)


def _classify_error(error: Exception) -> ErrorKind:
    """Return the kind of an error without an HTTP status."""
    import httpx2
    from pydantic_ai.exceptions import UserError

    if isinstance(error, UserError):
        return "invalid_request"
    timeouts = (_find_cause(error, kind) for kind in (TimeoutError, httpx2.TimeoutException))
    if any(cause is not None for cause in timeouts):
        return "timeout"
    return "connection" if _find_cause(error, httpx2.TransportError) is not None else "other"


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


def _provider_message(body: Any, error: Exception, redactor: Redactor) -> str:
    """Return the provider's message, taken from the body if possible. Keys are removed before the message is
    shortened."""
    fields = _error_fields(body)
    if isinstance(fields, dict):
        found = (fields.get(key) for key in ("message", "detail", "msg", "error"))
        fields = next((value for value in found if isinstance(value, str | int | float | bool)), None)
    if not isinstance(fields, str | None):
        fields = repr(fields) if isinstance(fields, int | float | bool) else ""
    words = " ".join((fields or str(error))[:_MAX_SCAN].split()) or type(error).__name__
    text = redactor.redact_error(words)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
