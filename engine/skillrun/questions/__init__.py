"""Asks users questions: prepared answers, defaults, the terminal, and forms. Does not know runs."""
