"""What a prompt is made of: its beginning, material, what is on record, task, role, and what of it has room.

Owns the order and the fitting of texts. Sends nothing and writes nothing.
"""
