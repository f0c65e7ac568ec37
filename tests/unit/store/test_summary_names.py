"""The names of a summary's fields: the project's own, and those of the contract in their place."""

import pytest

from skillrun.store.summaries import read_summary

CONTRACT = {"stage": "research", "stage_number": 2, "artifacts_written": ["notes.md"]}
OWN = {"phase": "research", "number": 2, "artifacts": ["notes.md"]}
REST = {"status": "completed", "checkpoint": "digest", "summary": "Done.", "flags": {}}


@pytest.mark.row("R4")
@pytest.mark.finding("FT21")
@pytest.mark.parametrize("names", [OWN, CONTRACT, {**CONTRACT, **OWN}])
def test_the_contract_names_are_accepted_in_place_of_the_own_names(names: dict[str, object]) -> None:
    summary, invalid = read_summary({**REST, **names})
    assert (summary.phase, summary.number, summary.artifacts) == ("research", 2, ["notes.md"])
    assert (summary.missing_keys, invalid) == ([], [])


@pytest.mark.row("R4")
@pytest.mark.finding("FT21")
def test_an_invalid_value_under_a_contract_name_is_reported() -> None:
    summary, invalid = read_summary({**REST, **CONTRACT, "stage_number": "two", "artifacts_written": ["../a.md"]})
    assert (summary.number, summary.artifacts) == (0, [])
    assert [path[0] for path, _ in invalid] == ["number", "artifacts"]
    assert read_summary({**REST, **CONTRACT, **OWN, "stage": "draft"})[0].phase == "research"
