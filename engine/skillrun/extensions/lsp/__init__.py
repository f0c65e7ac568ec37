"""The language server: diagnostics, completion, hover, definitions, references and rename for editors.

The server checks files, and never runs a workflow.
"""
