"""What comes of a check: the program that the interpreter runs, and what is known of a protocol in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillrun.language.check.record_reads import Read
from skillrun.language.files.definitions import Phase, Protocol, Workflow
from skillrun.language.library.library import Library
from skillrun.language.types.types import Type


@dataclass(frozen=True)
class Program:
    """A workflow with everything it uses, as the interpreter runs it.

    `reads` says which phases each phase reads, `inline` holds the workflows that its phases run. Of which phases what a
    model says of them is read: `summarised` by later phases of the round, `remembered` by later rounds; `recorded` is
    what is read of the records of single steps, and `records` whether any phase can put something on record at all.
    """

    workflow: Workflow
    phases: Mapping[str, Phase]
    config: Mapping[str, Any]
    engine: Mapping[str, Any]
    library: Library
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inline: Mapping[str, Program] = field(default_factory=dict)
    summarised: frozenset[str] = frozenset()
    remembered: frozenset[str] = frozenset()
    recorded: Read = field(default_factory=dict)
    records: bool = True


@dataclass(frozen=True)
class CheckedProtocol:
    protocol: Protocol
    outputs: Mapping[str, Type]
    writes: bool
    reads: frozenset[str]

    @property
    def reads_task(self) -> bool:
        return "task.*" in self.reads
