"""Checks of single steps, one function per verb: what the step needs, asks and reads, and the type of its result.

Phases and workflows as a whole are checked by the modules above.
"""
