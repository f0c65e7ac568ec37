"""Runs in local folders: the journal in SQLite, the lock, the transcript, and migration of older folders.

Only this package opens SQLite or a path of a run. Other packages use the interfaces of `store`.
"""
