"""Parses structured data from a model's reply: one JSON value, every valid item, broken JSON, or a trailing record.

Never calls a model, and does not decide what happens if data is missing.
"""
