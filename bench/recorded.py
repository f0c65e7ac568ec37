"""Prints the replies of a run as a script for the scripted model: `python -m bench.recorded RUN`.

The output is the YAML that `--script` takes: a rule for each reply, in the order of the journal.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from skillrun.store.frontmatter import as_yaml
from skillrun.store.local.journal import read_journal
from skillrun.syntax.diagnostics import SkillrunError


def rules(run: Path) -> Iterator[dict[str, Any]]:
    """A rule for each reply. Raises SkillrunError if the journal cannot be read."""
    with closing(read_journal(run)) as journal:
        for entry in journal.entries("reply"):
            calls = [{"name": call["name"], "arguments": call["arguments"]} for call in entry.body["calls"]]
            reply = {"calls": calls} if calls else {"text": entry.body["text"], "stop": entry.body["stop"]}
            yield {"address": entry.address, **reply}


def main(arguments: list[str] | None = None) -> int:
    """Print the script. Returns 1 if the run cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m bench.recorded", description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    try:
        print(as_yaml(list(rules(parser.parse_args(arguments).run))), end="")
    except SkillrunError as error:
        print(f"{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
