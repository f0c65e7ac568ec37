"""What the files of the language hold: their keys, and the frozen definitions that one file is read into.

Looks at one file at a time; whether what it refers to exists is for `check`.
"""
