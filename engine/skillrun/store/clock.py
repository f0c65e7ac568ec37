"""The time as what a run keeps says it."""

from datetime import UTC, datetime


def moment() -> str:
    """Now, in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
