"""Real model servers from the package registries: `doctor --provider`, a workflow, and a plan on each.

`results.yaml` has what each server can do, and `docs/reference/servers.md` shows it. `SKILLRUN_UPDATE_SERVERS=1` writes
the file; review the diff. `SKILLRUN_SERVER_PLANS=1` also runs the workflow and a plan on real models, in many minutes.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from skillrun.cli.loading import cache_folder, open_library
from skillrun.models.catalogue import Catalogue
from tests.acceptance.conftest import Done, skillrun  # noqa: F401 -- a fixture
from tests.model_servers import environment

UPDATE: Final = bool(os.environ.get("SKILLRUN_UPDATE_SERVERS"))  # read at import: tests run without these variables
PLANS: Final = bool(os.environ.get("SKILLRUN_SERVER_PLANS"))
ENVIRON: Final = dict(os.environ)  # with the user's caches of pip and npm
HERE: Final = Path(__file__).parent
SERVERS: Final[dict[str, dict[str, Any]]] = yaml.safe_load((HERE / "servers.yaml").read_text(encoding="utf-8"))
RESULTS: Final = HERE / "results.yaml"
START_SECONDS: Final = 120  # a busy machine imports LiteLLM slowly
KEY: Final = "sk-litellm-test"

pytestmark = [pytest.mark.slow, pytest.mark.embedded, pytest.mark.finding("FV13"), pytest.mark.row("L11")]


@pytest.fixture(scope="session")
def installed() -> None:
    """Install the servers once."""
    try:
        environment.install(ENVIRON)
    except environment.Missing as error:
        pytest.skip(str(error))


@contextmanager
def running(name: str, upstream: str = "") -> Iterator[str]:
    """Run a server and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    embedded = Catalogue.from_config(open_library().config("models").data).embedded  # type: ignore[union-attr]
    assert embedded is not None
    weights = cache_folder() / "models" / embedded.sha256[:12] / Path(embedded.file).name
    values = {"python": environment.PYTHON, "node": environment.NODE, "own": sys.executable, "weights": weights}
    command = [part.format(port=port, **values) for part in SERVERS[name]["start"]]
    # LiteLLM would fetch a list of prices from the web.
    environ = {**ENVIRON, "UPSTREAM": upstream, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    process = subprocess.Popen(
        command, cwd=environment.PROGRAMS, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for_port(process, port)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def wait_for_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a server listens."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"the server does not listen; exit code {process.poll()}")


def run_checks(server: Mapping[str, Any], skillrun: Callable[..., Done]) -> dict[str, Any]:  # noqa: F811
    """Return what works on a server: each request of `doctor`, a workflow, and a plan."""
    report = skillrun("doctor", "--provider", "local", "--json").json
    results: dict[str, Any] = {each["what"]: each["state"] for each in report["requests"]}
    results["adapted"] = {key: value for key, value in report["adapted"].items() if key not in ("window", "max_output")}
    options = ("--unattended", "--quiet")
    if PLANS or not server.get("model"):
        results["workflow"] = "ok" if skillrun("probe", "a cat", "--name", "probe", *options).code == 0 else "missing"
        plan = skillrun("plan", "Add a dark mode", "--mode", "rapid", "--name", "plan", *options)
        results["plan"] = "ok" if plan.code == 0 else "missing"
    return results


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_does_what_the_table_says(
    name: str,
    installed: None,
    skillrun: Callable[..., Done],  # noqa: F811
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = SERVERS[name]
    try:
        environment.check_installed(server)
    except environment.Missing as error:
        pytest.skip(str(error))
    with ExitStack() as stack:
        upstream = stack.enter_context(running(server["upstream"])) if "upstream" in server else ""
        url = stack.enter_context(running(name, upstream))
        folder = shutil.copytree(HERE / "project", tmp_path / "project")
        tier = f"local:{server['name']}"
        config = {
            "providers": {"local": {**server["entry"], "base_url": url}},
            "tiers": {"strong": tier, "fast": tier},
        }
        own_config = home / ".config" / "skillrun" / "config" / "models.yaml"
        own_config.parent.mkdir(parents=True)
        own_config.write_text(yaml.safe_dump(config))
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("LITELLM_API_KEY", KEY)
        results = run_checks(server, skillrun)
    recorded = yaml.safe_load(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if UPDATE:
        recorded[name] = {**recorded.get(name, {}), **results}
        RESULTS.write_text(yaml.safe_dump(recorded), encoding="utf-8")
        return
    assert results == {key: value for key, value in recorded[name].items() if key in results}
