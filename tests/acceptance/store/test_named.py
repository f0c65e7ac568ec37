"""The option, the environment or the user's config names the store, in this order; a project cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillrun.cli.options import STORE_VARIABLE
from tests.acceptance.conftest import Call, Make
from tests.servers.postgres import empty

pytestmark = pytest.mark.row("W1")
SCRIPTED = ("--model", "scripted:x")


def write_config(place: Path, text: str) -> None:
    """Write `config/skillrun.yaml` below a folder."""
    (place / "config").mkdir(parents=True, exist_ok=True)
    (place / "config/skillrun.yaml").write_text(text)


@pytest.fixture
def user_config(home: Path) -> Path:
    """The user's config folder."""
    return home / ".config/skillrun"


@pytest.mark.slow
def test_the_user_config_names_the_store_after_the_option_and_the_environment(
    project: Make, skillrun: Call, store: str, user_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project("greeting")
    write_config(user_config, f"store: {store}\n")
    monkeypatch.delenv(STORE_VARIABLE)
    assert skillrun("greeting", "Ada", *SCRIPTED).code == 0
    assert not (folder / "runs").exists()
    monkeypatch.setenv(STORE_VARIABLE, "")
    assert skillrun("greeting", "Ada", *SCRIPTED).code == 0
    assert (folder / "runs/ada/state.md").exists()
    with empty() as other:
        monkeypatch.setenv(STORE_VARIABLE, other)
        assert "is not a skillrun store yet" in skillrun("runs").err
    monkeypatch.delenv(STORE_VARIABLE)
    write_config(user_config, "store: postgresql://guest@127.0.0.1:9/none\n")
    assert "does not answer" in skillrun("runs").err
    assert skillrun("runs", "--store", store).code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_a_project_cannot_name_a_store(
    project: Make, skillrun: Call, user_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project("greeting")
    monkeypatch.delenv(STORE_VARIABLE)
    write_config(folder, "share: false\nstore: postgresql://thief@127.0.0.1:9/none\n")
    line = "config/skillrun.yaml:2:1: error[users-only]: a project cannot set `store`"
    for command in (("validate",), ("greeting", "Ada", *SCRIPTED)):
        refused = skillrun(*command)
        assert (refused.code, line in refused.out + refused.err) == (1, True)
    assert "is not a skillrun store" not in skillrun("runs").err
    assert skillrun("runs").code == 0
    write_config(folder, 'store: ""\n')
    assert skillrun("validate").code == 0
    write_config(user_config, "store: [a, b]\n")
    assert "`store` of ~config/config/skillrun.yaml must be text" in skillrun("runs").err
    write_config(user_config, "store: {\n")
    assert "config/skillrun.yaml:" in skillrun("runs").err
