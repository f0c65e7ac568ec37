"""Test cases of workflows on the scripted model, comparison of two versions, and judging of their results."""
