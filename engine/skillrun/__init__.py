"""skillrun runs multi-agent workflows written in markdown. A journal records every model call, so that runs can
resume."""

from skillrun.version import __version__ as __version__
