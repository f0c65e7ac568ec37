"""Outlines source code with tree-sitter. If its packages are not installed, only text files have outlines."""
