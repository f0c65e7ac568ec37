"""The test suite's own guards: closed network, empty home, valid markers, a limit on the CPU time of fast tests."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


def test_sockets_are_blocked() -> None:
    with pytest.warns(UserWarning, match="socket"), pytest.raises(RuntimeError, match="socket"):
        socket.create_connection(("127.0.0.1", 9))


def test_home_is_empty_and_no_keys_are_set(home: Path) -> None:
    assert Path.home() == home
    assert list(home.iterdir()) == []
    assert not [name for name in os.environ if name.endswith("_API_KEY")]


def run_pytest(folder: Path, source: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a subprocess on one test file with the suite's own conftest."""
    tests = folder / "tests"
    tests.mkdir()
    shutil.copy(CONFTEST, tests)
    markers = "row\n  finding\n  embedded\n  slow"
    (folder / "pytest.ini").write_text(f"[pytest]\ntestpaths = tests\nmarkers =\n  {markers}\n", encoding="utf-8")
    (tests / "test_guarded.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", *options]
    variables = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environment
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=variables)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("row('4P')", "row('4P',) names no requirement row; allowed: ids such as 'P4'"),
        ("finding('Z1')", "finding('Z1',) names no finding; allowed: ids such as 'FZ1'"),
    ],
)
def test_an_invalid_marker_id_stops_the_run(mark: str, message: str, tmp_path: Path) -> None:
    run = run_pytest(tmp_path, f"import pytest\n\n@pytest.mark.{mark}\ndef test_nothing(): pass\n")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert message in run.stdout + run.stderr


ROWS = """
import pytest

@pytest.mark.slow
@pytest.mark.row("P1", "P2")
def test_slow(): pass

@pytest.mark.row("P2")
def test_fast(): pass
"""


def test_a_row_whose_tests_are_all_slow_stops_the_run(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, ROWS)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "every test of these rows is marked `slow`, so `make test` runs none: P1\n" in run.stdout + run.stderr


BURN = """
import subprocess, sys, time
import pytest

def burn() -> None:
    end = time.process_time() + 0.12
    while time.process_time() < end:
        pass

@pytest.fixture(scope="module")
def module_fixture() -> None:
    burn()

@pytest.fixture(scope="session")
def session_fixture() -> None:
    burn()

def test_with_expensive_shared_fixtures(module_fixture, session_fixture): pass

def test_that_burns(): burn()

def test_whose_child_burns():
    subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"])

@pytest.mark.slow
def test_marked(): burn()

def test_that_is_the_first_to_import_a_large_library():
    if "large_library" not in sys.modules:
        sys.modules["large_library"] = sys
        burn()
"""


@pytest.mark.slow
def test_a_fast_test_that_uses_too_much_cpu_time_fails_with_its_name(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, BURN, SKILLRUN_TEST_CPU_LIMIT="0.1")
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    names = set(
        re.findall(
            r"^tests/test_guarded.py::(\w+) used \d\.\d s of CPU time; the limit is 0.1 s", run.stdout, re.MULTILINE
        )
    )
    assert names == {"test_that_burns", "test_whose_child_burns"}
    assert "2 failed, 3 passed" in run.stdout
