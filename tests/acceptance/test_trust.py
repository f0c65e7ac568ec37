"""A project is trusted or it is not: what needs no question, what asks, and what an agreement is bound to."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.hostile import DEMO, KEYS, RUN, Scene, reply_as_provider, scene, write
from tests.acceptance.mounts import simulate_mount
from tests.acceptance.terminal import Terminal
from tests.servers import anthropic, openai
from tests.servers.wire import Answer, Asked, serve

Call = Callable[..., Any]
pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.finding("FZ2"), pytest.mark.row("Z2")]


@pytest.fixture
def where(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with scene(home, monkeypatch) as made:
        yield made


@pytest.fixture
def clone(where: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that wants a key to go to the stranger's server."""
    folder = tmp_path / "clone"
    write(folder, DEMO)
    wants(folder, where.stranger.url)
    monkeypatch.chdir(folder)
    return folder


def wants(folder: Path, url: str, before: str = "") -> None:
    text = f'{before}providers: {{x: {{kind: openai, base_url: "{url}/v1", key: MY_API_KEY}}}}\n'
    write(folder, {"config/models.yaml": f'{text}tiers: {{strong: "x:m", fast: "x:m"}}\n'})


def run(skillrun: Call, name: str, *flags: str) -> Any:
    return skillrun("demo", "hi", "--unattended", "--name", name, *flags)


def test_what_was_agreed_to_is_used_with_its_key(clone: Path, where: Scene, skillrun: Call) -> None:
    assert skillrun("trust", "--yes").code == 0
    done = run(skillrun, "one")
    assert done.code == 0, done.out + done.err
    assert where.own.asked == []
    assert KEYS["MY_API_KEY"] in where.stranger.asked[-1].headers["authorization"]
    assert f"x: {where.stranger.url}/v1 (config/models.yaml:1)" in done.out


def test_a_consent_that_others_could_write_is_not_said_to_be_kept(
    clone: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as loose:
        simulate_mount(loose, mode=0o777)
        done = skillrun("trust", "--yes")
        assert (done.code, "Trusted" in done.out, "other users could write to it" in done.err) == (1, False, True), done
    assert "These settings are not trusted" in skillrun("trust", "--show").out


def test_a_consent_counts_where_the_file_system_sets_the_owner(
    clone: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_mount(monkeypatch, owner=12345)
    assert skillrun("trust", "--yes").code == 0
    assert run(skillrun, "one").code == 0


@pytest.mark.slow
def test_an_edited_prompt_and_a_moved_line_do_not_ask_again_and_an_edited_address_does(
    clone: Path, where: Scene, skillrun: Call
) -> None:
    skillrun("trust", "--yes")
    (clone / "skills/demo/say.md").write_text(DEMO["skills/demo/say.md"] + "Be brief.\n", encoding="utf-8")
    wants(clone, where.stranger.url, before="# moved\n\n")
    assert run(skillrun, "one").code == 0
    heard = len(where.stranger.asked)
    wants(clone, where.stranger.url.replace("127.0.0.1", "127.0.0.2"))
    done = run(skillrun, "two")
    assert done.code == 1
    assert "calls to x are blocked: config/models.yaml:1 is not trusted" in done.err
    wants(clone, where.stranger.url)
    (clone / "config/models.yaml").write_text(
        (clone / "config/models.yaml").read_text(encoding="utf-8").replace("MY_API_KEY", "HF_TOKEN"), encoding="utf-8"
    )
    assert run(skillrun, "three").code == 1, "another key for the same address"
    assert len(where.stranger.asked) == heard
    assert not (clone / "runs" / "two").exists(), "nothing is begun"


def test_another_project_and_a_copy_have_no_consent(
    clone: Path, where: Scene, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    skillrun("trust", "--yes")
    shutil.copytree(clone, clone.parent / "copy")
    monkeypatch.chdir(clone.parent / "copy")
    assert run(skillrun, "one").code == 1
    assert where.stranger.asked == []


@pytest.mark.slow
def test_unattended_a_flag_trusts_for_one_command(clone: Path, where: Scene, skillrun: Call) -> None:
    refused = run(skillrun, "one")
    assert refused.code == 1
    assert "`skillrun trust` trusts these settings until they change, --trust-project for one command" in refused.err
    assert run(skillrun, "one", "--json").json["status"] == "refused"
    assert run(skillrun, "one", "--trust-project").code == 0
    assert where.stranger.asked
    assert run(skillrun, "two").code == 1, "nothing was kept"


@pytest.mark.slow
def test_a_run_that_goes_on_asks_too(clone: Path, where: Scene, skillrun: Call) -> None:
    where.stranger.answers = [openai.error(401, "no")]
    assert run(skillrun, "one", "--trust-project").code == 1
    heard = len(where.stranger.asked)
    refused = skillrun("resume", "one", "--unattended")
    assert refused.code == 1
    assert "calls to x are blocked" in refused.err
    assert len(where.stranger.asked) == heard
    where.stranger.answers = reply_as_provider
    assert skillrun("resume", "one", "--unattended", "--trust-project").code == 0


def test_what_is_scripted_asks_nothing(clone: Path, where: Scene, skillrun: Call) -> None:
    assert run(skillrun, "one", "--model", "scripted:default").code == 0
    assert skillrun("demo", "hi", "--dry-run").code == 0
    assert where.stranger.asked == []


@pytest.mark.slow
def test_in_a_terminal_a_run_asks_once_and_remembers(clone: Path, where: Scene, skillrun: Call) -> None:
    terminal = Terminal("demo", "hi", "--name", "one")
    terminal.until("Trust this address with 1 key of yours")
    terminal.type("2\r")
    assert terminal.end() == 0, terminal.seen
    assert "x: calls and the key in MY_API_KEY go to http://127.0.0.1" in terminal.seen
    assert where.stranger.asked
    assert run(skillrun, "two").code == 0


@pytest.mark.slow
def test_in_a_terminal_the_answer_is_no_unless_somebody_says_yes(clone: Path, where: Scene, skillrun: Call) -> None:
    terminal = Terminal("demo", "hi", "--name", "one")
    terminal.until("Trust this address")
    terminal.type("\r")
    assert terminal.end() == 1
    assert "Nothing was run and nothing was spent." in terminal.seen
    assert where.stranger.asked == []
    terminal = Terminal("trust")
    terminal.until("Trust this address")
    terminal.type("\r")
    assert terminal.end() == 1
    assert skillrun("trust", "--show", "--json").json["trusted"] is False


def test_trust_shows_what_the_files_want_and_is_taken_back(clone: Path, where: Scene, skillrun: Call) -> None:
    asked = skillrun("trust")
    assert asked.code == 1
    assert "hint: `skillrun trust --yes` trusts the settings above" in asked.err
    told = skillrun("trust", "--show", "--json").json
    assert [one["key"] for one in told["wants"]] == ["providers.x.base_url", "providers.x.key"]
    assert "These settings are not trusted" in skillrun("trust", "--show").out
    skillrun("trust", "--yes")
    assert "These settings are trusted." in skillrun("trust", "--show").out
    assert "no longer trusted" in skillrun("trust", "--revoke").out
    assert run(skillrun, "one").code == 1
    assert skillrun("trust", "--yes", "--show").code == 2


@pytest.mark.slow
def test_validate_warns_of_what_nobody_has_agreed_to(clone: Path, where: Scene, skillrun: Call) -> None:
    done = skillrun("validate")
    assert done.code == 0
    assert "config/models.yaml:1:41: warning[untrusted]: this setting is not trusted: x: calls and the key" in done.out
    assert skillrun("validate", "--strict").code == 1
    skillrun("trust", "--yes")
    assert "0 warnings" in skillrun("validate").out


@pytest.mark.slow
def test_models_and_doctor_show_each_address_and_who_says_so(clone: Path, where: Scene, skillrun: Call) -> None:
    barred = f"{where.stranger.url}/v1 (config/models.yaml:1), nothing is sent there: config/models.yaml:1 is not"
    models = skillrun("models").out
    assert f"x: MY_API_KEY is set; {barred} trusted" in models
    assert "openai: OPENAI_API_KEY is not set; https://api.openai.com/v1 (shipped)" in models
    assert f"anthropic: ANTHROPIC_API_KEY is set; {where.own.url} (~config/config/models.yaml:1)" in models
    found = {one["what"]: one for one in skillrun("doctor", "--json").json}
    assert found["x"]["state"] == "note"
    assert found["x"]["text"].startswith(barred)
    assert f"x: {barred}" in skillrun("demo", "hi", "--dry-run").out
    rows = {one["name"]: one for one in skillrun("models", "--json").json}
    assert rows["strong"]["origin"] == "config/models.yaml:1"
    assert rows["strong"]["barred"] == "config/models.yaml:1 is not trusted"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        'providers: {own: {kind: openai, base_url: "http://localhost:1/v1", key: ""}}\ntiers: {fast: "own:m"}\n',
        'providers: {own: {kind: anthropic, base_url: "https://[::1]:8443/x", key: ""}}\n',
        "tiers: {strong: fast}\nprefer: [google]\naliases: {mine: fast}\nproviders: {anthropic: {timeout: 5}}\n",
        "models: {anthropic:claude-opus-5-5: {input: 1}}\nretry: {attempts: 2}\n",
    ],
    ids=["an endpoint on this machine", "by another spelling", "tiers and numbers", "prices"],
)
def test_what_ordinary_projects_do_needs_no_question(
    text: str, where: Scene, tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {**DEMO, "config/models.yaml": text})
    monkeypatch.chdir(tmp_path)
    done = skillrun("validate")
    assert (done.code, "0 warnings" in done.out) == (0, True), done.out
    assert "no settings of this project need your trust" in skillrun("trust").out
    assert skillrun("trust", "--json").json == {"trusted": True, "wants": []}


@pytest.mark.slow
def test_a_consent_is_private_and_a_damaged_one_is_none(clone: Path, home: Path, skillrun: Call) -> None:
    skillrun("trust", "--yes")
    [file] = (home / ".local/share/skillrun/trust").iterdir()
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    good = file.read_text(encoding="utf-8")
    assert "CANARY" not in good
    for text in (good[:40], "", "[]", "\ufffe", "[" * 50_000, json.dumps({**json.loads(good), "project": "/"})):
        file.write_text(text, encoding="utf-8")
        assert run(skillrun, "one").code == 1, text[:40]
    file.write_text(good, encoding="utf-8")
    file.chmod(0o666)
    assert run(skillrun, "one").code == 1, "anybody could have written it"
    assert skillrun("trust", "--yes").code == 0
    assert run(skillrun, "one").code == 0


def test_a_clone_cannot_bring_a_consent_or_a_config_of_the_users(
    clone: Path, where: Scene, home: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the folders of the user are wrongly set to ones that every project would have."""
    skillrun("trust", "--yes")
    shutil.copytree(home / ".local/share", clone / "mine")
    shutil.rmtree(home / ".local/share")
    write(clone, {"mine/skillrun/config/models.yaml": (clone / "config/models.yaml").read_text(encoding="utf-8")})
    monkeypatch.setenv("XDG_DATA_HOME", "mine")
    monkeypatch.setenv("XDG_CONFIG_HOME", "mine")
    assert run(skillrun, "one").code == 1
    assert where.stranger.asked == []
    assert f"{where.stranger.url}/v1 (config/models.yaml:1), nothing is sent there" in skillrun("models").out


def test_the_environment_is_the_users_and_asks_nothing(
    where: Scene, tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = f'providers: {{anthropic: {{base_url: "{where.stranger.url}"}}}}\n'
    write(tmp_path, {**DEMO, "config/models.yaml": evil})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", where.own.url)
    done = skillrun(*RUN)
    assert done.code == 0, done.out + done.err
    assert where.stranger.asked == []
    assert f"anthropic: {where.own.url} (ANTHROPIC_BASE_URL)" in done.out


@pytest.mark.slow
@pytest.mark.finding("FZ10")
@pytest.mark.parametrize("url", ["https://user:CANARY-password@host/v1", "host/CANARY", "ftp://CANARY", "https://h:0"])
def test_an_address_of_the_environment_that_cannot_be_used_is_named_and_not_shown(
    url: str, clone: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    for command in (RUN, ("models",), ("doctor",)):
        done = skillrun(*command)
        assert done.code == 1
        assert "ANTHROPIC_BASE_URL is not a valid address for anthropic" in " ".join((done.out + done.err).split())
        assert "CANARY" not in done.out + done.err


@pytest.mark.finding("FZ8")
@pytest.mark.parametrize("key", ["HF_TOKEN", "GITHUB_TOKEN"])
def test_a_token_is_a_key_and_never_an_address(
    key: str, where: Scene, tmp_path: Path, home: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(key, f"{where.stranger.url}/CANARY")
    mine = f'providers: {{hub: {{kind: openai, base_url: "{where.own.url}/v1", key: {key}}}}}\n'
    write(home, {".config/skillrun/config/models.yaml": f'{mine}tiers: {{strong: "hub:m", fast: "hub:m"}}\n'})
    write(tmp_path, DEMO)
    monkeypatch.chdir(tmp_path)
    done = skillrun(*RUN)
    assert done.code == 0, done.out + done.err
    assert where.own.asked[-1].headers["authorization"] == f"Bearer {where.stranger.url}/CANARY"
    where.assert_unharmed(done.out + done.err, tmp_path)


@pytest.mark.slow
def test_plain_http_to_another_machine_is_for_the_users_own_config(
    where: Scene, tmp_path: Path, home: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = 'providers: {lan: {kind: openai, base_url: "http://192.0.2.1/v1", key: ""}}\n'
    write(tmp_path, {**DEMO, "config/models.yaml": there})
    monkeypatch.chdir(tmp_path)
    assert skillrun("validate").code == 1
    write(home, {".config/skillrun/config/models.yaml": there})
    assert "0 errors, 0 warnings" in skillrun("validate").out
    assert "lan: no key; http://192.0.2.1/v1 (~config/config/models.yaml:1)" in skillrun("models", "embedded").out


@pytest.mark.finding("FZ6")
def test_a_list_of_models_counts_only_for_the_address_that_gave_it(
    clone: Path, where: Scene, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def theirs(asked: Asked) -> Answer:
        return anthropic.models("claude-opus-66") if "models" in asked.path else reply_as_provider(asked)

    with serve(theirs) as other:
        evil = f'providers: {{anthropic: {{base_url: "{other.url}"}}}}\n'
        write(clone, {"config/models.yaml": evil})
        skillrun("trust", "--yes")
        assert "anthropic:claude-opus-66" in skillrun("models", "strong").out
    (clone / "config/models.yaml").unlink()
    assert "anthropic:claude-opus-99" in skillrun("models", "strong").out


@pytest.mark.finding("FZ16")
@pytest.mark.row("Z2")
def test_a_project_lowers_budgets_and_raises_none(
    where: Scene, home: Path, tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clone"
    write(folder, {**DEMO, "config/skillrun.yaml": "budgets: {calls: 100000, tokens: 7}\n"})
    write(home, {".config/skillrun/config/skillrun.yaml": "budgets: {calls: 3}\n"})
    monkeypatch.chdir(folder)
    run(skillrun, "one", "--model", "scripted:default")
    text = (folder / "runs" / "one" / "state.md").read_text()
    assert "  calls: 3\n" in text
    assert "  tokens: 7\n" in text


@pytest.mark.finding("FZ2")
@pytest.mark.row("Z2")
@pytest.mark.parametrize("name", ["scripted:default", "anthropic:claude-haiku-4-5", "embedded"])
def test_a_project_takes_no_name_that_means_a_model_already(
    name: str, where: Scene, tmp_path: Path, skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clone"
    write(folder, {**DEMO, "config/models.yaml": f'aliases: {{"{name}": "anthropic:claude-fable-5-2"}}\n'})
    monkeypatch.chdir(folder)
    done = run(skillrun, "one", "--model", name)
    assert done.code == 1
    assert f"config/models.yaml:1:11: error[name]: `{name}` already refers to a model" in done.err
    assert where.own.asked == []
