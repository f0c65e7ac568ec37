"""Templates and expressions: syntax, built-in filters and functions, and evaluation over plain values."""
