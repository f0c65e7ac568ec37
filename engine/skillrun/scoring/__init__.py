"""Pure functions over replies: agreement, repetition, verdicts, and fitting text into a budget. No input or output."""
