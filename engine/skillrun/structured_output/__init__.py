"""Parses structured data from a model's reply: one JSON value, all valid items, broken JSON, or a trailing record.

This package never calls a model, and does not decide what happens if data is missing.
"""
