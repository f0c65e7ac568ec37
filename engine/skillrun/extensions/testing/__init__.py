"""Cases of workflows: what is given, what is expected, and what came of a run on the scripted model."""
