"""Whether this process is traced, and the listener that makes spans of a run's events.

An SDK that somebody has configured here has imported the API already; where nobody has, nothing is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skillrun.extensions.workers.telemetry.spans import Spans
    from skillrun.models.messages import Gateway

CONTENT: Final = ("SKILLRUN_OTEL_CONTENT", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
"""What has texts of prompts and replies told as well: the second is the convention's own."""
YES: Final = frozenset({"1", "true", "yes", "on", "span_only", "span_and_event"})


def spans(environ: Mapping[str, str] = os.environ) -> Spans | None:
    """What makes spans of a run's events; None where nobody has configured an SDK in this process."""
    if "opentelemetry.trace" not in sys.modules or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    from opentelemetry.metrics import get_meter
    from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

    provider = get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider):  # nobody has set one
        return None
    from skillrun.extensions.workers.telemetry.spans import SCHEMA, Spans
    from skillrun.version import __version__

    content = any(environ.get(name, "").lower() in YES for name in CONTENT)
    tracer = provider.get_tracer("skillrun", __version__, SCHEMA)
    return Spans(tracer, get_meter("skillrun", __version__, schema_url=SCHEMA), content=content)


def traced(gateway: Gateway, told: Spans | None) -> Gateway:
    """The same gateway; one that tells of prompts where they are asked for."""
    if told is None or not told.content:
        return gateway
    from skillrun.extensions.workers.telemetry.prompts import TellingGateway

    return TellingGateway(gateway, told)
