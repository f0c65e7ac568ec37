"""`python -m skillrun`: the same as `skillrun`."""

import sys

from skillrun.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
