"""Types of values: the notation of shapes, JSON Schema, declared fields, records, and sample values.

Describes values and checks one value against its description. Knows no workflow and no library.
"""
