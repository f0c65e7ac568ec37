"""`skillrun report`, a run as one self-contained HTML file, and `skillrun diff`, the comparison of two runs.

Formats what `cli.run_summary` and `cli.call_selection` read from a run.
"""
