"""Only one process holds a run; the error for a second one names the holder."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillrun.store.local.lock import LocalLease
from skillrun.syntax.diagnostics import SkillrunError

PROGRAM = """
import sys
from pathlib import Path
from skillrun.store.local.lock import LocalLease
with LocalLease(Path(sys.argv[1])).hold():
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(run: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_with_the_holder_until_the_holder_dies(tmp_path: Path) -> None:
    with start_holder(tmp_path) as process:
        with (
            pytest.raises(SkillrunError, match=rf"process {process.pid} on .+ since \d{{4}}-\d\d-\d\dT\d\d:") as caught,
            LocalLease(tmp_path).hold(),
        ):
            pass
        assert "Wait for it to end" in caught.value.next_step
        process.kill()
        process.communicate()
    assert (tmp_path / ".run" / "owner.json").exists()
    with LocalLease(tmp_path).hold():
        assert f'"pid": {os.getpid()}' in (tmp_path / ".run" / "owner.json").read_text()


def test_a_run_can_be_held_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), LocalLease(tmp_path).hold():
        raise ZeroDivisionError
    with (
        LocalLease(tmp_path).hold(),
        pytest.raises(SkillrunError, match=f"process {os.getpid()} on"),
        LocalLease(tmp_path).hold(),
    ):
        pass
    assert not (tmp_path / ".run" / "owner.json").exists()


@pytest.mark.finding("FM12")
def test_an_owner_file_that_cannot_be_removed_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink = os.unlink

    def fail_for_owner_file(name: str, *, dir_fd: int | None = None) -> None:
        if name == "owner.json":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", fail_for_owner_file)
    with LocalLease(tmp_path).hold():
        pass
    with LocalLease(tmp_path).hold():
        assert (tmp_path / ".run" / "owner.json").exists()


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_a_run_stays_held_without_a_valid_owner_file(tmp_path: Path, content: str | None) -> None:
    with LocalLease(tmp_path).hold():
        owner = tmp_path / ".run" / "owner.json"
        if content is None:
            owner.unlink()
        else:
            owner.write_text(content)
        with pytest.raises(SkillrunError, match="another process"), LocalLease(tmp_path).hold():
            pass


def test_only_the_owner_can_read_the_owner_file(tmp_path: Path) -> None:
    with LocalLease(tmp_path).hold():
        assert (tmp_path / ".run").stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / ".run").iterdir()} == {0o600}
