"""The library: where files are found, which layer has priority, the merged configuration, and privileged settings.

Loads files and runs nothing. Checking a workflow as a whole is the task of `checker`.
"""
