"""A few cases of each kind of fault. `make chaos` runs thousands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.faults import archives, cut_responses, damage, disk, edits, kills, names, numbers, owners, providers, rows
from tests.faults.__main__ import FAULTS, MOST, Places, main, memory
from tests.faults.processes import failing_disk
from tests.faults.world import World, pick
from tests.property.runs import folder

pytestmark = pytest.mark.slow
SEED = 8


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    with folder() as path, ExitStack() as stack:
        yield Places(path, stack, failing_disk(path))


@pytest.fixture
def world(places: Places) -> World:
    return places.world()


@pytest.mark.row("X4")
@pytest.mark.finding("FM2", "FM4", "FM9", "FM12")
def test_a_full_or_broken_disk_loses_nothing(world: World) -> None:
    if not world.forks.fails:
        pytest.skip("disk faults need Linux and a C compiler")
    cases = list(disk.cases(world, Random(SEED)))
    assert len(cases) > 1000
    for case in pick(cases, 10):
        disk.hold(world, case)


@pytest.mark.row("X4")
def test_a_killed_process_loses_nothing(world: World) -> None:
    for case in islice(kills.cases(world, Random(SEED)), 6):
        kills.hold(world, case)


@pytest.mark.finding("FM14")
def test_a_flipped_bit_or_a_missing_end_in_a_run_file_is_detected(world: World) -> None:
    for cases in (damage.flips, damage.cuts):
        for case in islice(cases(world, Random(SEED)), 6):
            damage.hold(world, case)


@pytest.mark.finding("FM10")
def test_only_one_of_twenty_processes_holds_a_run(world: World) -> None:
    for case in islice(owners.cases(world, Random(SEED)), 1):
        owners.hold(world, case)


def test_user_edits_during_a_run_are_kept(world: World) -> None:
    last = world.legs["begin"].points.index("rename three.md: before") + 1  # before it is overwritten
    for case in (f"begin {last} notes/three.md saved", *islice(edits.cases(world, Random(SEED)), 3)):
        edits.hold(world, case)


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.finding("FM3", "FM5", "FM7", "FM8")
def test_a_run_ends_with_a_message_and_can_resume_after_any_bad_response(places: Places) -> None:
    cases = [case for case in providers.cases(places.providers(), Random(SEED)) if not case.startswith("responses ")]
    for case in pick(cases, 4):
        providers.hold(places.providers(), case)


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_cut_response_is_not_accepted_as_complete() -> None:
    cut_responses.hold(*islice(cut_responses.cases(Random(SEED)), 30))


@pytest.mark.finding("FS6", "FS8")
def test_changed_bundles_and_packs_give_no_other_files(places: Places) -> None:
    at = places.archives()
    for case in islice(archives.bundles(at, Random(SEED)), 100):
        archives.hold_bundle(at, case)
    for case in islice(archives.packs(at, Random(SEED)), 20):
        archives.hold_pack(at, case)


@pytest.mark.finding("FS12", "FS13")
def test_commands_read_any_row(postgres: None, places: Places) -> None:
    for case in islice(rows.cases(places.rows(), Random(SEED)), 20):
        rows.hold(places.rows(), case)


@pytest.mark.finding("FS4", "FS12")
def test_a_hostile_name_leads_nowhere_else(tmp_path: Path) -> None:
    for case in islice(names.cases(Random(SEED)), 20):
        names.hold(tmp_path, case)


@pytest.mark.finding("FD7")
def test_commands_read_any_number(places: Places) -> None:
    for case in islice(numbers.cases(places.numbers(), Random(SEED)), 40):
        numbers.hold(places.numbers(), case)


def test_the_full_fault_tests_refuse_unknown_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert set(MOST) == set(FAULTS)
    assert memory() is None or Path(memory() or "").is_dir()
    assert main({"CHAOS_ONLY": "moon"}) == 2
    assert "CHAOS_ONLY is a list of disk" in capsys.readouterr().out
