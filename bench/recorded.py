"""The replies of a run as a script, with which the scripted model answers it again: `python -m bench.recorded RUN`.

Prints the YAML that `--script` takes: a rule for each reply, in the order in which they came.
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
    """A rule for each reply. Raises SkillrunError where the journal cannot be read."""
    with closing(read_journal(run)) as journal:
        for entry in journal.entries("reply"):
            calls = [{"name": one["name"], "arguments": one["arguments"]} for one in entry.body["calls"]]
            said = {"calls": calls} if calls else {"text": entry.body["text"], "stop": entry.body["stop"]}
            yield {"address": entry.address, **said}


def main(arguments: list[str] | None = None) -> int:
    """Print the script; 1 where the run cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m bench.recorded", description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a run that is over")
    try:
        print(as_yaml(list(rules(parser.parse_args(arguments).run))), end="")
    except SkillrunError as error:
        print(f"{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
