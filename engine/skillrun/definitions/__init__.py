"""Files of the language as data: their keys, and the frozen definitions that a file is read into.

Reads one file at a time. Whether referenced names exist is the task of `checker`.
"""
