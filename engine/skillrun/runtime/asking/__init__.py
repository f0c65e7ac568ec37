"""The questions of a run: recorded by round, answered in the terminal, in forms, or by files that the user adds.

Decides what an answer leads to. How a user is asked is the task of `questions`.
"""
