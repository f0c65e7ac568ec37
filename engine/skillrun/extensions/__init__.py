"""What the core does without: many workers, the language server, test cases, reports, outlines, and authoring commands.

The core imports no extension. `skillrun.registry` lists what extensions add, by name.
"""
