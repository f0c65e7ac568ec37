"""Types of values: shape notation, JSON Schema, declared fields, records and sample values.

Describes values and checks a value against its description. Knows no workflows and no libraries.
"""
