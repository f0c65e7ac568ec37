"""Parses source files, YAML and markdown with exact positions, and reports problems in them.

This package does not know the kinds of files or their keys. It imports no other package of the language.
"""
