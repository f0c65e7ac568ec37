"""The commands for shared stores and workers."""
