"""Types of values: shape notation, JSON Schema, declared fields, records and sample values.

This package describes values, and checks values against their descriptions. It does not know workflows or libraries.
"""
