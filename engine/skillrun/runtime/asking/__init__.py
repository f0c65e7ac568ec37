"""Asks a run's questions, and journals the answers by round.

Answers come from the terminal, from a form, or from files that the user adds. This package decides how the run
continues after an answer; the package `questions` asks the user.
"""
