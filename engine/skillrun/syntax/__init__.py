"""Text with exact positions: source files, YAML, markdown documents, and the problems shown in them.

Knows no kind of file and no key, and imports no other package of the language.
"""
