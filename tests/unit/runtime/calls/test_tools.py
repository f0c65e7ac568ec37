"""`Lookup` finds the records of summaries and ignores malformed ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skillrun.runtime.calls.tools import look_up, lookup_tool, recorded_entries
from skillrun.scoring.compaction import estimate_tokens

pytestmark = pytest.mark.row("P9")


def phase(*summaries: dict[str, Any], dropped: tuple[str, ...] = ()) -> Any:
    phases = {f"p{number}": {"summary": {"phase": f"p-{number}", **one}} for number, one in enumerate(summaries)}
    gone = [{"kind": "risks_identified", "record": {"id": one}} for one in dropped]
    section = SimpleNamespace(name="Lookup", text=SimpleNamespace(value="Looks up.\n- `id`: The id."))
    text = SimpleNamespace(document=SimpleNamespace(sections=[section]))
    library = SimpleNamespace(text=lambda _name: text)
    run = SimpleNamespace(program=SimpleNamespace(library=library))
    account = SimpleNamespace(prompts=SimpleNamespace(dropped_records=gone))
    return SimpleNamespace(names={"phases": phases}, record=account, run=run)


def decided(name: Any, **more: Any) -> dict[str, Any]:
    return {"key_decisions": [{"id": name, "decision": "So.", **more}]}


def test_a_later_record_replaces_an_earlier_one_and_both_are_told() -> None:
    record = recorded_entries(phase(decided("D-1"), decided("D-1", confidence="HIGH")))
    assert [one.status for one in record] == ["replaced by that of p-1", ""]
    assert look_up(phase(decided("D-1"), decided("D-1")), {"id": "d-1"}, 500).count("decision of") == 2


def test_a_lookup_finds_every_record_with_an_id_that_two_phases_use() -> None:
    both = phase(decided("D-1"), decided("D-1", decision="No."), decided("D-2", resolves=["P-1-D-1"]))
    assert look_up(both, {"id": "d-1"}, 500) == (
        "D-1: decision of p-0\n  decision: So.\n\n"
        "P-1-D-1: decision of p-1 under the id D-1, replaced by D-2\n  decision: No."
    )
    assert look_up(both, {"id": "P-1-D-1"}, 500).startswith("P-1-D-1: decision of p-1")


@pytest.mark.parametrize("odd", [None, 7, "", ["a"], {"a": 1}])
def test_what_is_no_record_is_passed_over(odd: Any) -> None:
    strange = phase(
        {"key_decisions": odd}, {"open_questions": [odd, {"id": odd}]}, decided(odd), decided("D", resolves=odd)
    )
    assert [one.id for one in recorded_entries(strange)] in (["D"], ["a", "D"])
    assert look_up(strange, {"id": "D"}, 500).startswith("D: decision of p-3")
    assert look_up(strange, {"id": odd}, 500).startswith("error: ")


def test_an_answer_has_no_more_than_its_room_and_ids_are_bounded() -> None:
    many = phase({"risks_identified": [{"id": f"R-{n}", "risk": "It breaks. " * 50} for n in range(200)]})
    answer = look_up(many, {"id": ", ".join(f"R-{n}" for n in range(200))}, 300)
    assert estimate_tokens(answer) <= 300
    assert look_up(many, {"id": "X" * 10**6}, 10**6).endswith(" and 140 more")
    assert len(look_up(many, {"id": "X" * 10**6}, 10**6)) < 1500


def test_it_is_offered_where_something_is_not_shown() -> None:
    assert lookup_tool(phase(decided("D-1"))) == ()
    assert lookup_tool(phase()) == ()
    (spec,) = lookup_tool(phase({"risks_identified": [{"id": "R-1", "risk": "It breaks."}]}, dropped=("R-1",)))
    assert (spec.name, spec.description) == ("Lookup", "Looks up.")
    assert spec.parameters["properties"]["id"]["description"] == "The id."
    asked = {"open_questions": [{"id": "Q-1", "question": "Who?"}]}
    assert lookup_tool(phase(asked, decided("D-1", resolves=["Q-1"])))
    assert lookup_tool(phase(asked, decided("D-1", resolves="Q-1")))
    assert not lookup_tool(phase(asked, decided("D-1", resolves=["Q-2"])))
