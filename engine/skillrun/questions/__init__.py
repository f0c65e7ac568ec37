"""How users are asked: prepared answers, defaults, the terminal, and forms. Knows nothing of runs."""
