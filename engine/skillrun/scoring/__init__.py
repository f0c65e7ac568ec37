"""Pure functions that measure agreement and repetition in replies, aggregate replies, and fit text into a budget."""
