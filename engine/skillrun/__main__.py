"""`python -m skillrun`: the same as `skillrun`."""

import sys
from pathlib import Path

# Python puts the current folder first on its path, so a file of a project could shadow a library of the same name.
# The command `skillrun` has no such entry.
if not sys.flags.safe_path and sys.path and sys.path[0] in ("", str(Path.cwd())):
    del sys.path[0]

from skillrun.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
