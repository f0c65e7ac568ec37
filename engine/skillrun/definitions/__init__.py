"""Parses the files of the language into frozen definitions, and declares their keys.

Reads one file at a time. `checker` verifies that referenced names exist.
"""
