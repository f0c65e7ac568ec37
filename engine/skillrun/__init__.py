"""skillrun runs workflows written in markdown: a build whose steps are model calls, answered from a journal."""

__version__ = "0.1.0"
