"""Each example of the README, typed in order, prints what it shows."""

import io
import os
import re
import shlex
import tempfile
import unittest
from contextlib import redirect_stdout
from datetime import date
from pathlib import Path

from shelf.cli import main

README = Path(__file__).parents[1] / "README.md"
DAYS = {"back": date(2026, 2, 24)}


class Readme(unittest.TestCase):
    def test_every_example(self) -> None:
        (block,) = re.findall(r"```\n(\$ shelf.*?)```", README.read_text("utf-8"), re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SHELF_DB"] = f"{folder}/shelf.db"
            for part in block.split("$ shelf ")[1:]:
                typed, _, shown = part.partition("\n")
                words = shlex.split(typed)
                seen = io.StringIO()
                with redirect_stdout(seen):
                    self.assertEqual(main(words, lambda: DAYS.get(words[0], date(2026, 2, 20))), 0)
                self.assertEqual(seen.getvalue(), shown)


if __name__ == "__main__":
    unittest.main()
