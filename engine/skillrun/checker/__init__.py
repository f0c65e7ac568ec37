"""Checks a workflow and everything that it uses, and returns the program to run.

Collects problems with their positions. Works offline, and is not used during a run.
"""
