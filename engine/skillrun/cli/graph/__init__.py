"""`skillrun graph`: draws a workflow and the steps of its phases as text, Mermaid or SVG."""
