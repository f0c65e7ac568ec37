"""Provider kinds, stores, tools and report sections of installed packages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillrun.cli.options import STORE_VARIABLE
from tests.acceptance.conftest import Call, Make

Install = Callable[[str, str, str], Path]
RUN = ("greeting", "Ada", "--name", "ada")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-an-extension.md"
ECHO = """

class BrokenClient(EchoClient):
    async def send(self, request: Request) -> Reply:
        raise ValueError(f"no reply with {self.context.key}")


class OddClient(EchoClient):
    async def send(self, request: Request) -> Reply:
        return "a text"


async def open_echo(context: ClientContext) -> EchoClient:
    return EchoClient(context)
"""
KINDS = """[skillrun.providers]
echo = skillrun_echo:EchoClient
echo-later = skillrun_echo:open_echo
broken = skillrun_echo:BrokenClient
odd = skillrun_echo:OddClient
missing = skillrun_echo:missing
openai = skillrun_echo:EchoClient
"""
KEY = "echo-key-4711-abcdef"


@pytest.fixture
def echo(project: Make, install: Install, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes a project whose models are those of a provider with this kind."""
    folder = project("greeting")
    _, _, example = PAGE.read_text(encoding="utf-8").partition("```python file=skillrun_echo.py\n")
    install("skillrun_echo", example.partition("```")[0] + ECHO, KINDS)
    monkeypatch.setenv("ECHO_KEY", KEY)

    def write(kind: str) -> None:
        (folder / "config").mkdir(exist_ok=True)
        provider = f"{{kind: {kind}, base_url: 'http://127.0.0.1:9', key: ECHO_KEY}}"
        text = f"providers: {{echo: {provider}}}\ntiers: {{fast: 'echo:m', strong: 'echo:m'}}\nretry: {{attempts: 1}}\n"
        (folder / "config" / "models.yaml").write_text(text)

    return write


@pytest.mark.parametrize("kind", ["echo", "echo-later"])
def test_a_provider_kind_of_a_package_replies(kind: str, echo: Callable[[str], None], skillrun: Call) -> None:
    echo(kind)
    done = skillrun(*RUN, "--trust-project")
    assert done.code == 0, done.err
    assert Path("runs/ada/greeting.md").read_text().startswith("[key] # Your role: writer")
    assert set(skillrun("show", "ada", "--json").json["models"].values()) == {"echo:m"}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("broken", "the provider `broken` of an extension failed: no reply with [key]"),
        ("odd", "the provider `odd` of an extension failed: its client returned str instead of Reply"),
        ("missing", "the extension `missing` failed to load: module 'skillrun_echo' has no attribute 'missing'"),
    ],
)
def test_a_provider_kind_that_fails_is_a_failed_call(
    kind: str, reason: str, echo: Callable[[str], None], skillrun: Call
) -> None:
    echo(kind)
    done = skillrun(*RUN, "--trust-project")
    assert done.code == 1
    assert reason in " ".join((done.out + done.err).split())
    assert skillrun("greeting", "Ada", "--model", "scripted:default").code == 0


def test_a_provider_kind_of_a_package_needs_consent(
    echo: Callable[[str], None], skillrun: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo("echo")
    assert skillrun(*RUN, "--unattended").code == 1
    models = Path("config/models.yaml")
    models.write_text(models.read_text().replace("ECHO_KEY", "''"))
    assert skillrun(*RUN, "--unattended").code == 1, "its client may send requests anywhere"
    assert "providers.echo.kind = echo" in skillrun("trust", "--show").out


def test_an_unknown_kind_is_reported_with_the_registered_ones(echo: Callable[[str], None], skillrun: Call) -> None:
    echo("ecko")
    assert "did you mean `echo`?" in skillrun("validate").out
    echo("nothing-like-it")
    assert "anthropic, responses, openai, embedded, echo, " in skillrun("validate").out


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_built_in_kind_cannot_be_replaced(echo: Callable[[str], None], skillrun: Call) -> None:
    echo("openai")
    done = skillrun(*RUN, "--trust-project")
    assert (done.code, "cannot be reached" in done.out + done.err) == (1, True), done.out + done.err


STORE = """
from pathlib import Path

from skillrun.models.gateway import ProcessLimits
from skillrun.store.local.local_store import LocalStore


class FolderStore:
    def __init__(self, url):
        self.runs = LocalStore(Path(url.partition("://")[2]))

    def slots(self):
        return ProcessLimits()

    def requeue(self, name):
        return False


def fail(url):
    raise ValueError("no disk")
"""


@pytest.fixture
def folder_store(project: Make, install: Install) -> Path:
    install(
        "skillrun_folders",
        STORE,
        "[skillrun.stores]\nfolder = skillrun_folders:FolderStore\nsad = skillrun_folders:fail\n",
    )
    return project("greeting")


def test_a_store_of_a_package_stores_runs(
    folder_store: Path, skillrun: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE_VARIABLE, f"folder://{tmp_path}/elsewhere")
    assert skillrun(*RUN, "--model", "scripted:default").code == 0
    assert (tmp_path / "elsewhere" / "ada" / "greeting.md").exists()
    assert not (folder_store / "runs").exists()
    assert [run["run"] for run in skillrun("runs", "--json").json] == ["ada"]


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        ("sad://x", "the store `sad` of an extension failed: no disk", "report it to the authors"),
        ("folders://x", "no store is registered for URLs that start with `folders://`", "did you mean `folder`?"),
        ("sqlite://me:secret@x", "that start with `sqlite://`", "allowed: postgresql, postgres, folder, sad"),
        ("secret", "the store URL has no scheme", "postgresql://"),
    ],
)
def test_a_store_that_cannot_be_opened_is_reported(
    url: str, message: str, hint: str, folder_store: Path, skillrun: Call
) -> None:
    done = skillrun("runs", "--store", url)
    assert done.code == 2
    assert message in done.err
    assert hint in done.err
    assert "secret" not in done.err


TOOLS = """
from skillrun.repository.repository import Tool
from skillrun.repository.results import ToolError

NOTHING = {"type": "object", "properties": {}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def reverse(arguments, context):
    return arguments["text"][::-1]


def refuse(arguments, context):
    raise ToolError("not today")


def read(arguments, context):
    with context.open_folder() as folder:
        return str(sorted(folder.tree.path.name for _ in range(1)))


reversed_text = Tool("Reverses a text.", TEXT, reverse, "pure")
refused = Tool("Refuses.", NOTHING, refuse, "pure")
broken = Tool("Fails.", NOTHING, lambda arguments, context: 1 / 0, "reads")
folder = Tool("Names the folder.", NOTHING, read, "reads", needs_repository=True)
"""
TOOL_POINTS = """[skillrun.tools]
Reverse = skillrun_texts:reversed_text
Refuse = skillrun_texts:refused
Fail = skillrun_texts:broken
Folder = skillrun_texts:folder
Odd = skillrun_texts:reverse
Read = skillrun_texts:broken
"""


def test_tools_of_a_package_run_and_their_failures_are_reported(
    project: Make, install: Install, skillrun: Call
) -> None:
    folder = project("greeting")
    install("skillrun_texts", TOOLS, TOOL_POINTS)
    role = folder / "roles" / "writer.md"
    names = "Reverse, Refuse, Fail, Folder, Odd, Read, Revers"
    role.write_text(role.read_text().replace("model: fast", f"model: fast\ntools: [{names}]"))
    assert "did you mean `Reverse`?" in skillrun("validate").out
    calls: list[dict[str, Any]] = [
        {"name": name, "arguments": {}} for name in ("Refuse", "Fail", "Reverse", "Folder", "Odd", "Read")
    ]
    calls.append({"name": "Reverse", "arguments": {"text": "olleh"}})
    rules = [{"address": "greeting/draft/*/1.1", "calls": calls}, {"address": "*", "text": "Hello."}]
    (folder / "script.yaml").write_text(json.dumps(rules))
    done = skillrun(*RUN, "--script", "script.yaml")
    assert done.code == 0, done.err
    assert done.out.count("the tool `Fail` of an extension failed: division by zero") == 1
    assert "the tool `Odd` of an extension is not an object of the class `Tool`" in done.out
    shown = skillrun("show", "ada", "draft", "words", "--json", "--full").json
    results = {
        json.dumps(use["arguments"]) + use["tool"]: use["result"] for use in shown["calls"][0]["turns"][0]["tools"]
    }
    assert results["{}Refuse"] == "error: not today"
    assert results["{}Fail"].startswith("error: the tool `Fail` of an extension failed")
    assert "text" in results["{}Reverse"]
    assert "you have no tool" in results["{}Folder"], "the workflow has no repository"
    assert "you have no tool" in results["{}Read"], "a built-in tool cannot be replaced"
    assert results['{"text": "olleh"}Reverse'] == "hello"


SECTIONS = """
from skillrun.extensions.report.report_data import ReportSection


def summary(data):
    return ReportSection("At a <glance>", f"## Run\\n\\n**{data.summary['run']}** <script>alert(1)</script>")


def nothing(data):
    return None


def broken(data):
    raise ValueError("no data")
"""


def test_a_report_contains_the_sections_of_packages(project: Make, install: Install, skillrun: Call) -> None:
    project("greeting")
    points = "".join(f"{name} = skillrun_glance:{name}\n" for name in ("summary", "nothing", "broken", "missing"))
    install("skillrun_glance", SECTIONS, f"[skillrun.reports]\n{points}")
    assert skillrun(*RUN, "--model", "scripted:default").code == 0
    done = skillrun("report", "ada")
    assert done.code == 0, done.err
    page = Path("runs/ada/report.html").read_text()
    assert '<h2 id="section-1-title">At a &lt;glance&gt;</h2>' in page
    assert "<strong>ada</strong>" in page
    assert "<script" not in page
    assert page.count('<section id="section-') == 1
    for reason in ("the report `broken` of an extension failed: no data", "the extension `missing` failed to load"):
        assert f"warning: {reason}" in done.err
        assert reason in page
