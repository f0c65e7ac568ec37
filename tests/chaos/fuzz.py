"""A coverage-guided fuzzer, `make fuzz`: no bytes in a file or reply may make the parsers raise.

The first byte of an input selects the parser of the rest: that of replies, or one of markdown files, which also checks
and renders their templates. Failures are written to `.chaos/`; `make fuzz INPUT=.chaos/crash-…` repeats one.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import atheris

with atheris.instrument_imports(include=["skillrun.language", "skillrun.scoring"]):
    from skillrun.checker.inference import Inference
    from skillrun.definitions.parse import parse_bank, parse_phase, parse_protocol, parse_workflow
    from skillrun.definitions.roles import parse_agent_skill, parse_role
    from skillrun.structured_output.values import parse_reply
    from skillrun.syntax.diagnostics import ParsingStopped, Problems
    from skillrun.syntax.document import parse_document
    from skillrun.syntax.source import Document, Source
    from skillrun.templates.expressions import RenderError, compile_string
    from skillrun.types.schemas import Shape
    from skillrun.types.types import ANY

REPOSITORY: Final = Path(__file__).parents[2]
FOUND: Final = REPOSITORY / ".chaos"
READERS: Final = (parse_workflow, parse_phase, parse_protocol, parse_role, parse_agent_skill, parse_bank)
NAMES: Final[dict[str, Any]] = {
    **{name: {"a": {"b": "text"}, "list": [1, "two", {"three": 3.5}], "none": None} for name in ("inputs", "config")},
    "findings": [{"title": f"t{at}", "level": at % 3} for at in range(5)],
    "text": "Some words, and some more.\n## A heading\nBelow it.",
}
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "findings": {"type": "array", "items": {"type": "object", "properties": {"title": {"type": "string"}}}},
        "score": {"type": "integer", "minimum": 0, "maximum": 100},
    },
    "required": ["findings"],
    "additionalProperties": False,
}


def fuzz_one(data: bytes) -> None:
    """Test fuzz_one input; the fuzzer calls this."""
    text = data[1:].decode("utf-8", "replace")
    if data[:1] == b"r":
        check_reply(text)
    else:
        check_file(text, READERS[data[0] % len(READERS)] if data else READERS[0])


def check_reply(text: str) -> None:
    value, errors = parse_reply(text, SCHEMA)
    assert errors or not Shape(SCHEMA).check(value), "a reply without errors fits"


def check_file(text: str, read: Any) -> None:
    source, problems = Source.of(text), Problems()
    try:
        document = parse_document(source, problems)
        if document is not None:
            read(document, "name", problems)
            check_templates(document, problems)
    except ParsingStopped:
        assert problems.has_errors, "parsing stops only after an error"
    lines = source.text.split("\n")
    for problem in problems:
        assert 1 <= problem.line <= len(lines), problem
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, problem


def check_templates(document: Document, problems: Problems) -> None:
    """Infer the types of the sections, and render them."""
    for text in (document.preface, *(section.text for section in document.sections)):
        template = compile_string(text, problems)
        if template is None:
            continue
        Inference(template, dict.fromkeys(NAMES, ANY), problems).check_as_text()
        with suppress(RenderError):
            template.render(NAMES)
            template.render_text(NAMES)


def write_corpus(folder: Path) -> None:
    """Write the initial inputs: the shipped files, and some replies."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = {"workflows": 0, "skills": 1, "roles": 3}
    for kind, number in kinds.items():
        for path in sorted((REPOSITORY / kind).rglob("*.md")):
            target = folder / path.relative_to(REPOSITORY).as_posix().replace("/", "-")
            target.write_bytes(bytes([number]) + path.read_bytes()[:4_000])
    (folder / "reply").write_bytes(b'rHere it is:\n```json\n{"findings": [{"title": "a"}], "score": 3}\n```\n')
    (folder / "list").write_bytes(b'r[{"title": "a"}, {"title": null}] and {"score": 1e3}')


def main() -> None:
    """Run for FUZZ_SECONDS with CHAOS_SEED, or run the given input."""
    seconds, seed = os.environ.get("FUZZ_SECONDS", "90"), os.environ.get("CHAOS_SEED", "8")
    sys.stderr.write(f"fuzz: seed {seed}, {seconds} seconds\n")
    limits = [f"-seed={seed}", f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=1024", "-max_len=4000"]
    inputs = sys.argv[1:]
    if not inputs:
        write_corpus(FOUND / "corpus")
        inputs = [str(FOUND / "corpus")]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={FOUND}/", *inputs], fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
