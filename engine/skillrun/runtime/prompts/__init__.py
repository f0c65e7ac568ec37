"""Assembles prompts, and shortens them to fit the model's window. Sends nothing and writes nothing."""
