"""What is told of a mistake of our own: what happened, and the file with its trace that can be attached to a report."""

from __future__ import annotations

import os

from skillrun.cli.output import Output


def write_crash_report(error: Exception) -> tuple[str, str]:
    """What happened, and what to do; the trace is written to a file, or printed where that cannot be."""
    import tempfile
    import traceback

    from skillrun.models.redaction import Redactor

    redactor = Redactor.from_environment(os.environ)
    trace = redactor.redact_known_keys("".join(traceback.format_exception(error)))
    summary = redactor.redact_known_keys(traceback.format_exception_only(error)[0].strip().split("\n")[0])
    hint = "please report it"
    try:
        log = tempfile.NamedTemporaryFile(  # noqa: SIM115 (it is closed below, and kept)
            "w", encoding="utf-8", errors="backslashreplace", prefix="skillrun-", suffix=".log", delete=False
        )
        with log:
            log.write(trace)
    except OSError as full:
        Output().note(trace)
        hint += f" with what stands above; it could not be written to a file ({full.strerror})"
    else:
        hint += f" and attach {log.name}"
    return f"this is a bug in skillrun ({summary})", hint
