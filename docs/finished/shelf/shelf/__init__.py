"""Things that neighbours lend to each other."""

__version__ = "0.4"
