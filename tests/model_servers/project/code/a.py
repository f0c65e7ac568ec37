"""The limit."""

LIMIT = 42
