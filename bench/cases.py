"""Generated cases for `skillrun test`: of a shipped workflow, each with another request, all of which hold."""

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
    """So many cases of a plan in a mode."""
    place = folder / "tests" / "plan"
    place.mkdir(parents=True)
    for count in range(number):
        (place / f"case-{count}.md").write_text(CASE.format(number=count, mode=mode), encoding="utf-8")
