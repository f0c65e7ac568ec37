"""Running a workflow: the interpreter, its scope and steps, and what a run keeps on disk."""
