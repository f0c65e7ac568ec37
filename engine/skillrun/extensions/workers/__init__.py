"""Many machines on one store: what travels with a run, who works on it, and how much at a time.

Owns no truth: the run's row in the store has it. Knows no commands and prints nothing.
"""
