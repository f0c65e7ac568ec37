"""The command line: one module per command. The only part that prints or exits; heavy imports stand in functions."""
