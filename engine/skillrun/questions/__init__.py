"""How questions reach a human: prepared answers, defaults, the terminal, and forms. Knows nothing of running."""
