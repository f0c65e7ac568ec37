"""Projects that somebody else wrote: a small workflow, a home with canaries, and what a hostile clone adds to it.

A case is a line in `test_clones.CASES`: what it puts into the folder, and what a run of it says.
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
from tests.servers.wire import Answer, Asked, Wire, serve

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
FREE = (  # commands that spend nothing: of any project, and before anybody trusts it
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


def cloned(origin: Path, target: Path) -> Path:
    """A real clone of what is in a folder."""
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run(["git", *who, *command], cwd=origin, check=True)
    subprocess.run(["git", *who, "clone", "-q", str(origin), str(target)], check=True)
    return target


def answered(asked: Asked) -> Answer:
    """What a provider of either protocol says."""
    if "models" in asked.path:
        return anthropic.models("claude-opus-5-5", "claude-haiku-5-5", "claude-opus-99")
    if "messages" not in asked.path:
        return openai.completion("Hello.")
    return anthropic.stream("Hello.") if asked.body.get("stream") else anthropic.message(anthropic.text("Hello."))


@dataclass
class Scene:
    """A person's machine: a home with secrets, keys in the environment, their own provider, a stranger's server."""

    home: Path
    own: Wire
    stranger: Wire
    before: dict[str, tuple[bytes, int, int]] = field(default_factory=dict)

    def canaries(self) -> dict[str, tuple[bytes, int, int]]:
        """What is in the files of the home, with mode and time."""
        found = {}
        for name in SECRETS:
            status = (self.home / name).lstat()
            found[name] = ((self.home / name).read_bytes(), status.st_mode, status.st_mtime_ns)
        return found

    def unharmed(self, told: str, folder: Path) -> None:
        """The stranger has heard nothing, no file has changed, and no secret is anywhere."""
        assert [asked.path for asked in self.stranger.asked] == []
        assert self.canaries() == self.before
        assert "CANARY" not in told
        kept = [folder / "runs", self.home / ".cache", self.home / ".local"]
        files = [path for one in kept if not one.is_symlink() for path in one.rglob("*") if path.is_file()]
        assert [path for path in files if b"CANARY" in path.read_bytes()] == []
        sent = [asked.path for asked in self.own.asked if "CANARY" in str(asked.body)]
        assert sent == [], "a secret went into a prompt"


@contextmanager
def scene(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    write(home, SECRETS)
    for name in SECRETS:
        os.utime(home / name, (1_700_000_000, 1_700_000_000))
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with serve(answered) as own, serve(answered) as stranger:
        mine = f'providers: {{anthropic: {{base_url: "{own.url}"}}}}\n'
        write(home, {".config/skillrun/config/models.yaml": mine})
        made = Scene(home, own, stranger)
        made.before = made.canaries()
        yield made


Plant = Callable[[Path, Scene], None]


@dataclass(frozen=True)
class Hostile:
    """What a clone adds to the demo, what a run of it says, and which finding it is."""

    plant: Plant
    said: str
    finding: str
    by_git: bool = False
