"""Generates passing cases for `skillrun test` on a shipped workflow, each with a different request."""

from pathlib import Path

CASE = """---
inputs: {{request: Mend mistake {number} in the heading of the start page, mode: {mode}}}
expect:
  artifacts: {{plan.md: {{matches: "^# Plan"}}}}
  prompts:
    "plan/clarify/*": {{contains: Mend mistake {number} in}}
  price: 5
---
"""


def write(folder: Path, number: int, mode: str) -> None:
    """Write `number` cases of `plan` in a mode."""
    cases = folder / "tests" / "plan"
    cases.mkdir(parents=True)
    for count in range(number):
        (cases / f"case-{count}.md").write_text(CASE.format(number=count, mode=mode), encoding="utf-8")
