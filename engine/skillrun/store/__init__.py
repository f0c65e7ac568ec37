"""What a run keeps: journal, artifacts, summaries, state, lock and checkpoints, and how older ones are read.

The only room that touches the database and the paths of a run. Knows nothing of steps, prompts or models.
"""
