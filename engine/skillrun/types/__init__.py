"""What values may be: types, the notation of shapes, JSON Schema, declared fields, and a sample of each.

Owns the description of values and the check of one value against it. Knows no workflow and no library.
"""
