"""Runs test cases of workflows on the scripted model, compares two versions of a workflow, and judges the results."""
