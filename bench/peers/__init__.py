"""Other engines doing the same work, each in its documented use. They run in the benchmark's own environment."""
