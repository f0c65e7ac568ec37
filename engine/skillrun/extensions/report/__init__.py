"""`skillrun report`: a run as one HTML file that can be read anywhere and loads nothing.

Owns how a run is laid out for a reader; what there is to say is gathered by `story.py` and `calls.py` beside it.
"""
