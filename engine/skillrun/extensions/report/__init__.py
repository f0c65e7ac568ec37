"""`skillrun report` writes a run as one self-contained HTML file; `skillrun diff` compares two runs.

Both format the data that `cli.run_summary` and `cli.call_selection` read.
"""
