"""A stored request that anybody may have changed is read only if it is valid."""

from __future__ import annotations

import pytest

from skillrun.extensions.workers.bundle import InvalidRun
from skillrun.extensions.workers.postgres.queue import RunSubmission


@pytest.mark.finding("FA9")
def test_a_request_with_too_many_values_is_not_parsed() -> None:
    assert RunSubmission.from_json('{"inputs": {"rows": [' + "{}," * 10 + "{}]}}").inputs["rows"] == [{}] * 11
    with pytest.raises(InvalidRun, match="it has more than 1,000,000 values"):
        RunSubmission.from_json('{"inputs": {"rows": [' + "{}," * 500_000 + "{}]}}")
