"""The time as what a run keeps says it."""

from datetime import UTC, datetime


def utc_timestamp() -> str:
    """Now, in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
