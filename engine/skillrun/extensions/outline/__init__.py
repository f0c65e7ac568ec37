"""Outlines source code with tree-sitter. Without the extra `outline`, only text files have outlines."""
