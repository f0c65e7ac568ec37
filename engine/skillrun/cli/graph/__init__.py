"""`skillrun graph`: a workflow drawn as text, Mermaid or SVG, with the steps of its phases.

Reads definitions, and runs nothing.
"""
