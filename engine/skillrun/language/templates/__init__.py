"""What stands behind `expressions`: reading templates, compiling them, and the sandbox that they run in."""
