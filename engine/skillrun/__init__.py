"""skillrun runs workflows written in markdown: a build whose steps are model calls, answered from a journal."""

from skillrun.version import __version__ as __version__
