"""The language server: diagnostics, completion, hover, definitions, references and rename for editors.

Checks files, and never runs a workflow.
"""
