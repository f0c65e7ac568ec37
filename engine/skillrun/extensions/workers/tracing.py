"""Opens the trace of a run if OpenTelemetry is set up in this process.

An SDK that is set up has already imported OpenTelemetry's API. So this module never imports the API first.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skillrun.extensions.workers.spans import SpanRecorder
    from skillrun.runtime.listeners import RunContext

CONTENT_VARIABLES: Final = ("SKILLRUN_OTEL_CONTENT", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
"""Environment variables that add the texts of prompts and replies to spans. OpenTelemetry defines the second one."""
TRUE_VALUES: Final = frozenset({"1", "true", "yes", "on", "span_only", "span_and_event"})


def open_spans(context: RunContext) -> SpanRecorder | None:
    """Return the listener that makes spans from a run's events, or None if no SDK is set up in this process."""
    environ = context.environ
    if "opentelemetry.trace" not in sys.modules or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    from opentelemetry.metrics import get_meter
    from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

    provider = get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider):  # no SDK is configured
        return None
    from skillrun.extensions.workers.spans import SCHEMA_URL, SpanRecorder
    from skillrun.version import __version__

    content = any(environ.get(name, "").lower() in TRUE_VALUES for name in CONTENT_VARIABLES)
    tracer = provider.get_tracer("skillrun", __version__, SCHEMA_URL)
    return SpanRecorder(tracer, get_meter("skillrun", __version__, schema_url=SCHEMA_URL), content=content)
