"""Timestamps for the records of a run."""

from datetime import UTC, datetime


def utc_timestamp() -> str:
    """Return the current time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
