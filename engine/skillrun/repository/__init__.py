"""Tools that a member may use on a repository: they read, within one folder, and never write."""
