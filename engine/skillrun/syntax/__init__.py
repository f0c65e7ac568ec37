"""Texts of authors with exact positions: files, YAML, markdown documents, and the problems that are shown in them.

Owns where everything stands. Knows no kind of file and no key, and imports nothing else of the language.
"""
