"""Checks single steps, with one function per verb that returns the type of the step's result."""
