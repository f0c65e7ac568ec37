"""Limits of models and budgets: no call that reached a limit is repeated, and a limit that has no effect is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillrun.runtime.calls.member_request import MemberReply
from tests.acceptance.conftest import Call, Done, Make
from tests.servers import openai
from tests.servers.wire import Answer, Wire, WireRequest, serve

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

STEP = "- {id: talk, agent: clerk}"
STRICT = {"steps": "- {id: talk, agent: clerk, retry: three}", "workflow": "config: w\n"}
MODELS = """providers: {{local: {{kind: openai, base_url: "{url}/v1", key: ""}}}}
tiers: {{strong: "local:m", fast: "local:m"}}
models: {{"local:m": {{window: 9000, max_output: 700{price}}}}}
retry: {{attempts: 2, seconds: 5, first: 0.01}}
"""


class Scene:
    """A workflow of one phase on a server that always sends the same response."""

    def __init__(self, folder: Path, skillrun: Call) -> None:
        self.folder, self.skillrun = folder, skillrun

    def run(self, answer: Answer | Callable[[WireRequest], Answer], *options: str, **files: str) -> tuple[Done, Wire]:
        respond = answer if callable(answer) else lambda _: answer
        with serve(lambda asked: openai.models("m") if asked.path.endswith("/models") else respond(asked)) as wire:
            steps, price = files.get("steps", STEP), files.get("price", "")
            section = files.get("section", "Say it.")
            texts = {
                "roles/clerk.md": "---\nname: clerk\ndescription: A clerk.\n---\nYou write.\n",
                "workflows/w.md": "---\nname: w\ndescription: A test.\ninputs: {request: string}\n"
                f"{files.get('workflow', '')}phases:\n  one:\n---\n",
                "skills/w/one.md": f"---\nkind: phase\nsteps:\n  {steps}\n---\n## talk\n{section}\n",
                "config/w.yaml": files.get("config", ""),
                "config/models.yaml": MODELS.format(url=wire.url, price=price),
            }
            for name, text in texts.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = self.skillrun("w", "it", "--unattended", "--trust-project", *options)
        return done, wire


@pytest.fixture
def scene(project: Make, skillrun: Call) -> Scene:
    return Scene(project(), skillrun)


def calls(wire: Wire) -> list[Any]:
    return [asked.body for asked in wire.asked if asked.path.endswith("/completions")]


REFUSALS = {
    "400": openai.error(400, "no"),
    "405": openai.error(405, "no"),
    "413": openai.error(413, "no"),
    "422": openai.error(422, "no"),
    "451": openai.error(451, "no"),
    "a limit of tokens": openai.error(400, "max_tokens is too large: 700. This model supports at most 512"),
    "a code": openai.error(400, "too long", "context_length_exceeded"),
    "vLLM": openai.error(400, "This model's maximum context length is 4096 tokens."),
    "llama-cpp-python": openai.error(400, "Requested tokens (5050) exceed context window of 2048"),
    "llama.cpp": openai.error(500, "the request exceeds the available context size, try increasing it"),
}


@pytest.mark.finding("FX4")
@pytest.mark.parametrize("kind", REFUSALS)
def test_a_request_that_is_refused_is_not_sent_again(kind: str, scene: Scene) -> None:
    done, wire = scene.run(REFUSALS[kind])
    assert done.code == 1
    assert len(calls(wire)) == 1
    if kind == "a limit of tokens":
        assert "its `max_output` in config/models.yaml is 700 tokens" in done.out
        assert "next: Set `max_output` of local:m to the limit of the server" in done.out
    elif kind == "413" or not kind.isdigit():
        assert "its `window` in config/models.yaml is 9,000 tokens" in done.out
        assert "next: Set `window` of local:m to the limit of the server" in done.out


@pytest.mark.finding("FX4")
@pytest.mark.parametrize("text", ["", '{"ideas": [{"idea": "'])
def test_a_reply_that_was_cut_off_is_not_requested_again_and_names_its_limit(text: str, scene: Scene) -> None:
    reply = openai.completion(text, "length", usage={"completion_tokens": 700})
    done, wire = scene.run(reply, steps="- {id: talk, agent: clerk, output: {ideas(array): {idea: string}}}")
    assert done.code == 1
    assert [body["max_tokens"] for body in calls(wire)] == [700]
    limit = "the reply was cut off at the length limit of 700 tokens (`max_output` of local:m in config/models.yaml)"
    assert limit in done.out
    assert "next: Raise `max_output` of local:m in config/models.yaml, or ask for a shorter reply" in done.out
    scene.run(reply)
    assert len(calls(scene.run(reply, "--name", "other")[1])) == 1


@pytest.mark.finding("FX4")
def test_a_reply_cut_off_for_lack_of_room_names_the_window(scene: Scene) -> None:
    reply = openai.completion("So", "length", usage={"completion_tokens": 300})
    done, wire = scene.run(reply, section="word " * 8100)
    assert done.code == 1
    (limit,) = [body["max_tokens"] for body in calls(wire)]
    assert 256 <= limit < 700
    room = f"{limit} tokens, the room that the prompt leaves in the window of 9,000 tokens"
    assert f"{room} (`window` of local:m in config/models.yaml)" in done.out


@pytest.mark.finding("FX4")
def test_an_early_end_at_the_limit_hints_at_the_limit_of_the_server(scene: Scene) -> None:
    done, _ = scene.run(openai.completion("So", "length", usage={"completion_tokens": 40}))
    assert "; it has about 40 tokens, so the server may have a lower limit" in done.out


@pytest.mark.finding("FX4")
def test_a_breaker_makes_no_identical_call(scene: Scene) -> None:
    config = "breakers: {three: {limit: 3, then: sequential}}\n"
    done, wire = scene.run(openai.error(400, "no"), config=config, **STRICT)
    assert done.code == 1
    assert len(calls(wire)) == 1


@pytest.mark.finding("FX4")
def test_a_failure_that_can_end_is_still_tried_again(scene: Scene) -> None:
    answers = iter([openai.completion("", "stop"), openai.completion("Done.")])
    done, wire = scene.run(lambda _: next(answers))
    assert (done.code, len(calls(wire))) == (0, 2)


@pytest.mark.finding("FX4")
def test_an_older_run_that_repeated_a_cut_off_reply_makes_no_call(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([openai.completion("So", "length"), openai.completion("Done.")])
    with monkeypatch.context() as older:
        older.setattr(MemberReply, "would_recur", False)
        done, wire = scene.run(lambda _: next(answers), "--name", "old")
        assert (done.code, len(calls(wire))) == (0, 2)
    again = scene.skillrun("resume", "old", "--from-start", "--unattended")
    assert again.code == 0, again
    assert "0 calls made, 2 reused" in again.out


DONE = openai.completion("Done.", usage={"prompt_tokens": 200, "completion_tokens": 3})
UNPRICED = (
    "warning: the price limit of $0.01 does not cover calls to local:m, whose price is unknown; set the price in "
    'config/models.yaml, in dollars per million tokens (`models: {"local:m": {input: 1.0, output: 2.0}}`), or limit '
    "`tokens` or `calls`"
)


@pytest.mark.finding("FX5")
@pytest.mark.parametrize("options", [(), ("--quiet",), ("--dry-run",), ("--dry-run", "--json")])
def test_a_price_limit_that_does_not_cover_a_model_is_a_warning(options: tuple[str, ...], scene: Scene) -> None:
    done, _ = scene.run(DONE, "--budget", "price=0.01", *options)
    assert done.code == 0, done
    shown = "\n".join(json.loads(done.out)["warnings"]) if "--json" in options else done.out
    assert shown.count(UNPRICED) == 1
    priced, _ = scene.run(DONE, "--budget", "price=0.01", "--name", "priced", *options, price=", input: 1, output: 2")
    assert "does not cover" not in priced.out


@pytest.mark.finding("FX5")
def test_a_price_limit_in_the_config_is_checked_and_the_default_is_not(scene: Scene) -> None:
    assert "does not cover" not in scene.run(DONE)[0].out
    budgets = scene.folder / "config/skillrun.yaml"
    budgets.write_text("budgets: {price: 0.01}\n")
    assert UNPRICED in scene.run(DONE, "--name", "own")[0].out
    budgets.write_text("budgets: {price: 0.01, calls: 1}\n")
    assert UNPRICED in scene.run(DONE, "--dry-run")[0].out


@pytest.mark.finding("FX5")
def test_a_limit_on_resume_and_models_that_only_some_calls_use_are_checked(scene: Scene) -> None:
    steps = "- {id: talk, agent: clerk}\n  - {id: more, agent: 'clerk@local:other'}"
    section, prices = "Say it.\n## more\nSay more.", ", input: 1, output: 2"
    done, _ = scene.run(DONE, "--budget", "price=0.01", steps=steps, section=section, price=prices)
    assert done.code == 0, done
    assert "does not cover calls to local:other, whose price is unknown" in done.out
    assert "local:m, whose" not in done.out
    failed, _ = scene.run(openai.error(400, "no"), "--name", "later")
    assert "does not cover" not in failed.out
    again = scene.skillrun("resume", "later", "--unattended", "--budget", "price=0.01")
    assert UNPRICED in again.out


@pytest.mark.finding("FX5")
def test_an_estimated_usage_is_named_once(scene: Scene) -> None:
    no_usage = openai.completion("Done.")
    assert isinstance(no_usage.body, dict)
    no_usage.body.pop("usage")
    steps = "- {id: talk, agent: clerk}\n  - {id: more, agent: clerk}"
    done, _ = scene.run(no_usage, "--budget", "tokens=90000", steps=steps, section="Say it.\n## more\nSay more.")
    assert done.code == 0, done
    text = "local reports no valid usage; tokens and prices are estimated from the length of the texts"
    assert (done.out + done.err).count(text) == 1


@pytest.mark.finding("FV3")
def test_a_reply_that_cannot_be_read_counts_in_the_budget(scene: Scene) -> None:
    """It counts in the process that receives it, and in those that resume the run."""
    done, wire = scene.run(Answer("x" * 2000), "--budget", "tokens=400", "--name", "odd")
    assert (done.code, len(calls(wire))) == (75, 1), done
    assert "the budget of 400 tokens is spent" in done.out + done.err
    shown = scene.skillrun("show", "odd", "--json").json["usage"]
    assert (shown["calls"], shown["without_answer"], shown["output"]) == (0, 1, 500)
    with serve([openai.completion("Done.")]) as wire:
        again = scene.skillrun("resume", "odd", "--unattended")
    assert (again.code, len(calls(wire))) == (75, 0), again
