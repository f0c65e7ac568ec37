"""A run on the disk: its folder, the journal in SQLite, the lock, the transcript, and folders that are older.

The only room that opens a database or a path of a run. What others need of it is a protocol of the room around it.
"""
