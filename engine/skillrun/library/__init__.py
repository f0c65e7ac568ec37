"""The library: where files are found, which layer wins, the merged config, and what a project's files ask for.

Owns the roots and what is loaded from them. Runs nothing, and checks no workflow as a whole.
"""
