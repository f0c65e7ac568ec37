"""Hostile projects: a small workflow, a home directory with canaries, and what a hostile clone adds to it.

Each case is an entry of `test_clones.CASES`: the files that it adds to the folder, and the expected message of a run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.servers import anthropic, openai
from tests.servers.wire import Answer, Wire, WireRequest, serve

DEMO: Mapping[str, str] = {
    "workflows/demo.md": "---\nname: demo\ndescription: A demo.\ninputs:\n  what: string\nphases:\n  say:\n---\n",
    "skills/demo/say.md": "---\nkind: phase\nsteps:\n  - {id: words, agent: clerk, writes: words.md}\n---\n"
    "## words\nSay {{ inputs.what }}.\n",
    "roles/clerk.md": "---\nname: clerk\ndescription: Writes.\nmodel: fast\n---\nYou write.\n",
}
KEYS: Mapping[str, str] = {
    name: f"CANARY-{name}-0123456789"
    for name in ("ANTHROPIC_API_KEY", "MY_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY")
}
SECRETS: Mapping[str, str] = {
    ".ssh/id_ed25519": "CANARY-ssh-key\n",
    ".config/gh/hosts.yml": "github.com: {oauth_token: CANARY-gh-token}\n",
    ".bashrc": "export A=CANARY-bashrc\n",
    "victim/requirements.txt": "CANARY-requirements\n",
    "notes/role.md": "---\nname: role\ndescription: CANARY-role\n---\nCANARY-persona\n",
}
FREE = (  # commands that spend nothing, in any project and before it is trusted
    ("validate",), ("list",), ("--help",), ("demo", "--help"), ("demo", "hi", "--dry-run"), ("doctor",),
    ("graph", "demo"), ("render", "demo", "say"), ("runs",), ("models",), ("hint", "add a login page"),
    ("trust", "--show"),
)  # fmt: skip
RUN = ("demo", "hi", "--unattended", "--name", "hi")


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def link(folder: Path, name: str, target: str | Path) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def clone(origin: Path, target: Path) -> Path:
    """Commit a folder and clone it with git; returns the clone."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run(["git", *identity, *command], cwd=origin, check=True)
    subprocess.run(["git", *identity, "clone", "-q", str(origin), str(target)], check=True)
    return target


def reply_as_provider(request: WireRequest) -> Answer:
    """Reply as a provider of either protocol."""
    if "models" in request.path:
        return anthropic.models("claude-opus-5-5", "claude-haiku-5-5", "claude-opus-99")
    if "messages" not in request.path:
        return openai.completion("Hello.")
    return anthropic.stream("Hello.") if request.body.get("stream") else anthropic.message(anthropic.text("Hello."))


@dataclass
class Scene:
    """A user's machine: a home with secrets, keys in the environment, the user's provider and a stranger's server."""

    home: Path
    own: Wire
    stranger: Wire
    secrets: dict[str, tuple[bytes, int, int]] = field(default_factory=dict)

    def canaries(self) -> dict[str, tuple[bytes, int, int]]:
        """The content, mode and modification time of each secret file."""
        found = {}
        for name in SECRETS:
            status = (self.home / name).lstat()
            found[name] = ((self.home / name).read_bytes(), status.st_mode, status.st_mtime_ns)
        return found

    def assert_unharmed(self, output: str, folder: Path) -> None:
        """Check that the stranger received no request, no file changed and no secret leaked."""
        assert [request.path for request in self.stranger.asked] == []
        assert self.canaries() == self.secrets
        assert "CANARY" not in output
        kept = [folder / "runs", self.home / ".cache", self.home / ".local"]
        files = [path for one in kept if not one.is_symlink() for path in one.rglob("*") if path.is_file()]
        assert [path for path in files if b"CANARY" in path.read_bytes()] == []
        sent = [request.path for request in self.own.asked if "CANARY" in str(request.body)]
        assert sent == [], "a prompt contains a secret"


@contextmanager
def scene(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    write(home, SECRETS)
    for name in SECRETS:
        os.utime(home / name, (1_700_000_000, 1_700_000_000))
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with serve(reply_as_provider) as own, serve(reply_as_provider) as stranger:
        config = f'providers: {{anthropic: {{base_url: "{own.url}"}}}}\n'
        write(home, {".config/skillrun/config/models.yaml": config})
        machine = Scene(home, own, stranger)
        machine.secrets = machine.canaries()
        yield machine


Plant = Callable[[Path, Scene], None]


@dataclass(frozen=True)
class Hostile:
    """What a clone adds to the demo, the expected message of a run, and the finding."""

    plant: Plant
    said: str
    finding: str
    by_git: bool = False
