"""Crash reports: the message for an internal error, and the log file to attach."""

from __future__ import annotations

import os

from skillrun.cli.output import Output


def write_crash_report(error: Exception) -> tuple[str, str]:
    """Write the traceback to a log file, or print it if that fails; return the message and the hint."""
    import tempfile
    import traceback

    from skillrun.models.redaction import Redactor

    redactor = Redactor.from_environment(os.environ)
    trace = redactor.redact_known_keys("".join(traceback.format_exception(error)))
    summary = redactor.redact_known_keys(traceback.format_exception_only(error)[0].strip().split("\n")[0])
    hint = "please report it"
    try:
        log = tempfile.NamedTemporaryFile(  # noqa: SIM115 (closed below; the file is kept)
            "w", encoding="utf-8", errors="backslashreplace", prefix="skillrun-", suffix=".log", delete=False
        )
        with log:
            log.write(trace)
    except OSError as full:
        Output().note(trace)
        hint += f" with the traceback above; it could not be written to a file ({full.strerror})"
    else:
        hint += f" and attach {log.name}"
    return f"this is a bug in skillrun ({summary})", hint
