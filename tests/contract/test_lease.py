"""The contract of every lease: one holder at a time, and no writes by a process that has lost the run."""

from __future__ import annotations

import asyncio

import pytest

from skillrun.store.files import LeaseLost
from skillrun.syntax.diagnostics import SkillrunError
from tests.contract.conftest import Store


def test_a_run_has_one_holder_and_is_released_even_after_an_error(store: Store) -> None:
    other = store.other_lease()
    assert not other.is_held()

    def hold_and_fail() -> None:
        with store.lease.hold():
            assert other.is_held()
            with pytest.raises(SkillrunError, match=r"is held|is being run by"), other.hold():
                pass
            assert other.is_held()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hold_and_fail()
    assert not other.is_held()
    with other.hold():
        assert store.lease.is_held()


def test_the_holder_of_a_run_can_write(store: Store) -> None:
    with store.lease.hold() as guard:
        guard.check()
        guard.check(verify_path=False)
        store.files.write("a.md", "mine")
        asyncio.run(store.journal.record("reply", "a", "1", {}))
    assert store.files.read("a.md") == b"mine"
    assert store.journal.find("reply", "a", "1") == {}


def test_a_former_holder_cannot_write_or_send(store: Store) -> None:
    store.files.write("a.md", "before")
    with store.lease.hold() as guard:
        store.lose()
        for verify_path in (True, False):
            with pytest.raises(LeaseLost):
                guard.check(verify_path=verify_path)
        for write in (
            lambda: store.files.write("a.md", "after"),
            lambda: store.files.write_new("b.md", "after"),
            lambda: store.files.move("a.md", "c.md"),
            lambda: store.files.remove("a.md"),
        ):
            with pytest.raises(LeaseLost):
                write()
        with pytest.raises(LeaseLost):
            asyncio.run(store.journal.record("sent", "a", "1", {}))
        with pytest.raises(LeaseLost):
            asyncio.run(store.journal.record("reply", "a", "1", {"text": "came too late"}))
        assert isinstance(store.journal.write_error(), LeaseLost)
        with pytest.raises(LeaseLost):
            store.journal.check()
    assert store.files.read("a.md") == b"before"
    assert [name for name, kind in store.files.entries() if kind == "file"] == ["a.md"]
    assert (store.journal.find("sent", "a", "1"), store.journal.find("reply", "a", "1")) == (None, None)
