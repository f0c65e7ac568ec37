"""A run in Postgres, with the same promises as one on the disk; what many workers share.

The run's own row is the truth: who has the run, and which of its holders may still write. Nothing outside of this
folder speaks SQL, and nothing imports it but where a store is asked for: its libraries are an extra.
"""
