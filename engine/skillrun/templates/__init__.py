"""Templates and expressions: their syntax, the functions they offer, and their evaluation over plain values."""
