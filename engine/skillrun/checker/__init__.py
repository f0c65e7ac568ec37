"""Checks everything that a workflow uses and returns the program to run: names, conditions, inferred types, verbs.

Collects problems with positions. Works offline, and is not used while a workflow runs.
"""
