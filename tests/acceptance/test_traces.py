"""Runs export OpenTelemetry data when an SDK is configured, without message content by default."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import opentelemetry.metrics._internal as metrics
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.acceptance.conftest import Call, Make

SCRIPTED = ("--model", "scripted:x")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[TracerProvider]:
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracer_provider)
    yield tracer_provider
    tracer_provider.shutdown()


@pytest.fixture
def finished_spans(provider: TracerProvider) -> Callable[[], dict[str, ReadableSpan]]:
    """Returns the finished spans, by name."""
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return lambda: {span.name: span for span in exporter.get_finished_spans()}


@pytest.fixture
def read_metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[str, Any]]]:
    """Returns the metrics so far, by name."""
    reader = InMemoryMetricReader()
    meter_provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "_METER_PROVIDER", meter_provider)

    def read() -> dict[str, Any]:
        data: Any = reader.get_metrics_data()
        return {metric.name: metric for scope in data.resource_metrics[0].scope_metrics for metric in scope.metrics}

    yield read
    meter_provider.shutdown()


@pytest.mark.row("W6")
def test_runs_phases_steps_and_calls_are_nested_spans(
    project: Make,
    skillrun: Call,
    finished_spans: Callable[[], dict[str, ReadableSpan]],
    read_metrics: Callable[[], dict[str, Any]],
) -> None:
    project("greeting")
    assert skillrun("greeting", "Ada the first", "--name", "ada", *SCRIPTED).code == 0
    spans = finished_spans()
    parents = {
        name: next((o for o, s in spans.items() if s.context == span.parent), "") for name, span in spans.items()
    }
    run = spans["invoke_workflow greeting"]
    attributes: Any = run.attributes
    assert attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert attributes["gen_ai.workflow.name"] == "greeting"
    assert attributes["skillrun.run.name"] == "ada"
    assert attributes["skillrun.status"] == "completed"
    call = spans["chat x"]
    assert parents["invoke_workflow greeting"] == ""
    assert parents["chat x"].startswith("step ")
    assert parents[parents["chat x"]].startswith("phase ")
    assert parents[parents[parents["chat x"]]] == "invoke_workflow greeting"
    attributes = call.attributes
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.provider.name"] == "scripted"
    assert attributes["gen_ai.request.model"] == "x"
    assert attributes["gen_ai.usage.output_tokens"] > 0
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert call.kind is trace.SpanKind.CLIENT
    assert {span.context.trace_id for span in spans.values()} == {run.context.trace_id}
    tokens = read_metrics()["gen_ai.client.token.usage"]
    assert tokens.unit == "{token}"
    assert {point.attributes["gen_ai.token.type"] for point in tokens.data.data_points} == {"input", "output"}
    assert read_metrics()["gen_ai.client.operation.duration"].unit == "s"


@pytest.mark.row("W6")
@pytest.mark.parametrize(
    "variable", ["", "SKILLRUN_OTEL_CONTENT", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"]
)
def test_message_content_is_exported_only_on_request(
    project: Make,
    skillrun: Call,
    finished_spans: Callable[[], dict[str, ReadableSpan]],
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project("greeting")
    if variable:
        monkeypatch.setenv(variable, "true")
    assert skillrun("greeting", "Adalovelace", "--name", "one", *SCRIPTED).code == 0
    texts = " ".join(span.to_json() for span in finished_spans().values())
    assert ("Adalovelace" in texts) is bool(variable)
    call: Any = finished_spans()["chat x"].attributes
    assert ("gen_ai.input.messages" in call) is bool(variable)
    if variable:
        (message,) = json.loads(call["gen_ai.output.messages"])
        assert message["parts"][0]["content"]
        assert json.loads(call["gen_ai.input.messages"])[0]["role"] == "user"


@pytest.mark.slow
@pytest.mark.row("W6")
def test_a_resumed_run_is_a_separate_trace_marked_as_resumed(
    project: Make, skillrun: Call, finished_spans: Callable[[], dict[str, ReadableSpan]]
) -> None:
    folder = project("visit", "greeting")
    assert skillrun("visit", "--name", "trip", *SCRIPTED).code == 75
    first: Any = finished_spans()["invoke_workflow visit"]
    assert (first.attributes["skillrun.status"], first.attributes["skillrun.run.resumed"]) == ("waiting", False)
    (folder / "answers.yaml").write_text("choose/where: the lake\n")
    assert skillrun("resume", "trip", "--answers", "answers.yaml").code == 0
    second: Any = finished_spans()["invoke_workflow visit"]
    assert (second.attributes["skillrun.status"], second.attributes["skillrun.run.resumed"]) == ("completed", True)
    assert first.context.trace_id != second.context.trace_id


class Broken(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("the exporter is broken")


@pytest.mark.row("W6")
def test_a_broken_exporter_does_not_affect_the_run(project: Make, skillrun: Call, provider: TracerProvider) -> None:
    project("greeting")
    provider.add_span_processor(Broken())
    done = skillrun("greeting", "Ada", "--name", "ada", *SCRIPTED)
    assert done.code == 0
    assert "the trace stopped: the exporter is broken" in done.out + done.err


@pytest.mark.slow
@pytest.mark.row("W6")
@pytest.mark.parametrize("is_set_up", [False, True])
def test_telemetry_is_imported_only_when_an_sdk_is_configured(project: Make, is_set_up: bool) -> None:
    folder = project("greeting")
    set_up = "from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider; "
    set_up += "trace.set_tracer_provider(TracerProvider()); "
    program = (
        f"import sys; {set_up if is_set_up else ''}from skillrun.cli.main import main; "
        f"code = main(['greeting', 'Ada', '--model', 'scripted:x']); "
        f"print(code, 'skillrun.extensions.workers.spans' in sys.modules, 'opentelemetry.sdk' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"0 {is_set_up} {is_set_up}"
