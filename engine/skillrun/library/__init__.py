"""The library: the search path, the priority of layers, the merged configuration, and privileged settings.

Loads files and runs nothing. `checker` checks whole workflows.
"""
