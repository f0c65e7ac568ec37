"""The test suite's own guards: the network is closed, the home is empty, row markers name rows."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


def test_sockets_are_closed() -> None:
    with pytest.warns(UserWarning, match="socket"), pytest.raises(RuntimeError, match="socket"):
        socket.create_connection(("127.0.0.1", 9))


def test_home_is_empty_and_keys_are_gone(home: Path) -> None:
    assert Path.home() == home
    assert list(home.iterdir()) == []
    assert not [name for name in os.environ if name.endswith("_API_KEY")]


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("row('4P')", "row('4P',) names no requirement row; allowed: ids such as 'P4'"),
        ("finding('Z1')", "finding('Z1',) names no finding; allowed: ids such as 'FZ1'"),
    ],
)
def test_a_marker_that_names_nothing_stops_the_run(mark: str, said: str, tmp_path: Path) -> None:
    shutil.copy(CONFTEST, tmp_path)
    test = tmp_path / "test_marked.py"
    test.write_text(f"import pytest\n\n@pytest.mark.{mark}\ndef test_nothing(): pass\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(test)]
    run = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert said in run.stdout + run.stderr
