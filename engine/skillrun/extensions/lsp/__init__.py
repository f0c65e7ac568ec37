"""The language server: completion, hover, definitions, references, rename and problems for editors.

Checks files, and never runs a workflow.
"""
