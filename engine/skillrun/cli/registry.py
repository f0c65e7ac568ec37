"""The commands of skillrun: where each stands and its line in the help. A workflow cannot take one of these names."""

from types import MappingProxyType
from typing import Final, NamedTuple


class Entry(NamedTuple):
    place: str
    help: str


COMMANDS: Final = MappingProxyType(
    {
        "resume": Entry("skillrun.cli.resume:resume", "Go on with a run."),
        "runs": Entry("skillrun.cli.runs:runs", "List the runs."),
        "show": Entry("skillrun.cli.show:show", "One run at a glance."),
        "logs": Entry("skillrun.cli.logs:logs", "The events of a run."),
        "sizes": Entry("skillrun.cli.sizes:sizes", "How long the replies of runs were, for estimates."),
        "dev": Entry("skillrun.cli.dev:dev", "Run a workflow again on every save."),
        "validate": Entry("skillrun.cli.validate:validate", "Check every file, offline."),
        "list": Entry("skillrun.cli.listing:listing", "Workflows, protocols and roles."),
        "graph": Entry("skillrun.cli.graph:graph", "The phases of a workflow and what they need."),
        "render": Entry("skillrun.cli.render:render", "A prompt exactly as it would be sent."),
        "schema": Entry("skillrun.cli.schema:schema", "The shape of a file or record, as JSON Schema."),
        "hint": Entry("skillrun.cli.hint:hint", "What a prompt hook says about a prompt."),
        "trust": Entry("skillrun.cli.trust:trust", "What this project's files want, and whether they may."),
        "models": Entry("skillrun.cli.models:models", "What each model name means here."),
        "doctor": Entry("skillrun.cli.doctor:doctor", "What is missing on this machine."),
    }
)
