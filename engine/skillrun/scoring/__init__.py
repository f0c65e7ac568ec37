"""Pure functions over replies: agreement, repetition, aggregation, and fitting text into a token budget."""
