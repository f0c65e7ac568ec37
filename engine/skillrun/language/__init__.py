"""The language that authors write: files with positions, kinds, shapes, expressions, the library and its check.

Nothing here runs a workflow or opens a connection.
"""
