"""Spans and metrics of a run for OpenTelemetry, made from its events."""
