"""`skillrun report`, a run as one HTML file that loads nothing, and `skillrun diff`, the comparison of two runs.

Formats what `cli.story` and `cli.calls` read from a run.
"""
