"""Parses structured data from a model's reply.

The data is a single JSON value, the valid items of a list, JSON that must be repaired, or a record at the end of the
text.

This package never calls a model, and does not decide what happens if data is missing.
"""
