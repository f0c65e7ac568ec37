"""`skillrun report` writes a run as one self-contained HTML file; `skillrun diff` compares two runs.

Both format the read model of a run, `store.run_view`.
"""
