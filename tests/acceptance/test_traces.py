"""Runs tell OpenTelemetry what happens in them, where somebody has set an SDK up, and nothing of what is said there."""

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
    made = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made)
    yield made
    made.shutdown()


@pytest.fixture
def told(provider: TracerProvider) -> Callable[[], dict[str, ReadableSpan]]:
    """The spans that have ended, by name."""
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return lambda: {span.name: span for span in exporter.get_finished_spans()}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[str, Any]]]:
    """The measures so far, by name."""
    reader = InMemoryMetricReader()
    made = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "_METER_PROVIDER", made)

    def read() -> dict[str, Any]:
        data: Any = reader.get_metrics_data()
        return {each.name: each for scope in data.resource_metrics[0].scope_metrics for each in scope.metrics}

    yield read
    made.shutdown()


@pytest.mark.row("W6")
def test_a_run_its_phases_steps_and_calls_are_spans_within_each_other(
    project: Make, skillrun: Call, told: Callable[[], dict[str, ReadableSpan]], measured: Callable[[], dict[str, Any]]
) -> None:
    project("greeting")
    assert skillrun("greeting", "Ada the first", "--name", "ada", *SCRIPTED).code == 0
    spans = told()
    above = {name: next((o for o, s in spans.items() if s.context == span.parent), "") for name, span in spans.items()}
    run = spans["invoke_workflow greeting"]
    attributes: Any = run.attributes
    assert attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert attributes["gen_ai.workflow.name"] == "greeting"
    assert attributes["skillrun.run.name"] == "ada"
    assert attributes["skillrun.status"] == "completed"
    call = spans["chat x"]
    assert above["invoke_workflow greeting"] == ""
    assert above["chat x"].startswith("step ")
    assert above[above["chat x"]].startswith("phase ")
    assert above[above[above["chat x"]]] == "invoke_workflow greeting"
    attributes = call.attributes
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.provider.name"] == "scripted"
    assert attributes["gen_ai.request.model"] == "x"
    assert attributes["gen_ai.usage.output_tokens"] > 0
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert call.kind is trace.SpanKind.CLIENT
    assert {span.context.trace_id for span in spans.values()} == {run.context.trace_id}
    tokens = measured()["gen_ai.client.token.usage"]
    assert tokens.unit == "{token}"
    assert {point.attributes["gen_ai.token.type"] for point in tokens.data.data_points} == {"input", "output"}
    assert measured()["gen_ai.client.operation.duration"].unit == "s"


@pytest.mark.row("W6")
@pytest.mark.parametrize("asked", ["", "SKILLRUN_OTEL_CONTENT", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"])
def test_what_is_said_is_told_only_where_it_is_asked_for(
    project: Make,
    skillrun: Call,
    told: Callable[[], dict[str, ReadableSpan]],
    asked: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project("greeting")
    if asked:
        monkeypatch.setenv(asked, "true")
    assert skillrun("greeting", "Adalovelace", "--name", "one", *SCRIPTED).code == 0
    texts = " ".join(span.to_json() for span in told().values())
    assert ("Adalovelace" in texts) is bool(asked)
    call: Any = told()["chat x"].attributes
    assert ("gen_ai.input.messages" in call) is bool(asked)
    if asked:
        (said,) = json.loads(call["gen_ai.output.messages"])
        assert said["parts"][0]["content"]
        assert json.loads(call["gen_ai.input.messages"])[0]["role"] == "user"


@pytest.mark.slow
@pytest.mark.row("W6")
def test_a_run_that_goes_on_is_a_trace_of_its_own_that_says_so(
    project: Make, skillrun: Call, told: Callable[[], dict[str, ReadableSpan]]
) -> None:
    folder = project("visit", "greeting")
    assert skillrun("visit", "--name", "trip", *SCRIPTED).code == 75
    first: Any = told()["invoke_workflow visit"]
    assert (first.attributes["skillrun.status"], first.attributes["skillrun.run.resumed"]) == ("waiting", False)
    (folder / "answers.yaml").write_text("choose/where: the lake\n")
    assert skillrun("resume", "trip", "--answers", "answers.yaml").code == 0
    second: Any = told()["invoke_workflow visit"]
    assert (second.attributes["skillrun.status"], second.attributes["skillrun.run.resumed"]) == ("completed", True)
    assert first.context.trace_id != second.context.trace_id


class Broken(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("the exporter is broken")


@pytest.mark.row("W6")
def test_a_broken_exporter_harms_no_run(project: Make, skillrun: Call, provider: TracerProvider) -> None:
    project("greeting")
    provider.add_span_processor(Broken())
    called = skillrun("greeting", "Ada", "--name", "ada", *SCRIPTED)
    assert called.code == 0
    assert "the trace stopped: the exporter is broken" in called.out + called.err


@pytest.mark.slow
@pytest.mark.row("W6")
@pytest.mark.parametrize("is_set_up", [False, True])
def test_nothing_of_it_is_imported_where_no_sdk_was_set_up(project: Make, is_set_up: bool) -> None:
    folder = project("greeting")
    set_up = "from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider; "
    set_up += "trace.set_tracer_provider(TracerProvider()); "
    program = (
        f"import sys; {set_up if is_set_up else ''}from skillrun.cli.main import main; "
        f"code = main(['greeting', 'Ada', '--model', 'scripted:x']); "
        f"print(code, 'skillrun.extensions.workers.telemetry.spans' in sys.modules, 'opentelemetry.sdk' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"0 {is_set_up} {is_set_up}"
