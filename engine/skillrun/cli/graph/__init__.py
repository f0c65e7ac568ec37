"""`skillrun graph`: a workflow drawn as text, Mermaid or SVG, with the steps of its phases.

Reads definitions only: nothing is run, and no model is called.
"""
