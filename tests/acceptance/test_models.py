"""The same project files run on Claude, on an OpenAI-compatible endpoint and on the embedded model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillrun.types.samples import sample
from tests.servers import anthropic, google, openai
from tests.servers.wire import Answer, WireRequest, serve

Call = Callable[..., Any]
REQUEST = "Add dark mode to the settings page"
LOOPBACK = pytest.mark.allow_hosts(["127.0.0.1"])


DOCUMENT = "# A document\n\nIt says what was asked for."


def claude(request: WireRequest) -> Answer:
    """Serve Claude's model list, and replies that match the requested schema, streamed on request."""
    if request.path.startswith("/v1/models"):
        return anthropic.models("claude-opus-5-5", "claude-haiku-5-5")
    schema = request.body.get("output_config", {}).get("format", {}).get("schema")
    text = DOCUMENT if schema is None else json.dumps(sample(schema, "claude"))
    return anthropic.stream(text) if request.body.get("stream") else anthropic.message(anthropic.text(text))


@pytest.mark.slow
@LOOPBACK
@pytest.mark.row("X5")
def test_a_plan_runs_on_claude_when_the_key_is_set(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: Path = project()
    with serve(claude) as wire:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        done = skillrun("plan", REQUEST, "--mode", "rapid", "--unattended", "--name", "claude")
    assert done.code == 0, done.out + done.err
    assert "strong = anthropic:claude-opus-5-5, fast = anthropic:claude-haiku-5-5" in done.out
    calls = [request for request in wire.asked if request.path.startswith("/v1/messages")]
    assert {request.body["model"] for request in calls} == {"claude-opus-5-5"}
    cache_points = [[block for block in _blocks(request.body) if "cache_control" in block] for request in calls]
    assert {len(blocks) for blocks in cache_points} == {2}, (
        "one after the documents, one after the text shared by the phase"
    )
    prefixes = [
        _blocks(request.body)[: _blocks(request.body).index(blocks[0])]
        for request, blocks in zip(calls, cache_points, strict=True)
    ]
    assert prefixes[-1] == prefixes[-3], "the last phases share the same document blocks"
    run = folder / "runs" / "claude"
    assert "It says what was asked for." in (run / "tasks.md").read_text(encoding="utf-8")
    leaks = [path for path in run.rglob("*") if path.is_file() and b"sk-ant-secret" in path.read_bytes()]
    assert not leaks
    assert "sk-ant-secret" not in done.out + done.err


def _blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for message in body["messages"] for block in message["content"]]


@pytest.mark.slow
@LOOPBACK
@pytest.mark.row("X5")
def test_a_wrong_key_ends_the_run_and_resume_works_with_a_valid_key(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    project()

    def reject(request: WireRequest) -> Answer:
        if request.path.startswith("/v1/models"):
            return anthropic.models("claude-opus-5-5", "claude-haiku-5-5")
        return anthropic.error(401, "authentication_error", "invalid x-api-key")

    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong")
    with serve(reject) as wire:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        done = skillrun("plan", REQUEST, "--mode", "rapid", "--unattended", "--name", "key")
        attempts = len([request for request in wire.asked if request.path.startswith("/v1/messages")])
    assert done.code == 1
    assert attempts == 1
    assert "ANTHROPIC_API_KEY" in done.out + done.err
    assert "sk-ant-wrong" not in done.out + done.err
    with serve(claude) as wire:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        resumed = skillrun("resume", "key", "--unattended")
    assert resumed.code == 0, resumed.out + resumed.err


@pytest.mark.slow
@LOOPBACK
@pytest.mark.row("X5")
def test_an_openai_compatible_endpoint_needs_two_lines_of_config(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: Path = project()

    def endpoint(request: WireRequest) -> Answer:
        schema = (request.body.get("response_format") or {}).get("json_schema", {}).get("schema")
        return openai.completion(DOCUMENT if schema is None else json.dumps(sample(schema, "endpoint")))

    with serve(endpoint) as wire:
        (folder / "config").mkdir()
        (folder / "config" / "models.yaml").write_text(
            f'providers: {{own: {{kind: openai, base_url: "{wire.url}/v1", key: ""}}}}\n'
            'tiers: {strong: "own:some-model", fast: "own:some-model"}\n',
            encoding="utf-8",
        )
        done = skillrun("plan", REQUEST, "--mode", "rapid", "--unattended", "--name", "own")
    assert done.code == 0, done.out + done.err
    assert {request.body["model"] for request in wire.asked} == {"some-model"}
    assert "price unknown" in done.out
    assert (folder / "runs" / "own" / "tasks.md").is_file()


NAMED = """---
name: ask
inputs:
  request: string, what to ask
  models(array): {type: model, default: [strong], description: of whom}
  who: {type: member, default: asker, description: who is asked last}
phases:
  ask:
---
"""
PHASE = """---
kind: phase
steps:
  - {id: several, agent: "{{ members('asker', inputs.models) }}", writes: "said-{{ member.model | slug }}.md"}
  - {id: last, agent: "{{ inputs.who }}"}
---
## several
{{ inputs.request | untrusted }}

## last
{{ inputs.request | untrusted }}
"""


@pytest.fixture
def ask_project(project: Call) -> Path:
    """A project with a workflow that calls the given models and member."""
    folder: Path = project()
    asker = "---\nname: asker\ndescription: Asks.\nvariants: {short: In short.}\n---\nYou ask.\n"
    for path, text in {"workflows/ask.md": NAMED, "skills/ask/ask.md": PHASE, "roles/asker.md": asker}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


@LOOPBACK
@pytest.mark.finding("FL6")
def test_an_intent_means_the_same_in_an_input_a_member_and_a_tier(
    ask_project: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve_newer_models(request: WireRequest) -> Answer:
        return anthropic.models("claude-opus-7-0", "claude-haiku-7-0") if "models" in request.path else claude(request)

    with serve(serve_newer_models) as wire:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        member = "asker@latest Claude Haiku"
        done = skillrun("ask", "x", "--models", "latest Claude Opus", "--who", member, "--name", "a", "--unattended")
    assert done.code == 0, done.out + done.err
    assert (
        "latest Claude Opus = anthropic:claude-opus-7-0, latest Claude Haiku = anthropic:claude-haiku-7-0" in done.out
    )
    assert {request.body["model"] for request in wire.asked if "messages" in request.path} == {
        "claude-opus-7-0",
        "claude-haiku-7-0",
    }
    assert "latest Claude Opus: anthropic:claude-opus-7-0" in (ask_project / "runs" / "a" / "state.md").read_text(
        "utf-8"
    )


@LOOPBACK
@pytest.mark.finding("FL6")
def test_models_with_one_name_from_two_providers_are_two_members(
    ask_project: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(lambda request: openai.completion(request.path.split("/")[1])) as wire:
        (ask_project / "config").mkdir()
        entries = ", ".join(
            f'{name}: {{kind: openai, base_url: "{wire.url}/{name}/v1", key: ""}}' for name in ("a", "b")
        )
        (ask_project / "config" / "models.yaml").write_text(
            f'providers: {{{entries}}}\ntiers: {{strong: "a:m", fast: "b:m"}}\n', encoding="utf-8"
        )
        done = skillrun("ask", "x", "--models", "a:m,b:m", "--name", "two", "--unattended")
    assert done.code == 0, done.out + done.err
    run = ask_project / "runs" / "two"
    assert [(run / f"said-{name}-m.md").read_text("utf-8").strip() for name in ("a", "b")] == ["a", "b"]


@pytest.mark.finding("FL6")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--models", "strong,olama:llama3"], "`models` is `olama:llama3`: there is no provider `olama`"),
        (["--models", "stronk"], "`models` is `stronk`: there is no model `stronk`; did you mean `strong`?"),
        (["--who", "askr"], "`who` is `askr`: there is no role `askr`; did you mean `asker`?"),
        (["--who", "asker:shrt"], "has no variant `shrt`; did you mean `short`?"),
        (["--who", "asker@antropic:x"], "there is no provider `antropic`; did you mean `anthropic`?"),
        (["--model", "antropic:x"], "there is no provider `antropic`"),
    ],
)
def test_an_unknown_model_or_member_is_refused_before_the_run(
    ask_project: Path, skillrun: Call, flags: list[str], message: str
) -> None:
    done = skillrun("ask", "x", *flags, "--unattended")
    assert done.code == 2
    assert message in done.err + done.out
    assert not (ask_project / "runs").exists()


@pytest.mark.finding("FL6")
def test_a_requested_model_without_a_key_is_refused_before_the_run(ask_project: Path, skillrun: Call) -> None:
    done = skillrun("ask", "x", "--models", "anthropic:claude-opus-5-5", "--unattended")
    assert done.code == 1
    assert (
        "`anthropic:claude-opus-5-5` needs a key: it is anthropic:claude-opus-5-5, and ANTHROPIC_API_KEY is" in done.err
    )
    assert not (ask_project / "runs").exists()


def test_a_misspelt_scripted_model_gets_a_suggestion(project: Call, skillrun: Call) -> None:
    project("greeting")
    done = skillrun("greeting", "Ada", "--model", "scriptd:default")
    assert (done.code, "did you mean `scripted`?" in done.err) == (2, True)
    for name in ("scripted", "scripted:"):
        done = skillrun("greeting", "Ada", "--model", name)
        assert (done.code, "did you mean `scripted:default`?" in done.err) == (2, True)


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.row("X5")
def test_a_workflow_runs_on_the_embedded_model_from_start_to_finish(project: Call, skillrun: Call) -> None:
    folder: Path = project("greeting")
    done = skillrun("greeting", "Ada", "--unattended", "--name", "real")
    assert done.code == 0, done.out + done.err
    assert "embedded:" in done.out
    record = skillrun("show", "real", "--json").json
    assert record["status"] == "completed"
    assert record["usage"]["output"] > 0
    assert any((folder / "runs" / "real").glob("*.md"))


@LOOPBACK
@pytest.mark.finding("FL6")
@pytest.mark.row("S2")
def test_model_returns_the_resolved_model_and_its_provider(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two names of one model give one member; other names resolve from the lists already fetched."""
    folder: Path = project("voices")
    saying = folder / "skills" / "voices" / "saying.md"
    entry = "{{ one.id }} {{ one.provider }} {{ one.model }} {{ one.window }};"
    text = f"{{% for one in [model('opus'), model('scripted:x')] %}}{entry}{{% endfor %}}"
    saying.write_text(saying.read_text("utf-8").replace("steps:\n", f'steps:\n  - {{say: "{text}"}}\n'), "utf-8")

    def serve_newer_models(request: WireRequest) -> Answer:
        return anthropic.models("claude-opus-7-0", "claude-haiku-7-0") if "models" in request.path else claude(request)

    with serve(serve_newer_models) as wire:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        models = ("--models", "latest GPT", "--models", "latest Claude Opus")
        done = skillrun("voices", "Hello", *models, "--name", "a", "--unattended")
    assert done.code == 0, done.out + done.err
    assert "anthropic:claude-opus-7-0 anthropic claude-opus-7-0 200000;scripted:x scripted x 32768;" in done.out
    opus = "claude-opus-7-0 of anthropic"
    assert f"latest GPT is {opus}, latest Claude Opus is {opus}." in done.out
    assert [path.name for path in (folder / "runs" / "a").glob("said-*")] == ["said-claude-opus-7-0.md"]
    assert len([request for request in wire.asked if "/v1/models" in request.path]) == 1


@pytest.mark.slow
@LOOPBACK
@pytest.mark.row("X5")
def test_gemini_reads_files_and_a_run_resumes_after_its_tool_calls(
    project: Call, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal keeps the signature of each tool call, so a resumed run sends it again."""
    folder: Path = project()
    (folder / "app.py").write_text("LIMIT = 500\n")
    broken = [True]

    def gemini(request: WireRequest) -> Answer:
        if "models" in request.path:
            return google.models("gemini-3.1-pro-preview", "gemini-3.8-flash")
        signatures = [
            call.get("extra_content") for turn in request.body["messages"] for call in turn.get("tool_calls", ())
        ]
        if any(signature != {"google": {"thought_signature": google.SIGNATURE}} for signature in signatures):
            return google.unsigned("Read")
        if not signatures and request.body.get("tools"):
            return google.completion(
                None, finish_reason="tool_calls", tool_calls=[google.call("Read", {"path": "app.py"})]
            )
        if signatures and broken[0]:
            return google.error(402, "FAILED_PRECONDITION", "No credit is left.")
        schema = (request.body.get("response_format") or {}).get("json_schema", {}).get("schema")
        return google.completion(DOCUMENT if schema is None else json.dumps(sample(schema, "gemini")))

    with serve(gemini) as wire:
        monkeypatch.setenv("GEMINI_API_KEY", "sk-secret-0123456789")
        monkeypatch.setenv("GEMINI_BASE_URL", f"{wire.url}/v1")
        done = skillrun("implementation-plan", REQUEST, "--repo", ".", "--name", "g", "--unattended")
        assert done.code == 1, done.out + done.err
        assert "no credit left" in done.out + done.err
        broken[0] = False
        before = len(wire.asked)
        done = skillrun("resume", "g", "--unattended")
        assert "failed: The plan has not passed a review: 0 of 1 reviews pass it." in done.out, done.out + done.err
        first = wire.asked[before].body["messages"]
    assert "LIMIT = 500" in json.dumps(first), "the file is not read again"
    assert "damaged" not in done.out + done.err
