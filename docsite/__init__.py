"""Builds the documentation site: pages generated from the program's tables, and the input of the site generator."""
