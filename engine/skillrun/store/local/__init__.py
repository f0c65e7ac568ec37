"""Runs in local folders: the journal in SQLite, the lock, the transcript, and migration of older folders.

Only this package opens SQLite databases and paths of runs. Other packages use the interfaces of `store`.
"""
