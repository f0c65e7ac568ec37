"""The data of a run: journal, artifacts, summaries, state, lease and kill points.

Defines the interfaces that every store implements. Knows nothing of steps, prompts or models.
"""
