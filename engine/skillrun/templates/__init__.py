"""What stands behind `expressions`: reading templates, vetting them, and running them over plain values."""
