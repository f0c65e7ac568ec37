"""What every lease promises: one holder at a time, and nothing written by who has lost the run."""

from __future__ import annotations

import asyncio

import pytest

from skillrun.store.lease import LeaseLost
from skillrun.syntax.diagnostics import SkillrunError
from tests.contract.conftest import Store


def test_a_run_is_held_by_one_at_a_time_and_let_go_at_the_end_also_by_an_error(store: Store) -> None:
    other = store.other_lease()
    assert not other.is_held()

    def fails() -> None:
        with store.lease.hold():
            assert other.is_held()
            with pytest.raises(SkillrunError, match=r"is held|is being run by"), other.hold():
                pass
            assert other.is_held()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not other.is_held()
    with other.hold():
        assert store.lease.is_held()


def test_who_holds_a_run_may_write(store: Store) -> None:
    with store.lease.hold() as guard:
        guard.check()
        guard.check(verify_path=False)
        store.files.write("a.md", "mine")
        asyncio.run(store.journal.record("reply", "a", "1", {}))
    assert store.files.read("a.md") == b"mine"
    assert store.journal.find("reply", "a", "1") == {}


def test_who_has_lost_a_run_writes_nothing_more_and_sends_nothing(store: Store) -> None:
    store.files.write("a.md", "before")
    with store.lease.hold() as guard:
        store.lose()
        for here in (True, False):
            with pytest.raises(LeaseLost):
                guard.check(verify_path=here)
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
