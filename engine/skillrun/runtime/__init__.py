"""Executes a workflow: session, interpreter, steps, prompts, and the questions of a run."""
