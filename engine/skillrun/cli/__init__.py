"""The command line, one module per command. Only this package prints or exits. Slow imports are inside functions."""
