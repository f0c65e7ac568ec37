"""Records spans for a run and its phases, steps and model calls. Also records two metrics of calls.

Names follow the semantic conventions for generative AI (version 1.41, in development). Spans contain names, numbers and
statuses. They contain the texts of prompts, replies and reasons only if `content` is set.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from opentelemetry import context
from opentelemetry.metrics import Meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from skillrun import events
from skillrun.events import Event
from skillrun.models.messages import Request
from skillrun.runtime.listeners import RunListener

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"
PROVIDERS: Final = MappingProxyType(
    {
        "azure": "azure.ai.openai",
        "bedrock": "aws.bedrock",
        "google": "gcp.gemini",
        "gemini": "gcp.gemini",
        "mistral": "mistral_ai",
        "xai": "x_ai",
    }
)
"""The names of providers in the conventions, where they differ."""
FINISH_REASONS: Final = MappingProxyType({"end": "stop", "tool": "tool_call"})
USAGE: Final = MappingProxyType(
    {
        "input": "gen_ai.usage.input_tokens",
        "output": "gen_ai.usage.output_tokens",
        "cache_read": "gen_ai.usage.cache_read.input_tokens",
        "cache_write": "gen_ai.usage.cache_creation.input_tokens",
    }
)
FAILED: Final = frozenset({"failed", "interrupted"})
OTHER: Final = "_OTHER"  # an error without a type in the conventions


@dataclass
class _OpenSpan:
    """An open span; `last_event_ns` is the time of its last event, in nanoseconds."""

    span: Span
    last_event_ns: int
    replayed_calls: int = 0


class SpanRecorder(RunListener):
    """Records the spans of one evaluation of a run."""

    what = "the trace"

    def __init__(self, tracer: Tracer, meter: Meter, *, content: bool = False) -> None:
        self.content = self.observes_requests = content
        self._tracer = tracer
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of a call.")
        self._seconds = meter.create_histogram("gen_ai.client.operation.duration", "s", "Duration of a call.")
        self._run: _OpenSpan | None = None
        self._workflow = ""
        self._phases: dict[str, _OpenSpan] = {}
        self._steps: dict[tuple[str, str], _OpenSpan] = {}
        self._calls: dict[str, Span] = {}
        self._prompts: dict[str, dict[str, Any]] = {}

    def on_event(self, event: Event) -> None:
        match event:
            case events.RunStarted() if self._run is None:
                self._workflow = event.workflow
                attributes = {
                    "gen_ai.operation.name": "invoke_workflow",
                    "gen_ai.workflow.name": event.workflow,
                    "skillrun.run.name": event.run,
                    "skillrun.run.resumed": event.resumed,
                }
                if self.content:
                    attributes["skillrun.run.inputs"] = _json(event.inputs)
                self._run = self._start_span(f"invoke_workflow {event.workflow}", None, attributes)
            case events.PhaseStarted():
                parent = self._parent_span(event.phase)
                attributes = {"skillrun.phase.name": event.phase, "skillrun.round": event.round}
                self._phases[event.phase] = self._start_span(f"phase {event.phase}", parent, attributes)
            case events.PhaseEnded() if event.phase in self._phases:
                phase = self._phases[event.phase]
                phase.span.set_attribute("skillrun.status", event.status)
                phase.span.set_attribute("skillrun.calls.replayed", phase.replayed_calls)
                self._record_error(phase.span, event.status, event.reason)
                self._end_phase(event.phase)
            case events.CallStarted():
                self._calls[event.address] = self._call(event.address, event.phase, event.member, event.model)
            case events.CallEnded():
                self._on_call_ended(event)
            case events.ToolUsed() if not event.replayed:
                attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.tool}
                if self.content:
                    attributes["gen_ai.tool.call.arguments"] = _json(event.arguments)
                step = self._step(event.address, event.phase)
                self._start_span(f"execute_tool {event.tool}", step, attributes).span.end()
            case events.Asked() | events.Answered():
                self._step(event.address, event.phase)
            case events.RunEnded():
                if self._run is not None:
                    self._run.span.set_attribute("skillrun.status", event.status)
                    self._record_error(self._run.span, event.status, event.reason)
                self.close()

    def on_request(self, address: str, request: Request) -> None:
        self._prompts[address] = request.to_dict()

    def close(self) -> None:
        """End all open spans, because the evaluation is over."""
        for call in self._calls.values():
            call.set_attribute("error.type", OTHER)
            call.end()
        self._calls.clear()
        for phase in list(self._phases):
            self._end_phase(phase)
        if self._run is not None:
            self._run.span.end()
            self._run = None

    # runs and phases

    def _end_phase(self, name: str) -> None:
        for key in [key for key in self._steps if key[0] == name]:
            step = self._steps.pop(key)
            step.span.end(step.last_event_ns)
        self._phases.pop(name).span.end()

    def _record_error(self, span: Span, status: str, reason: str) -> None:
        if status in FAILED:
            span.set_attribute("error.type", status)
            span.set_status(Status(StatusCode.ERROR, reason if self.content else None))

    def _parent_span(self, phase: str) -> _OpenSpan | None:
        """Return the parent span of a phase: the run, or the step that runs the phase's inline workflow."""
        outer, _, _ = phase.rpartition("/")
        above, _, step = outer.rpartition("/")
        if above in self._phases:
            return self._step(f"{self._workflow}/{above}/{step}", above)
        return self._run

    # steps and calls

    def _step(self, address: str, phase: str) -> _OpenSpan | None:
        """Return the span of the step at an address. Start the span if necessary."""
        if phase not in self._phases:
            return self._run
        below = address.partition("/")[2].removeprefix(f"{phase}/")
        name = below.partition("/")[0].partition("@")[0]
        step = self._steps.get((phase, name))
        if step is None:
            attributes = {"skillrun.phase.name": phase, "skillrun.step.name": name}
            step = self._start_span(f"step {name}", self._phases[phase], attributes)
            self._steps[phase, name] = step
        step.last_event_ns = time.time_ns()
        return step

    def _call(self, address: str, phase: str, member: str, model: str) -> Span:
        call_attributes = _call_attributes(model)
        attributes = {**call_attributes, "gen_ai.agent.name": member, "skillrun.call.address": address}
        name = f"chat {call_attributes['gen_ai.request.model']}"
        return self._start_span(name, self._step(address, phase), attributes, SpanKind.CLIENT).span

    def _on_call_ended(self, event: events.CallEnded) -> None:
        if event.replayed:
            if (phase := self._phases.get(event.phase)) is not None:
                phase.replayed_calls += 1
            return
        span = self._calls.pop(event.address, None)
        if span is None:  # it was not sent
            span = self._call(event.address, event.phase, event.member, event.model)
        self._step(event.address, event.phase)
        metric_attributes: dict[str, str] = _call_attributes(event.model)
        prompt = self._prompts.pop(event.address, None)
        if self.content:
            _add_content(span, prompt, event)
        if event.error:
            metric_attributes["error.type"] = OTHER
            span.set_attribute("error.type", OTHER)
            span.set_status(Status(StatusCode.ERROR, event.error if self.content else None))
        else:
            span.set_attributes({USAGE[kind]: number for kind, number in event.usage.items() if kind in USAGE})
            span.set_attribute("gen_ai.response.finish_reasons", [FINISH_REASONS.get(event.stop, event.stop)])
            if event.price is not None:
                span.set_attribute("skillrun.price", event.price)
            for kind in ("input", "output"):
                self._tokens.record(event.usage.get(kind, 0), {**metric_attributes, "gen_ai.token.type": kind})
            self._seconds.record(event.seconds, metric_attributes)
        span.end()

    def _start_span(
        self, name: str, parent: _OpenSpan | None, attributes: Mapping[str, Any], kind: SpanKind = SpanKind.INTERNAL
    ) -> _OpenSpan:
        """Start a child of `parent`, or of the current context if there is no parent."""
        above = set_span_in_context(parent.span, context.Context()) if parent is not None else None
        return _OpenSpan(self._tracer.start_span(name, above, kind, attributes), time.time_ns())


def _call_attributes(model: str) -> dict[str, str]:
    """Return the attributes that the span and the metrics of a call share."""
    provider, _, name = model.partition(":")
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": PROVIDERS.get(provider, provider),
        "gen_ai.request.model": name,
    }


def _add_content(span: Span, prompt: Mapping[str, Any] | None, event: events.CallEnded) -> None:
    """Add the texts of a call to its span, in the message format of the conventions."""
    if prompt is not None:
        system = _parts(prompt["system"])
        messages = [{"role": each["role"], "parts": _parts(each["blocks"])} for each in prompt["messages"]]
        span.set_attributes({"gen_ai.system_instructions": _json(system), "gen_ai.input.messages": _json(messages)})
    if event.text:
        reason = FINISH_REASONS.get(event.stop, event.stop)
        message = {"role": "assistant", "parts": _parts([{"text": event.text}]), "finish_reason": reason}
        span.set_attribute("gen_ai.output.messages", _json([message]))


def _parts(blocks: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [{"type": "text", "content": block["text"]} for block in blocks]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
