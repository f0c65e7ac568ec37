"""Prompts: the shared prefix, material, records, task and role, shortened to fit the model's window.

Sends nothing and writes nothing.
"""
