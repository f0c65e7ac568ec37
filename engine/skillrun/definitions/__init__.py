"""Parses the files of the language into frozen definitions, and declares the keys of each kind of file.

The package reads one file at a time. `checker` verifies that referenced names exist.
"""
