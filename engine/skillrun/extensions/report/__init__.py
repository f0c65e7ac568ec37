"""`skillrun report` writes a run as one self-contained HTML file; `skillrun diff` compares two runs.

Both commands read runs through `store.run_view`.
"""
