"""Checks single steps. One function per verb checks a step and returns the type of its result."""
