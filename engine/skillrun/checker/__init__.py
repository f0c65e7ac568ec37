"""The check of everything a workflow reaches, and the program that comes of it: names, facts, inferred types, verbs.

Collects problems with positions; offline, and without spending anything. Nothing here runs at run time.
"""
