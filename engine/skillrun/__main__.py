"""`python -m skillrun`: the same as `skillrun`."""

import sys
from pathlib import Path

# Python puts the folder that it is started in first on its path: a file of a project would be imported in the place of
# a library of that name. The command `skillrun` has no such entry.
if not sys.flags.safe_path and sys.path and sys.path[0] in ("", str(Path.cwd())):
    del sys.path[0]

from skillrun.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
