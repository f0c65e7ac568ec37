"""Parses source files, YAML and markdown with exact positions, and reports problems in them.

Knows no file kinds and no keys, and imports no other package of the language.
"""
