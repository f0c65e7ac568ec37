"""Builds the site of `docs/`: `python -m docsite`, or `make docs`."""

import argparse
import sys

from docsite.build import build
from docsite.foreign import foreign_hosts
from docsite.staging import TOP, BrokenSite

FOLDER = TOP / ".site"


def main() -> int:
    """Build the site. Returns 1 if a link is broken or a page would load something from another host."""
    argparse.ArgumentParser(
        prog="python -m docsite", description="Builds the site of docs/ into .site/site."
    ).parse_args()
    try:
        site = build(FOLDER)
    except BrokenSite as broken:
        print(broken, file=sys.stderr)
        return 1
    foreign = foreign_hosts(site)
    for page, address in foreign:
        print(f"error: {page} loads {address}", file=sys.stderr)
    if not foreign:
        print(f"the site is in {site}: open index.html; its search needs a server: python3 -m http.server -d {site}")
    return 1 if foreign else 0


if __name__ == "__main__":
    sys.exit(main())
