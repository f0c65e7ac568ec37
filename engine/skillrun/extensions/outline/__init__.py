"""Outlines of source code with tree-sitter. Without its packages, only texts have outlines."""
