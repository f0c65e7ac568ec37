"""Read-only tools confined to one folder: read, search, list, outline."""
