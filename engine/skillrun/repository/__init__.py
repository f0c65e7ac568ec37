"""Read-only tools for one folder: read, search, list, outline. No path leads out of the folder."""
