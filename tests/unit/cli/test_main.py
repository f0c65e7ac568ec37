"""Error reports of the command line."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skillrun.cli import main as command_line
from skillrun.cli.main import main
from skillrun.syntax.diagnostics import SkillrunError


def exit_code_after(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(command_line.skillrun, "invoke", fail)
    return main(["list"])


def test_a_bug_is_written_to_a_log_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_after(ZeroDivisionError("oh"), monkeypatch) == 3
    err = capsys.readouterr().err
    assert "this is a bug in skillrun (ZeroDivisionError: oh)" in err
    path = re.search(r"please report it and attach (.*\.log)", err)
    assert path is not None
    assert "Traceback" in Path(path[1]).read_text()


@pytest.mark.finding("FZ10")
def test_the_log_file_of_a_bug_contains_no_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ANTHROPIC_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, f"{name[0]}9f8e7d6c5b4a3")
    text = "A9f8e7d6c5b4a3, 9f8e7d6c, H9f8e7d6c5b4a3 at https://ada:secret99@host/v1"
    assert exit_code_after(ZeroDivisionError(text), monkeypatch) == 3
    err = capsys.readouterr().err
    log = re.search(r"please report it and attach (.*\.log)", err)
    assert log is not None
    for output in (err, Path(log[1]).read_text()):
        assert "[key], [key], [key] at https://host/v1" in output
        assert "9f8e7d6c" not in output


def test_a_user_error_is_printed_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_after(SkillrunError("the lid is closed", "open it"), monkeypatch) == 1
    assert capsys.readouterr().err == "error: the lid is closed\nhint: open it\n"


def test_a_full_disk_is_not_a_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_after(OSError(errno.ENOSPC, "No space left on device", "runs/a"), monkeypatch) == 1
    assert capsys.readouterr().err.startswith("error: runs/a: No space left on device\n")


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_after(KeyboardInterrupt(), monkeypatch) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.finding("FZ9", "FM3")
def test_a_bug_with_a_surrogate_in_its_message_is_written_to_a_log_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_after(UnicodeEncodeError("utf-8", "cut \ud83d", 4, 5, "surrogates not allowed"), monkeypatch) == 3
    assert exit_code_after(ZeroDivisionError("cut \ud83d"), monkeypatch) == 3
    paths = re.findall(r"please report it and attach (.*\.log)", capsys.readouterr().err)
    assert "ZeroDivisionError: cut \\ud83d" in Path(paths[1]).read_text(encoding="utf-8")


class Silent(Exception):
    """An exception that cannot be converted to text."""

    def __str__(self) -> str:
        raise ValueError("there are no words for it")


@pytest.mark.finding("FZ9")
def test_a_bug_without_a_message_or_a_log_file_is_still_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail_with_full_disk(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", fail_with_full_disk)
    assert exit_code_after(Silent(), monkeypatch) == 3
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "this is a bug in skillrun (" in err
    assert "which could not be written to a file (No space left on device)" in err


WINDOWS_PROGRAM = """
import sys
for name in ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
from skillrun.cli.main import main
sys.platform = "win32"
sys.exit(main(["list"]))
"""


def test_windows_is_rejected_with_a_message_before_unix_only_imports() -> None:
    process = subprocess.run([sys.executable, "-c", WINDOWS_PROGRAM], capture_output=True, text=True, check=False)
    message = "error: skillrun runs on Linux and macOS\nhint: on Windows, install and run it in WSL\n"
    assert (process.returncode, process.stdout, process.stderr) == (2, "", message)
