"""Outlines of source code with tree-sitter. Without its packages, only text files have outlines."""
