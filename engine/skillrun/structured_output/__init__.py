"""What a reply to a shape says: one JSON value, all valid values, what is left of broken JSON, a record at the end.

Owns the reading of replies as text. Asks nobody again, and decides nothing about what is missing.
"""
